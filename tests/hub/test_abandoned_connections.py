"""Private connections whose callers leave while they open: each is closed, and its place is given back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from interlock.config.settings import HubSettings, LimitSettings, TimeoutSettings

from .modern_client import ModernClient
from .running_hub import RawClient, RunningHub, child, running_hub, text_of, until
from .test_sharing import ended

SETTINGS = HubSettings(
    timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60),
    limits=LimitSettings(private_sessions_per_server=1),
)
CALL = {"name": "a__do", "arguments": {}}


async def held(folder: Path) -> int:
    """The process that does not answer now."""
    await until((folder / "held").exists)
    pid = int((folder / "held").read_text())
    (folder / "held").unlink()
    return pid


async def client_of(hub: RunningHub, principal: str) -> ModernClient:
    client = ModernClient(hub.url + "/mcp", {}, await hub.new_key(principal))
    client.capabilities = {"elicitation": {}}
    return client


async def test_a_connection_that_opens_after_its_caller_left_is_closed_when_it_is_idle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    servers = {"a": child("holding_server.py", str(tmp_path), "initialize", era="legacy")}
    async with running_hub(tmp_path, servers, hub=SETTINGS) as hub:
        private = hub.hub_app.upstreams["a"].pool.private
        leaving = asyncio.ensure_future((await client_of(hub, "mallory")).call("a__do"))
        pid = await held(tmp_path)
        leaving.cancel()
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        await asyncio.to_thread((tmp_path / "go").write_text, "")
        await until(lambda: len(private.open_connections()) == 1)
        assert text_of(await (await client_of(hub, "alice")).call("a__do")) == "done", "an idle connection gives way"
        await until(lambda: ended(pid))


async def test_a_connection_that_opens_when_its_session_ends_is_closed(tmp_path: Path) -> None:
    await ends_with_its_session(tmp_path, "initialize")


async def test_a_connection_whose_server_does_not_answer_for_a_log_level_ends_with_its_session(tmp_path: Path) -> None:
    await ends_with_its_session(tmp_path, "logging/setLevel")


async def ends_with_its_session(folder: Path, method: str) -> None:
    servers = {"a": child("holding_server.py", str(folder), method, era="legacy")}
    async with running_hub(folder, servers, hub=SETTINGS) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.initialize({"elicitation": {}})
        await client.legacy("logging/setLevel", {"level": "info"})
        call = asyncio.ensure_future(client.legacy("tools/call", CALL))
        pid = await held(folder)
        status, _, _ = await client.send("DELETE")
        assert status in (200, 202, 204)
        await until(lambda: ended(pid))
        call.cancel()
