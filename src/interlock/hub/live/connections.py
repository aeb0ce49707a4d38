"""Connections to servers that speak MCPL. Each begins with the server's greeting and ends with its connection.

`feature_updates.py` tells each server which feature sets are on, before anything else. `server_messages.py` handles the
messages that servers send by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from interlock.client.connection import Connection
from interlock.hub.auth.principals import Principal
from interlock.hub.live.connection import ConnectionId, LiveConnection
from interlock.hub.live.feature_updates import FeatureUpdates
from interlock.hub.live.features import Features
from interlock.hub.live.server_messages import ServerMessages
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcpl.feature_sets import FeatureSet
from interlock.protocols.mcpl.negotiation import read_offer
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

OPEN_S: Final = 30.0


class LiveConnections:
    """All connections to servers that speak MCPL."""

    def __init__(self, features: Features, refusals: RecordedRefusals, logs: Logs) -> None:
        self.updates = FeatureUpdates(features, logs)
        self.messages = ServerMessages(refusals, self.updates, logs)
        self._logs = logs
        self._open: dict[ConnectionId, LiveConnection] = {}

    # Finding connections.

    def of_agent(self, agent: str) -> list[LiveConnection]:
        """The connections that speak for an agent, by server: its own, or the shared one."""
        found: dict[str, LiveConnection] = {}
        for live in self._open.values():
            if live.agent == agent or (live.agent is None and live.server not in found):
                found[live.server] = live
        return [found[server] for server in sorted(found)]

    def shared(self, server: str) -> LiveConnection | None:
        """The shared connection to a server, if it speaks MCPL."""
        return self._open.get((server, None))

    def all(self) -> list[LiveConnection]:
        """Every connection that speaks MCPL."""
        return list(self._open.values())

    def is_live(self, server: str) -> bool:
        """Whether a server speaks MCPL on its shared connection."""
        return (server, None) in self._open

    # The upstreams call these.

    def declaration(self, server: str, agent: str, feature: str) -> FeatureSet | None:
        """A feature set as a server declares it: on its shared connection, or else on the agent's own."""
        live = self._open.get((server, None))
        if live is None:
            live = next((each for each in self._of(server) if each.agent == agent), None)
        return None if live is None else live.state.offer.feature_sets.get(feature)

    async def on_greeted(self, server: str, key: str | None, agent: str | None, connection: Connection) -> None:
        """Agree on MCPL with a server that introduced itself, also in a new session, and tell it its feature sets."""
        former = self._open.pop((server, key), None)
        if former is not None:
            former.end()
        try:
            found = read_offer(connection.peer.capabilities)
        except Fault as fault:
            self._logs.add(
                server, "hub", f"its MCPL offer cannot be read, so the hub speaks plain MCP with it: {fault.message}"
            )
            return
        if found is None or (connection.modern and key is not None):
            return
        live = LiveConnection((server, key), agent, connection, found[0])
        if found[0].warning:
            self._logs.add(server, "hub", found[0].warning)
        self._open[server, key] = live
        # Clients that are hosts see a set only once its name is judged. Judge the names before the set is on: otherwise
        # a server that must check answers would seem to take no part.
        await self.updates.judge_names(live)
        await self.updates.update(live)

    def on_closed(self, server: str, key: str | None, connection: Connection) -> None:
        """Forget a closed connection, and cancel the server's requests on it."""
        live = self._open.get((server, key))
        if live is not None and live.connection is connection:
            del self._open[server, key]
            live.end()

    def on_request(self, server: str, key: str | None, request: Request) -> bool:
        """Handle a request of a server. False if the server does not speak MCPL, or if the method is not of MCPL."""
        live = self._open.get((server, key))
        return live is not None and self.messages.on_request(live, request)

    def on_notification(self, server: str, key: str | None, method: str, params: bytes) -> None:
        """Handle a notification of a server, if it is one of MCPL."""
        live = self._open.get((server, key))
        if live is not None:
            self.messages.on_notification(live, method, params)

    # Changes while the hub runs.

    def reload(self) -> None:
        """Tell every server its feature sets under a new configuration."""
        for server in {live.server for live in self._open.values()}:
            self.on_features(server)

    def on_features(self, server: str) -> None:
        """Apply changed feature sets of a server. Narrower rights hold at once, then the server is told."""
        for live in self._of(server):
            self.updates.begin(live)

    async def settled(self, server: str, timeout_s: float) -> None:
        """Wait until a server has answered the update of its feature sets, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for live in self._of(server):
                    await live.updates.settled()

    async def close(self) -> None:
        """End everything under way."""
        for live in list(self._open.values()):
            await live.requests.close()
            await live.updates.close()

    def _of(self, server: str) -> list[LiveConnection]:
        return [live for live in self._open.values() if live.server == server]


class OwnConnections:
    """Opens private connections of agents, for rollbacks."""

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
                    principal_name = principal.name
                    await upstream.open_connection(
                        ConnectionKey(f"principal:{principal_name}", principal=principal_name)
                    )
            except TimeoutError:
                raise Fault("SERVER_NOT_READY", f"{server} did not connect within {OPEN_S:.0f} s") from None
        return self._found(server, principal.id)

    def _found(self, server: str, agent: str) -> LiveConnection | None:
        own = (live for live in self._connections.of_agent(agent) if live.server == server and live.agent == agent)
        return next(own, None)
