"""Running a server as a process of its own, and serving its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from interlock.server.server import Anyone, Server
from interlock.transports.stdio.streams import serve_standard_streams


async def serve_stdio(server: Server) -> None:
    """Serve one client on standard input and output until it closes the input."""
    try:
        await serve_standard_streams(server, Anyone("stdio"))
    finally:
        server.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end on the fastest event loop there is; an interrupt ends it quietly."""
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
