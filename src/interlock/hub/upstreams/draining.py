"""Lets a server finish before it is ended: MGP's request to shut down, the open calls, then the server's own work.

Each wait is bounded by the time that the command gives, whatever the server answers (MGP, Graceful Shutdown), and ends
when a command comes that ends the server at once.
"""

from __future__ import annotations

import asyncio
import time

from interlock.hub.upstreams.commands import DRAIN_S, Command, Reason, Supervised
from interlock.hub.upstreams.connection_pool import ConnectionPool
from interlock.hub.upstreams.logs import Logs


class Draining:
    """The drains of one server, one at a time."""

    def __init__(self, server: str, upstream: Supervised, pool: ConnectionPool, logs: Logs) -> None:
        self._server = server
        self._upstream = upstream
        self._pool = pool
        self._logs = logs
        self._cut: asyncio.Future[None] | None = None
        """Done when a drain under way is to end."""

    def cut_by(self, command: Command) -> None:
        """A command came. One that ends the server at once does not wait for a drain under way."""
        at_once = command.verb == "stop" or command.final or command.drain_s == 0
        if at_once and self._cut is not None and not self._cut.done():
            self._cut.set_result(None)

    async def drain(self, reason: Reason, limit_s: float | None, run: asyncio.Task[None] | None) -> None:
        """Ask the server to shut down, and let open calls finish. Then wait for `run`, which ends with the connection,
        as long as the server has said that its requests take.
        """
        limit_s = DRAIN_S if limit_s is None else limit_s
        began = time.monotonic()
        cut = self._cut = asyncio.get_running_loop().create_future()
        drained = asyncio.ensure_future(self._upstream.drained())
        try:
            try:
                estimate_s = await self._pool.ask_to_shut_down(reason, limit_s)
            except Exception as cause:  # no answer of a server keeps it alive
                self._logs.add(self._server, "hub", f"its answer to its shutdown failed here: {cause!r}"[:500])
                estimate_s = 0.0
            await asyncio.wait((drained, cut), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            left_s = min(estimate_s, limit_s) - (time.monotonic() - began)
            if run is not None and left_s > 0 and not cut.done():
                await asyncio.wait((run, cut), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()
            self._cut = None
