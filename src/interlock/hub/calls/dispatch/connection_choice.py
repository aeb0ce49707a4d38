"""Opens the connection of a call whose server is not connected yet, or uses the roots of the call's client."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from interlock.hub.calls.bridges.retries import Retries
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.client_roots import ClientRoots
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.upstream import Upstream

MAX_PRIVATE: Final = 2
"""Private connections that are opened for one call before the roots of its client are known. A server that turns out to
refuse the handshake, or to speak another era, needs a second one."""


class ConnectionKeys(Protocol):
    """The dispatcher, as this uses it."""

    def connection_key(self, call: Call, upstream: Upstream) -> ConnectionKey | None:
        """The private connection that a call takes, as far as is known; None for the shared one."""


class ConnectionChoice:
    """Finds the connection that a call takes in the end, and opens it."""

    def __init__(self, retries: Retries, keys: ConnectionKeys) -> None:
        self._client_roots = ClientRoots(retries)
        self._keys = keys

    async def settle(self, call: Call, plan: Plan, upstream: Upstream) -> UpstreamConnection:
        """The connection of a call, as soon as its server takes calls. Raises a `Fault` or TimeoutError.

        The server has `tool_s` for all connections together. The time in which the client is asked for its roots, and
        the server for its first questions, does not count.
        """
        opening, key = _Opening(call, upstream, plan.timeouts.tool_s), None
        connection = await opening.open(None)
        for opened in range(MAX_PRIVATE + 1):
            # Each connection shows more of the server: its era, whether it accepts the handshake and asks for roots.
            wanted = self._keys.connection_key(call, upstream)
            if wanted is not None and upstream.pool.by_roots(wanted):
                if key is not None:
                    # Its server asked for roots and was refused, since it was not known whose.
                    upstream.pool.private.drop_idle(key.name)
                return await opening.open(await self._client_roots.rooted(call, plan, upstream, wanted))
            if wanted == key or opened == MAX_PRIVATE:
                break
            key, connection = wanted, await opening.open(wanted)
        return connection


class _Opening:
    """The connections that are opened for one call, one after the other, and the time that is left for them."""

    def __init__(self, call: Call, upstream: Upstream, left_s: float) -> None:
        self._call = call
        self._upstream = upstream
        self._left_s = left_s
        self._loop = asyncio.get_running_loop()

    async def open(self, key: ConnectionKey | None) -> UpstreamConnection:
        """A connection that takes calls. Raises a `Fault` or TimeoutError."""
        if key is not None and key.session is not None:
            # Its session may end while the connection opens.
            key.session.private_connections.add((self._upstream.id, key.name))
        began = self._loop.time()
        async with asyncio.timeout(self._left_s):
            connection = await self._upstream.open_for_call(key)
            if (reopening := connection.connection.reopening) is not None:
                await asyncio.wait([reopening])
        self._left_s -= self._loop.time() - began
        if connection.owner is not None:
            await connection.owner.first_questions_asked(self._call.exchange)
        return connection
