"""Rollbacks for clients that are hosts: each takes back the client's state at the server whose feature set it names."""

from __future__ import annotations

from typing import Final

from interlock.hub.journal import Journal
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.own_connections import OwnConnections
from interlock.protocols.mcpl.authorization import check_outgoing, check_tool_call
from interlock.protocols.mcpl.checkpoints import Rollback, RollbackResult
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.errors import unknown_feature_set
from interlock.wire.errors import Fault

ROLLBACK: Final = "state/rollback"
ROLLBACK_S: Final = 60.0


class ClientRollbacks:
    """Takes back state that a client left with servers."""

    def __init__(self, hosts: ClientHosts, own_connections: OwnConnections, journal: Journal) -> None:
        self._hosts = hosts
        self._own_connections = own_connections
        self._journal = journal

    async def roll_back(self, host: ClientHost, params: bytes) -> RollbackResult:
        """Take a client's state at a server back. Refused beforehand where others share the connection."""
        request = decode(Rollback, params)
        for live in self._hosts.offers.connections(host):
            for feature in live.state.offer.feature_sets:
                if host.name(live.server, feature) == request.feature_set:
                    return await self._roll_back(host, live, feature, request.checkpoint)
        raise unknown_feature_set(request.feature_set)

    async def _roll_back(self, host: ClientHost, live: LiveConnection, feature: str, checkpoint: str) -> RollbackResult:
        rights = self._hosts.offers.rights(host, live)
        check_outgoing(rights, ROLLBACK)
        check_tool_call(rights, feature, scoped=False, rollback=True)
        own = await self._own_connections.open(live.server, host.principal)
        if own is None:
            reason = 'agents share the connection to this server; the operator can set share = "principal"'
            return RollbackResult(checkpoint, False, reason)
        record, agent = (live.server, feature, checkpoint), host.principal.id
        self._journal.live_rollback(*record, "asked", agent=agent)
        await self._journal.flushed()  # A rollback that was sent is in the log, whatever happens then.
        try:
            result = await own.ask(ROLLBACK, Rollback(feature, checkpoint), RollbackResult, ROLLBACK_S)
        except Fault as fault:
            self._journal.live_rollback(*record, "failed", fault.summary, agent=agent)
            raise
        outcome = "done" if result.success else "failed"
        self._journal.live_rollback(*record, outcome, result.reason or "", agent=agent)
        return result
