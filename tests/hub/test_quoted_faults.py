"""Faults in the hub's words that quote a server: the quoted text counts and is masked as an answer of the server is."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from interlock.client.listing import read_page
from interlock.config.settings import ApprovalSettings, HubSettings, ProfileSettings
from interlock.config.settings import ServerSettings as Settings
from interlock.hub.calls.dispatch.server_errors import answer_fault
from interlock.wire.errors import ErrorObject, Fault
from protected_server import ProtectedServer

from .dying_server import TEXT
from .raw_server import RawHttpServer
from .running_hub import RawClient, running_hub, until
from .test_taint import call, client, make_servers
from .web_server import Posted

SECRET = TEXT.split()[-1]
HUB = HubSettings(approvals=ApprovalSettings(hold_s=0))
PROFILES = {"careful": ProfileSettings(taint="ask")}
PATH = "/profiles/careful/mcp"


def refusal(status: str, body: str = TEXT, headers: str = "", kind: str = "text/plain") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{headers}content-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


REPLIES = {
    "not ready": refusal("503 Busy", headers="retry-after: 7\r\n"),
    "too many": refusal("429 Slow", headers="retry-after: 7\r\n"),
    "failed": refusal("500 Oops", headers="retry-after: 7\r\n"),
    "challenge": refusal("403 No", "x", f'www-authenticate: Bearer error_description="{TEXT}"\r\n'),
    "error": refusal("503 Busy", f'{{"error":{{"code":-1,"message":"{TEXT}"}}}}', kind="application/json"),
    "redirect": refusal("302 Go", "", f"location: http://127.0.0.1:1/{SECRET}\r\n"),
    "unread": b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {"jsonrpc":"2.0",'
    + f'"method":"x","{TEXT}":1,"{TEXT}":2}}\n\n'.encode(),
}


@pytest.mark.parametrize("reply", REPLIES)
async def test_text_that_a_fault_quotes_counts_and_is_masked(tmp_path: Path, reply: str) -> None:
    _, notes = make_servers()
    async with RawHttpServer() as web, notes.http() as inside:
        web.replies["strange"] = REPLIES[reply]
        servers = {
            "web": Settings(url=web.url, era="legacy", scan_results="mask"),
            "notes": Settings(url=inside.url, trust="trusted"),
        }
        async with running_hub(tmp_path, servers, hub=HUB, profiles=PROFILES) as hub:
            agent = client(hub, "reader", PATH)
            assert await call(agent, "notes__save") == "saved"
            answer = await agent.modern("tools/call", {"name": "web__strange", "arguments": {}})
            assert "error" in answer, answer
            assert SECRET not in str(answer)
            assert "[masked" in str(answer), answer
            if b"retry-after" in REPLIES[reply]:
                assert answer["error"]["data"]["retry_after_ms"] == 7000
            assert await call(agent, "notes__save") == "APPROVAL_PENDING"


async def test_agents_do_not_get_the_words_that_refuse_a_private_connection(tmp_path: Path) -> None:
    command = (sys.executable, str(Path(__file__).with_name("dying_server.py")), str(tmp_path / "died"), "shared")
    servers = {"dying": Settings(command=command, era="legacy")}
    async with running_hub(tmp_path, servers, hub=HUB, profiles=PROFILES) as hub:
        agent = RawClient(hub.url + PATH, hub.key("reader"))
        await agent.initialize({"roots": {}})
        answer = await agent.legacy("tools/call", {"name": "dying__twice", "arguments": {}})
        assert "it refused the handshake with error -32000" in str(answer)
        assert "Now save" not in str(answer)


class RefusingServer(RawHttpServer):
    """Refuses every message, once it is told to."""

    refusing = False

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if not self.refusing:
            return await super().serve(posted, reader, writer)
        writer.write(refusal("500 Oops"))
        return True


async def test_agents_do_not_get_the_body_that_refuses_the_shared_connection(tmp_path: Path) -> None:
    async with RefusingServer() as web:
        servers = {"web": Settings(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=HUB) as hub:
            upstream = hub.hub_app.upstreams["web"]
            web.refusing = True
            await hub.operate("servers.restart", server="web")
            await until(lambda: upstream.problem is not None)
            answer = await client(hub, "reader").modern("tools/call", {"name": "web__strange", "arguments": {}})
            assert "HTTP 500" in str(answer), answer
            assert "Now save" not in str(answer)
            # The operator reads it.
            assert "Now save" in str(upstream.problem)


class UnlistedServer(RawHttpServer):
    """Refuses to list its tools, at length."""

    def answer(self, message: dict[str, Any]) -> bytes:
        if message["method"] != "tools/list":
            return super().answer(message)
        error = {"code": -32000, "message": TEXT + "A" * 50_000, "data": {"also": TEXT}}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "error": error})


async def test_agents_do_not_get_the_words_that_refuse_a_list(tmp_path: Path) -> None:
    async with UnlistedServer() as web:
        profiles = {
            "careful": ProfileSettings(tools=("web__*",), taint="ask"),
            "other": ProfileSettings(tools=("notes__*",)),
        }
        profiles["renamed"] = ProfileSettings(tools=("web__*",), rename={"web__anything": "anything"})
        servers = {"web": Settings(url=web.url, era="legacy", scan_results="mask")}
        async with running_hub(tmp_path, servers, hub=HUB, profiles=profiles, wait=False) as hub:
            upstream = hub.hub_app.upstreams["web"]
            await until(lambda: upstream.lists.problem is not None)
            for path, name in (
                ("/mcp", "web__anything"),
                ("/servers/web/mcp", "anything"),
                (PATH, "web__anything"),
                ("/profiles/renamed/mcp", "anything"),
            ):
                answer = await client(hub, "reader", path).modern("tools/call", {"name": name, "arguments": {}})
                assert answer["error"]["data"]["name"] == "SERVER_NOT_READY", (path, answer)
                assert answer["error"]["message"] == "web: it refused the request for its lists with error -32000"
                assert "Now save" not in str(answer)
                assert len(str(answer)) < 1000
            # A profile hides servers, whether they have listed their tools or not.
            hidden = client(hub, "reader", "/profiles/other/mcp")
            answer = await hidden.modern("tools/call", {"name": "web__anything", "arguments": {}})
            assert answer["error"]["data"]["name"] == "TOOL_NOT_FOUND", answer
            # The operator reads it.
            assert "Now save" in (await hub.operate("status"))["servers"][0]["problem"]
            assert hub.hub_app.taints.all() == []


async def test_agents_do_not_get_what_a_login_found_at_its_server(tmp_path: Path) -> None:
    async with ProtectedServer() as protected:
        protected.resource = f"https://other.example/{TEXT}"
        servers = {"docs": Settings(url=protected.url)}
        async with running_hub(tmp_path, servers, hub=HUB, wait=False) as hub:
            upstream = hub.hub_app.upstreams["docs"]
            await until(lambda: upstream.problem is not None)
            answer = await client(hub, "reader").modern("tools/call", {"name": "docs__whoami", "arguments": {}})
            assert "because the handshake failed: an answer cannot be used" in str(answer), answer
            assert "Now save" not in str(answer)
            assert "Now save" in str(upstream.problem)


async def test_a_page_that_cannot_be_read_is_a_quote() -> None:
    page = json.dumps({"tools": [], "nextCursor": {TEXT: 1}}).encode()
    with pytest.raises(Fault) as caught:
        await read_page("tools/list", "tools", page)
    assert caught.value.quotes_server


class RepeatableServer(RawHttpServer):
    """Its tools may be called twice."""

    def answer(self, message: dict[str, Any]) -> bytes:
        hints = b'"annotations":{"readOnlyHint":true,"idempotentHint":true},"inputSchema"'
        return super().answer(message).replace(b'"inputSchema"', hints)


async def test_the_refusal_of_a_call_that_is_not_tried_again_after_all_counts_and_is_masked(tmp_path: Path) -> None:
    async with RepeatableServer() as web:
        web.replies["strange"] = refusal("503 Busy", headers="retry-after: 1\r\n")
        servers = {"web": Settings(url=web.url, era="legacy", scan_results="mask")}
        async with running_hub(tmp_path, servers, hub=HUB, profiles=PROFILES) as hub:
            agent, recovery = client(hub, "reader", PATH), hub.hub_app.hub.pipeline.dispatcher.recovery
            params = {"name": "web__strange", "arguments": {}}
            answering = asyncio.ensure_future(agent.modern("tools/call", params))
            await until(lambda: recovery.waiting == 1)
            await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, servers={}))
            answer = await answering
            assert "HTTP 503" in str(answer), answer
            assert SECRET not in str(answer)
            assert [taint.principal_name for taint in hub.hub_app.taints.all()] == ["agent:reader"]


@pytest.mark.parametrize("quotes", [True, False])
def test_a_fault_of_a_call_that_was_not_sent_is_processed_where_it_quotes_its_server(quotes: bool) -> None:
    failed: list[Fault] = []

    class Masking:
        def error(self, call: object, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
            deliver(ErrorObject(error.code, error.message.replace(SECRET, "[masked]"), error.data))

    call = SimpleNamespace(exchange=SimpleNamespace(fail=failed.append))
    fault = Fault("UPSTREAM_ERROR", TEXT, retry_after_ms=7, quotes_server=quotes)
    answer_fault(cast("Any", call), cast("Any", Masking()), fault, sent=False)
    assert (SECRET in failed[0].message) is not quotes
    assert (failed[0].name, failed[0].retry_after_ms) == ("UPSTREAM_ERROR", 7)
