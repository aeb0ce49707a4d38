"""A hub of its own on loopback, and what it answers to bytes that are not always HTTP. For `validators.py`."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any, cast

from interlock.config.settings import Config, HubSettings, TimeoutSettings
from interlock.hub.app import HubApp
from interlock.hub.authentication import is_mcp_path
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start
from interlock.web.app import make_app

ANSWER_WITHIN_S = 2.0
QUIET_S = 0.1
"""After an answer, how long a second one is waited for: a smuggled request would bring it."""
HOSTS = ("127.0.0.1", "127.0.0.1:80", "x", "x:80")
MAX_READ = 1_000_000
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


def statuses(sent: bytes) -> list[int]:
    """The status of every answer to these bytes; none where the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", _port()), ANSWER_WITHIN_S) as peer:
        # It may close before it has read everything: what it said first still counts.
        with contextlib.suppress(OSError):
            peer.sendall(sent)
        heard = b""
        while len(heard) < MAX_READ:
            peer.settimeout(QUIET_S if heard else ANSWER_WITHIN_S)
            try:
                piece = peer.recv(65_536)
            except OSError:
                break
            if not piece:
                break
            heard += piece
    return [int(status) for status in _STATUS.findall(heard)]


@cache
def _port() -> int:
    """The port of a hub that runs in a thread of this process until it ends."""
    ready: list[int] = []
    begun = threading.Event()

    async def run() -> None:
        with tempfile.TemporaryDirectory() as home:
            hub_app = HubApp(Config(hub=HubSettings(timeouts=TimeoutSettings(start_s=5))), Path(home))
            endpoint = McpEndpoint(hub_app.hub, hub_app.limits)
            # The names that the rows use are let in, so that each is refused for what it is about, or not at all.
            http = await start(endpoint, cast(Any, make_app(hub_app)), is_mcp=is_mcp_path, hosts=HOSTS)
            await hub_app.start()
            ready.append(http.port)
            begun.set()
            await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    if not begun.wait(30):
        raise RuntimeError("the hub did not start")
    return ready[0]
