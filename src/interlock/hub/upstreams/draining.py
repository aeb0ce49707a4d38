"""Lets a server finish before it is ended: MGP's request to shut down, the open calls, then the server's own work.

Each wait is bounded by the time that the command gives, whatever the server answers (MGP, Graceful Shutdown).
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from interlock.hub.upstreams.commands import DRAIN_S, Reason, Supervised
from interlock.hub.upstreams.connection_pool import ConnectionPool


async def drain(
    upstream: Supervised, pool: ConnectionPool, reason: Reason, limit_s: float | None, run: asyncio.Task[None] | None
) -> None:
    """Ask the server to shut down, and let open calls finish. Then wait for `run`, which ends with the connection, as
    long as the server has said that its requests take.
    """
    limit_s = DRAIN_S if limit_s is None else limit_s
    began = time.monotonic()
    estimate_s = await pool.ask_to_shut_down(reason, limit_s)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await upstream.drained()
    left_s = min(estimate_s, limit_s) - (time.monotonic() - began)
    if run is not None and left_s > 0:
        await asyncio.wait((run,), timeout=left_s)
