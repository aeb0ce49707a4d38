"""Runs a server as a process of its own, and serves standard streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from interlock.server.requests.callers import Anyone
from interlock.server.requests.session import Service
from interlock.transports.stdio.streams import serve_standard_streams


class ClosableService(Service, Protocol):
    """A service with a name that ends its open work when it is closed."""

    name: str

    async def wait_for_shutdown(self) -> None:
        """Wait until the client asked it to shut down, and its calls are done."""

    def close(self) -> None:
        """End open streams, tasks and parked calls."""


async def serve_stdio(server: ClosableService) -> None:
    """Serve one client on standard input and output until it closes the input or asks the server to shut down."""
    try:
        await serve_standard_streams(server, Anyone("stdio"), until=server.wait_for_shutdown())
    finally:
        server.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end, on uvloop where it is installed; an interrupt ends it quietly."""
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
