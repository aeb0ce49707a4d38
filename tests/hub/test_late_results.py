"""Results of calls whose client had gone, as the identical call gets them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import MaskSettings, ValidationSettings
from interlock.config.settings import ServerSettings as Settings
from interlock.hub.calls.late_results import MARK

from .raw_server import RawHttpServer
from .running_hub import RawClient, RunningHub, running_hub, text_of, until
from .web_server import Posted

CALL = {"name": "web__ok", "arguments": {"n": 1}}
SECRET = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


class WaitingServer(RawHttpServer):
    """Answers calls of `ok` with a result, once it may."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__()
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "result": result}).replace('"id": 0', '"id":%ID%')
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %LENGTH%\r\n\r\n"
        self.replies["ok"] = (head + body).encode()
        self.waiting = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if posted.message["method"] == "tools/call":
            self.waiting.set()
            await self.may_answer.wait()
        return await super().serve(posted, reader, writer)


async def call_and_go(hub: RunningHub, web: WaitingServer, client: RawClient, call: dict[str, Any] = CALL) -> None:
    """A client makes the call and is gone before its result comes."""
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}).encode()
    _, writer = await asyncio.open_connection(client.host, int(client.port))
    head = f"POST /mcp HTTP/1.1\r\nhost: {client.host}:{client.port}\r\ncontent-type: application/json\r\n"
    head += "accept: application/json, text/event-stream\r\n"
    head += f"authorization: Bearer {client.key}\r\nmcp-session-id: {client.session}\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    await web.waiting.wait()
    (session,) = hub.hub_app.hub.clients.sessions
    (exchange,) = session.channel.opened.values()
    writer.close()
    await until(lambda: not exchange.reachable)
    web.may_answer.set()
    await until(lambda: hub.hub_app.hub.open_calls == 0)


@pytest.mark.parametrize("meta", [None, {"a": 1}])
async def test_the_identical_call_gets_a_result_whatever_its_meta_is(tmp_path: Path, meta: object) -> None:
    async with WaitingServer({"content": [{"type": "text", "text": "done"}], "_meta": meta}) as web:
        async with running_hub(tmp_path, {"web": Settings(url=web.url, era="legacy")}) as hub:
            client = RawClient(hub.url + "/mcp", hub.key("ci"))
            await client.initialize()
            await call_and_go(hub, web, client)
            answer = await client.legacy("tools/call", CALL)
            assert text_of(answer) == "done"
            assert answer["result"]["_meta"].items() >= (meta or {}).items()  # type: ignore[attr-defined]
            assert MARK in answer["result"]["_meta"]
            assert web.called == 1


@pytest.mark.parametrize(
    "settings",
    [{"mask": MaskSettings(arguments=True)}, {"validators": {"ok": ValidationSettings(use=("network_restricted",))}}],
)
async def test_an_identical_call_whose_checks_take_time_gets_the_result(tmp_path: Path, settings: Any) -> None:
    call = {"name": "web__ok", "arguments": {"text": "a word " * 4000}}
    async with WaitingServer({"content": [{"type": "text", "text": "done"}]}) as web:
        async with running_hub(tmp_path, {"web": Settings(url=web.url, era="legacy", **settings)}) as hub:
            client = RawClient(hub.url + "/mcp", hub.key("ci"))
            await client.initialize()
            await call_and_go(hub, web, client, call)
            answer = await client.legacy("tools/call", call)
            assert text_of(answer) == "done", answer
            assert MARK in answer["result"].get("_meta", {})
            assert web.called == 1


async def test_a_result_kept_before_its_server_was_masked_is_masked(tmp_path: Path) -> None:
    async with WaitingServer({"content": [{"type": "text", "text": f"key {SECRET}"}]}) as web:
        async with running_hub(tmp_path, {"web": Settings(url=web.url, era="legacy")}) as hub:
            client = RawClient(hub.url + "/mcp", hub.key("ci"))
            await client.initialize()
            await call_and_go(hub, web, client)
            config = hub.hub_app.config
            masked = msgspec.structs.replace(config.servers["web"], scan_results="mask")
            await hub.hub_app.apply(msgspec.structs.replace(config, servers={"web": masked}))
            answer = await client.legacy("tools/call", CALL)
            assert MARK in answer["result"]["_meta"], answer
            assert SECRET not in str(answer)
            assert web.called == 1
