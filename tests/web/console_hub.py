"""A hub on a thread of its own, for a browser that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hub.running_hub import RawClient, RunningHub, child, running_hub
from hub.test_live import DECLARED, event, offer
from interlock.config.model_settings import HostSettings, ModelSettings
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    RoomSettings,
    ServerSettings,
    TimeoutSettings,
    TopicSettings,
)
from interlock.hub.upstreams.states import ServerState
from interlock.server import Server as ToolServer
from interlock.server import Tool
from protected_server import ProtectedServer

from .console_issuer import ConsoleIssuer

Result = TypeVar("Result")
ROOMS = RoomSettings(
    topics={"build": TopicSettings(visibility="restricted", kinds={"person": "full-access"}, servers=("busy",))}
)


class HubInThread:
    """A hub on a thread of its own, for a browser that blocks. The texts of its servers are `hostile`."""

    def __init__(self, home: Path, hostile: str = "") -> None:
        self._home = home
        self._hostile = hostile
        self.issuer: ConsoleIssuer
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._coder: RawClient | None = None
        self.hub: RunningHub

    def do(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do something on the hub's loop."""

        async def run() -> Result:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)

    def ask(self, text: str) -> None:
        """Have an agent make a call that asks."""
        self.do(lambda: call(self.hub, text))

    def in_room(self, tool: str, **arguments: Any) -> None:
        """Have an agent use a tool for rooms."""
        answer = self.do(lambda: self._use(tool, arguments))
        assert not answer["result"].get("isError"), answer

    async def _use(self, tool: str, arguments: dict[str, Any]) -> Any:
        self._coder = self._coder or RawClient(self.hub.url + "/mcp", self.hub.key("coder"))
        return await self._coder.modern("tools/call", {"name": tool, "arguments": {"room": "build", **arguments}})

    def push(self, id: str) -> None:
        """Have a server push an event with a hostile text."""

        async def call() -> Any:
            driver = RawClient(self.hub.url + "/mcp", self.hub.key("driver"))
            pushed = {"events": [event(id, text=self._hostile)]}
            return await driver.modern("tools/call", {"name": "news__push", "arguments": pushed})

        self.do(call)

    def converse(self) -> str:
        """The id of a conversation in which both sides said hostile texts."""

        async def talk() -> str:
            conversation = await self.hub.host.create()
            turn = await self.hub.host.send(conversation, self._hostile)
            assert self._hostile[:8] in await turn.answer()
            return str(conversation.id)

        return self.do(talk)

    def code(self) -> str:
        operations = self.hub.operations
        made: Any = self.do(lambda: operations.perform(operations.hub_user, "console.code", b'{"terminal":true}'))
        return str(made.code)

    @property
    def address(self) -> str:
        return f"{self.hub.operations.console.address.origin}/console"

    @contextlib.contextmanager
    def running(self) -> Iterator[HubInThread]:
        thread = threading.Thread(target=asyncio.run, args=(self._main(),))
        thread.start()
        try:
            assert self._ready.wait(60)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join(30)

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._home.mkdir(parents=True, exist_ok=True)
        script = self._home / "script.json"
        script.write_text(json.dumps([{"text": self._hostile}]))
        feature = {"news.push": {"description": self._hostile or "News", "uses": ["pushEvents"]}}
        try:
            async with (
                ConsoleIssuer() as self.issuer,
                _hostile_server(self._hostile or "quiet").http() as evil,
                ProtectedServer() as protected,
            ):
                settings = self.issuer.hub(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
                servers = {
                    "busy": child("busy_server.py"),
                    "news": child("live_server.py", offer(featureSets={**DECLARED, **feature}), "{}"),
                }
                servers["docs"] = ServerSettings(url=protected.url, start="on-demand")
                if self._hostile:
                    servers["evil"] = ServerSettings(url=evil.url)
                tables: dict[str, Any] = {
                    "agents": {"careful": AgentSettings(ask=("busy__ec*",))},
                    "rooms": ROOMS,
                    "models": {"toy": ModelSettings(kind="scripted", script=str(script))},
                    "host": HostSettings(model="toy"),
                }
                async with running_hub(self._home, servers, wait=False, hub=settings, **tables) as self.hub:
                    for server in servers.keys() - {"docs"}:  # That one waits for a login.
                        await self.hub.state(server, ServerState.CONNECTED)
                    self._ready.set()
                    await self._over.wait()
        finally:
            self._ready.set()


def _hostile_server(text: str) -> ToolServer:
    server = ToolServer(text, text, instructions=text)

    def tool(word: str) -> str:
        return text

    server.add_tool(Tool(tool, name="flagged", title=text, description=text))
    # Without hidden characters it is not quarantined.
    markup = "".join(char for char in text if char.isprintable())
    server.add_tool(Tool(tool, name="plain", title=markup, description=f"A plain tool. {markup}"))
    return server


async def call(hub: RunningHub, text: str) -> Any:
    params = {"name": "busy__echo", "arguments": {"text": text}}
    return await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", params)
