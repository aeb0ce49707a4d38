"""A call that waits for its server is judged by what holds when it goes out, not by what held when it came."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    ServerSettings,
    TimeoutSettings,
    ToolSettings,
    ValidationSettings,
)
from interlock.hub.auth.principals import local_person
from interlock.hub.calls.gates.validator_checks import FIND_HERE
from interlock.hub.judging_threads import THREADS
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.upstream import Upstream
from interlock.transports.http.client.link import HttpLink

from .people import read_and_answer
from .raw_server import RawHttpServer
from .running_hub import PREFIX, RawClient, RunningHub, running_hub, text_of, until
from .web_server import Posted

ADA = local_person("ada")


class Gated(RawHttpServer):
    """Does not say who it is, or what it offers, until it is let."""

    def __init__(self, *, modern: bool = False) -> None:
        super().__init__(modern=modern)
        self.gate = asyncio.Event()
        self.gate.set()

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if posted.message["method"] in ("initialize", "server/discover", "tools/list"):
            await self.gate.wait()
        return await super().serve(posted, reader, writer)


@asynccontextmanager
async def starting(tmp_path: Path) -> AsyncIterator[tuple[RunningHub, Gated, str]]:
    """A hub that knows a server, which is just being started again; and the key of an agent."""
    settings = HubSettings(approvals=ApprovalSettings(hold_s=600.0))
    async with (
        Gated() as web,
        running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}, hub=settings) as hub,
    ):
        key = await hub.new_key("ci")
        web.gate.clear()
        await hub.operate("servers.restart", server="web")
        await until(lambda: hub.hub_app.upstreams["web"].pool.shared is None)
        yield hub, web, key


async def _revoke(hub: RunningHub) -> None:
    await hub.operate("keys.revoke", agent="ci")


async def _deny(hub: RunningHub) -> None:
    await hub.deny("ci", "web", "ok")


CHANGES: dict[str, tuple[Callable[[RunningHub], Awaitable[None]], str]] = {
    "its key is taken back": (_revoke, "AUTH_REQUIRED"),
    "the tool is denied to it": (_deny, "TOOL_NOT_FOUND"),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_call_that_waits_is_refused_for_what_changed_meanwhile(tmp_path: Path, what: str) -> None:
    change, reason = CHANGES[what]
    async with starting(tmp_path) as (hub, web, key):
        waiting = asyncio.ensure_future(RawClient(hub.url + "/mcp", key).modern("tools/call", OK))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        await change(hub)
        web.gate.set()
        assert (await waiting)["error"]["data"]["name"] == reason
        assert web.called == 0
        assert hub.hub_app.hub.open_calls == 0


async def test_a_call_that_waits_is_asked_about_where_a_person_is_to_be_asked_by_then(tmp_path: Path) -> None:
    async with starting(tmp_path) as (hub, web, key):
        waiting = asyncio.ensure_future(RawClient(hub.url + "/mcp", key).modern("tools/call", OK))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        await hub.hub_app.apply(
            msgspec.structs.replace(hub.hub_app.config, agents={"ci": AgentSettings(ask=("web__ok",))})
        )
        web.gate.set()
        (decision,) = await until(lambda: hub.hub_app.inbox.all(only_open=True))
        assert (web.called, hub.hub_app.hub.open_calls) == (0, 0)
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert text_of(await waiting) == "fine"
        assert (web.called, hub.hub_app.hub.open_calls) == (1, 0)


async def test_a_call_that_waits_is_made_where_nothing_changed_for_it(tmp_path: Path) -> None:
    async with starting(tmp_path) as (hub, web, key):
        waiting = asyncio.ensure_future(RawClient(hub.url + "/mcp", key).modern("tools/call", OK))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        await hub.deny("somebody else", "web")
        web.gate.set()
        assert text_of(await waiting) == "fine"
        assert web.called == 1


async def test_arguments_are_held_to_what_the_tool_says_now(tmp_path: Path) -> None:
    async with starting(tmp_path) as (hub, web, key):
        waiting = asyncio.ensure_future(RawClient(hub.url + "/mcp", key).modern("tools/call", OK))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        web.schema = {"type": "object", "required": ["more"]}
        web.gate.set()
        answer = await waiting
        assert "fine" not in str(answer), answer
        assert web.called == 0


async def test_a_tool_that_the_operator_denies_is_not_called_while_its_server_starts_again(tmp_path: Path) -> None:
    async with starting(tmp_path) as (hub, web, key):
        web.gate.set()
        await until(lambda: hub.hub_app.upstreams["web"].pool.shared is not None)
        web.gate.clear()
        config = hub.hub_app.config
        settings = msgspec.structs.replace(config.servers["web"], tools=ToolSettings(deny=("ok",)))
        await hub.hub_app.apply(msgspec.structs.replace(config, servers={"web": settings}))
        waiting = asyncio.ensure_future(RawClient(hub.url + "/mcp", key).modern("tools/call", OK))
        await until(lambda: hub.hub_app.hub.open_calls == 1 or waiting.done())
        web.gate.set()
        assert (await waiting)["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert web.called == 0


async def test_a_call_that_waits_for_a_new_session_is_judged_again_too(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(Gated())
        web.session = "one"
        hub = await stack.enter_async_context(running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}))
        web.gate.clear()
        web.replies["strange"] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.modern("tools/call", {**OK, "name": "web__strange"})
        assert web.called == 1
        denied = asyncio.ensure_future(client.modern("tools/call", OK))
        other = asyncio.ensure_future(RawClient(hub.url + "/mcp").modern("tools/call", OK))
        await until(lambda: hub.hub_app.hub.open_calls == 2)
        await hub.deny("ci", "web", "ok")
        web.gate.set()
        assert (await denied)["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert text_of(await other) == "fine"
        assert web.called == 2
        assert hub.hub_app.hub.open_calls == 0


async def test_a_call_waits_for_all_of_its_connections_no_longer_than_its_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Gated() as web, AsyncExitStack() as stack:
        settings = HubSettings(timeouts=TimeoutSettings(start_s=120, tool_s=1.0))
        servers = {"web": ServerSettings(url=web.url, era="legacy")}
        hub = await stack.enter_async_context(running_hub(tmp_path, servers, hub=settings))
        open_connection = Upstream.open_connection

        async def slowly(upstream: Upstream, key: ConnectionKey | None) -> UpstreamConnection:
            await asyncio.sleep(0.6)
            return await open_connection(upstream, key)

        monkeypatch.setattr(Upstream, "open_connection", slowly)
        answers = {f"{PREFIX}clientCapabilities": {"elicitation": {}}}
        answer = await RawClient(hub.url + "/mcp").modern("tools/call", {**OK, "_meta": answers})
        assert answer["error"]["data"]["name"] == "SERVER_NOT_READY"
        assert web.called == 0


async def test_a_request_that_waits_takes_the_connection_that_fits_the_era_of_its_server(tmp_path: Path) -> None:
    """A client that answers servers has a connection of its own to a server of the handshake era, and only there."""
    async with Gated(modern=True) as web:
        web.gate.clear()
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, wait=False) as hub:
            upstream, client = hub.hub_app.upstreams["web"], RawClient(hub.url + "/mcp")
            answers = {f"{PREFIX}clientCapabilities": {"elicitation": {}}}
            params = {"uri": "interlock://web/note://one", "_meta": answers}
            waiting = asyncio.ensure_future(client.modern("resources/read", params))
            await until(lambda: hub.hub_app.hub.open_calls == 1)
            assert not upstream.pool.modern, "its era is not known yet"
            web.gate.set()
            assert "result" in await waiting
            assert upstream.pool.modern
            assert len(upstream.pool.connections()) == 1


async def test_a_call_that_waits_for_its_checks_is_refused_for_what_changed_meanwhile(tmp_path: Path) -> None:
    async with Gated() as web, AsyncExitStack() as stack:
        web.schema = {"type": "object", "properties": {"command": {"type": "string"}}}
        servers = {
            "web": ServerSettings(url=web.url, era="legacy", validators={"ok": ValidationSettings(use=("sandbox",))})
        }
        settings = HubSettings(timeouts=TimeoutSettings(start_s=120, validation_s=60))
        hub = await stack.enter_async_context(running_hub(tmp_path, servers, hub=settings))
        key = await hub.new_key("ci")
        client, may_judge = RawClient(hub.url + "/mcp", key), threading.Event()
        names = [f"agent:{number}" for number in range(THREADS)]
        settled = [
            asyncio.ensure_future(hub.hub_app.judging.run_check(principal_name, may_judge.wait))
            for principal_name in names
        ]
        try:
            waiting = asyncio.ensure_future(client.modern("tools/call", LONG))
            await until(lambda: hub.hub_app.hub.pipeline.waiting == 1)
            await hub.deny("ci", "web", "ok")
            assert not waiting.done()
        finally:
            may_judge.set()
        answer = await waiting
        assert answer["error"]["data"]["name"] == "SERVER_RESTARTING"
        assert web.called == 0
        assert all(await asyncio.gather(*settled))


async def test_a_lost_session_is_opened_again_though_the_server_hung_up_with_the_news(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(Gated())
        web.session = "one"
        hub = await stack.enter_async_context(running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}))
        web.session = "two"
        # The connection is closed after this, and nothing said so.
        web.replies["strange"] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        connection = hub.hub_app.upstreams["web"].pool.connections()[0]
        link = connection.link
        assert isinstance(link, HttpLink)
        assert link.session_id == "one"
        answer = await RawClient(hub.url + "/mcp").modern("tools/call", {**OK, "name": "web__strange"})
        assert "lost its session" in answer["error"]["message"]
        await until(lambda: connection.reopening is None)
        assert link.session_id == "two"


LONG: dict[str, Any] = {"name": "web__ok", "arguments": {"command": "echo a", "text": "a" * FIND_HERE}}
"""A call whose arguments are checked in a thread."""
OK: dict[str, Any] = {"name": "web__ok", "arguments": {"text": "x"}}
