"""The ASGI application beside the endpoint: its life (ASGI, Lifespan Protocol), its state and its requests."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from interlock.transports.http.server.asgi import AsgiRequest
from interlock.transports.sessions.session import SERVER_STOPS, SessionEnd

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

log = logging.getLogger("interlock.http")


OPEN_EXCHANGES: Final = "interlock.open_exchanges"
"""The extension of ASGI by which an application adds a request to those that are answered when the server stops."""


class LongRequest(Protocol):
    """A request that is open for long."""

    def abort(self, end: SessionEnd) -> None:
        """Answer that the server stops, and stop the work."""


class AsgiApplication:
    """One application. Without `lifespan` its owner starts and stops it."""

    def __init__(self, app: ASGIApp, *, lifespan: bool = False) -> None:
        self.state: dict[str, Any] = {}
        """Set by the application when it starts; each request has a copy."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._open_exchanges: WeakSet[LongRequest] = WeakSet()
        self._app = app
        self._lifespan = _Lifespan(app, self.state) if lifespan else None

    def begin(self, request: AsgiRequest) -> None:
        """Have it answer a request."""
        request.scope["extensions"] = {OPEN_EXCHANGES: self._open_exchanges}
        request.scope["state"] = self.state.copy()
        task = asyncio.get_running_loop().create_task(request.run(self._app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def start(self) -> bool:
        """Start it. Returns whether it started; always True without lifespan."""
        return self._lifespan is None or await self._lifespan.start()

    def abort_exchanges(self) -> None:
        """Have it answer the requests that are open for long."""
        for exchange in list(self._open_exchanges):
            exchange.abort(SERVER_STOPS)

    async def stop(self) -> None:
        """End its requests and its life."""
        for task in self.tasks:
            task.cancel()
        if self._lifespan is not None:
            await self._lifespan.stop()


class _Lifespan:
    """The conversation with an application about its start and its end."""

    def __init__(self, app: ASGIApp, state: dict[str, Any]) -> None:
        self._app = app
        self._state = state
        self._asked: asyncio.Queue[Message] = asyncio.Queue()
        self._said: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> bool:
        """Ask it to start. False if it says that it failed."""
        self._task = asyncio.create_task(self._run())
        self._asked.put_nowait({"type": "lifespan.startup"})
        return await self._said.get() != "lifespan.startup.failed"

    async def stop(self) -> None:
        """Ask it to end, if it takes part in the lifespan protocol."""
        if self._task is not None and not self._task.done():
            self._asked.put_nowait({"type": "lifespan.shutdown"})
            await self._said.get()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        try:
            await self._app(scope, self._asked.get, self._send)
        except BaseException as cause:  # an application may refuse this protocol by any exception
            log.info("the application does not support the lifespan protocol: %r", cause)
        finally:
            self._said.put_nowait("ended")

    async def _send(self, message: Message) -> None:
        if text := message.get("message"):
            log.error("%s: %s", message["type"], text)
        self._said.put_nowait(message["type"])
