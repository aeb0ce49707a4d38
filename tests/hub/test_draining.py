"""A hub that drains after SIGTERM keeps its addresses open, and says there that it drains."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from interlock.config.home import socket_path
from interlock.config.load import load
from interlock.config.settings import Config
from interlock.hub.readiness import Readiness
from interlock.web.run import Ready, serve
from waiting import until

from .modern_client import CAPABILITIES
from .raw_server import RawHttpServer
from .running_hub import MGP, MODERN, PREFIX, RawClient, text_of
from .test_waiting_for_a_server import OK
from .web_server import Posted


class Slow(RawHttpServer):
    """Answers no call until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.gate = asyncio.Event(), asyncio.Event()

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if posted.message["method"] == "tools/call":
            self.reached.set()
            await self.gate.wait()
        return await super().serve(posted, reader, writer)


@contextlib.asynccontextmanager
async def served(tmp_path: Path, web: Slow) -> AsyncIterator[tuple[Path, str]]:
    """A hub in a home of its own, and its address. It has ended after SIGTERM, in the end."""
    # A short path: the name of a socket has no room for a long one.
    with tempfile.TemporaryDirectory(prefix="il") as folder:
        home = Path(folder)
        (home / "run").mkdir()
        file = tmp_path / "interlock.toml"
        file.write_text(f'[hub]\nlisten = "127.0.0.1:0"\n[servers.web]\nurl = "{web.url}"\nera = "legacy"\n')
        started: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(serve(load(file, home=home, environ={}).config, home, started.set_result))
        await asyncio.wait({started, serving}, return_when=asyncio.FIRST_COMPLETED)
        yield home, f"http://{started.result().listen}"
        await asyncio.wait_for(serving, 120)


async def test_a_hub_that_drains_tells_new_clients_so_until_its_last_call_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Readiness, "stop", partialmethod(Readiness.stop, drain_s=120.0))
    async with Slow() as web, served(tmp_path, web) as (_, url):
        client = RawClient(f"{url}/mcp")
        open_call = asyncio.ensure_future(client.modern("tools/call", OK))
        await web.reached.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        ready = RawClient(f"{url}/readyz")

        async def refused() -> Any:
            answer = await ready.send("GET")
            return answer if answer[0] != 200 else None

        answer = await until(refused)
        assert (answer[0], b'"reason":"stopping"' in answer[2]) == (503, True)
        refused = await client.modern("tools/call", {**OK, "_meta": {CAPABILITIES: MGP}})
        assert (refused["error"]["code"], refused["error"]["data"]["_mgp"]["retry_after_ms"] > 0) == (2001, True)
        assert not open_call.done()
        web.gate.set()
        assert text_of(await open_call) == "fine"


async def test_a_call_of_the_stateless_era_on_the_control_socket_is_answered_when_the_hub_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Readiness, "stop", partialmethod(Readiness.stop, drain_s=0.1))
    async with Slow() as web, served(tmp_path, web) as (home, _):
        reader, writer = await asyncio.open_unix_connection(str(socket_path(home)))
        meta = {f"{PREFIX}protocolVersion": MODERN, CAPABILITIES: {}}
        for id_, method, params in (
            (0, "interlock/hello", {"role": "stdio"}),
            (1, "tools/call", {**OK, "_meta": meta}),
        ):
            said = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
            writer.write(json.dumps(said).encode() + b"\n")
        assert json.loads(await reader.readline())["result"]["message_bytes"] == Config().hub.limits.message_bytes
        await web.reached.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        answer = json.loads(await asyncio.wait_for(reader.readline(), 120))
        assert (answer["id"], answer["error"]["data"]["name"]) == (1, "OUTCOME_UNKNOWN")
        writer.close()
        web.gate.set()
