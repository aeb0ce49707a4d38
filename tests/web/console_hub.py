"""A hub on a thread of its own, for a browser that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from hub.running_hub import RawClient, RunningHub, child, running_hub
from hub.test_live import offer
from interlock.config.settings import Agent, Approvals, Hub, Rooms, Timeouts, Topic

Result = TypeVar("Result")
ROOMS = Rooms(topics={"build": Topic(visibility="restricted", kinds={"person": "full-access"}, servers=("busy",))})


class HubInThread:
    """A hub on a thread of its own, for a browser that blocks."""

    def __init__(self, home: Path) -> None:
        self._home = home
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

    def code(self) -> str:
        operations = self.hub.operations
        made: Any = self.do(lambda: operations.perform(operations.owner, "console.code", b'{"terminal":true}'))
        return str(made.code)

    @property
    def address(self) -> str:
        return f"{self.hub.operations.console.address}/console"

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
        settings = Hub(timeouts=Timeouts(start_s=120), approvals=Approvals(hold_s=0))
        agents = {"careful": Agent(ask=("busy__ec*",))}
        servers = {"busy": child("busy_server.py"), "news": child("live_server.py", offer(), "{}")}
        try:
            async with running_hub(self._home, servers, hub=settings, agents=agents, rooms=ROOMS) as self.hub:
                self._ready.set()
                await self._over.wait()
        finally:
            self._ready.set()


async def call(hub: RunningHub, text: str) -> Any:
    params = {"name": "busy__echo", "arguments": {"text": text}}
    return await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", params)
