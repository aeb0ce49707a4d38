"""A whole hub with the example server behind it, on a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forking
from hub.running_hub import SOURCE, running_hub
from interlock.config.settings import ServerSettings
from interlock.hub.auth.principals import Kind

EXAMPLE = SOURCE.parent / "examples" / "financial_analyzer.py"


def example(**settings: Any) -> ServerSettings:
    """The example, as the hub runs it."""
    return ServerSettings(command=forking.command(str(EXAMPLE)), env={"PYTHONPATH": str(SOURCE)}, **settings)


@contextlib.contextmanager
def hub_in_a_thread(
    home: Path,
    servers: dict[str, ServerSettings],
    *,
    keys: dict[str, str] | None = None,
    kind: Kind = "agent",
    **settings: Any,
) -> Iterator[str]:
    """Its address, while it runs. Each name in `keys` gets one, as an agent, a person or a service."""
    ready = threading.Event()
    found: list[str] = []
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        try:
            async with running_hub(home, servers, **settings) as hub:
                for name in keys or ():
                    (keys or {})[name] = await hub.new_key(name, kind)
                stop.append((asyncio.get_running_loop(), asyncio.Event()))
                found.append(hub.url)
                ready.set()
                await stop[0][1].wait()
        finally:
            ready.set()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield found[0]
    finally:
        if stop:
            loop, event = stop[0]
            loop.call_soon_threadsafe(event.set)
        thread.join(30)
