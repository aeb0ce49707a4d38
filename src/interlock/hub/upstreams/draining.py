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
        self._under_way: asyncio.Future[None] | None = None
        """Done when the drain under way is over, or is to end."""

    def cut_by(self, command: Command) -> None:
        """A command came. One that ends the server at once does not wait for a drain under way."""
        at_once = command.verb == "stop" or command.final or command.drain_s == 0
        if at_once and self._under_way is not None and not self._under_way.done():
            self._under_way.set_result(None)

    async def drain(self, reason: Reason, limit_s: float | None, run: asyncio.Task[None] | None) -> None:
        """Ask the server to shut down, and let open calls finish. Then wait for `run`, which ends with the connection,
        as long as the server has said that its requests take. A second drain waits for the first and does no more.
        """
        limit_s = DRAIN_S if limit_s is None else limit_s
        if self._under_way is not None:
            await asyncio.wait((self._under_way,), timeout=limit_s)
            return
        self._under_way = cut = asyncio.get_running_loop().create_future()
        try:
            await self._wait(reason, limit_s, run, cut)
        except Exception as cause:  # the server is ended nevertheless
            self._log(f"its drain failed: {cause!r}")
        finally:
            self._under_way = None
            if not cut.done():
                cut.set_result(None)

    async def _wait(
        self, reason: Reason, limit_s: float, run: asyncio.Task[None] | None, cut: asyncio.Future[None]
    ) -> None:
        began = time.monotonic()
        drained = asyncio.ensure_future(self._upstream.drained())
        try:
            try:
                estimate_s = await self._pool.ask_to_shut_down(reason, limit_s)
            except Exception as cause:  # a bad answer must not keep the server alive
                self._log(f"its answer to the shutdown could not be used: {cause!r}")
                estimate_s = 0.0
            await asyncio.wait((drained, cut), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            left_s = min(estimate_s, limit_s) - (time.monotonic() - began)
            if run is not None and left_s > 0 and not cut.done():
                await asyncio.wait((run, cut), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()

    def _log(self, text: str) -> None:
        self._logs.add(self._server, "hub", text[:500])
