"""Opens the private connection of an agent to a server that has a connection for each agent."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.hub.auth.principals import Principal
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import LiveConnections
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.wire.errors import Fault

OPEN_S: Final = 30.0


class OwnConnections:
    """Opens the connections that a rollback goes over."""

    def __init__(self, connections: LiveConnections, upstreams: Upstreams) -> None:
        self._connections = connections
        self._upstreams = upstreams

    async def open(self, server: str, principal: Principal) -> LiveConnection | None:
        """The private connection of an agent; None if agents share one. Raises SERVER_NOT_READY.

        Usually the agent's first tool call opens it. After a restart of the hub, a rollback may come first.
        """
        upstream = self._upstreams.get(server)
        if upstream is not None and upstream.share == "principal" and self._found(server, principal.id) is None:
            try:
                async with asyncio.timeout(OPEN_S):
                    owner = principal.owner
                    await upstream.open_connection(ConnectionKey(f"principal:{owner}", owner=owner))
            except TimeoutError:
                raise Fault("SERVER_NOT_READY", f"{server} did not connect within {OPEN_S:.0f} s") from None
        return self._found(server, principal.id)

    def _found(self, server: str, agent: str) -> LiveConnection | None:
        own = (live for live in self._connections.of_agent(agent) if live.server == server and live.agent == agent)
        return next(own, None)
