"""Rollbacks for clients that are hosts: each restores the client's state at the server of the named feature set."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from interlock.hub.audit.record import SUCCEEDED, TOOL_FAILED
from interlock.hub.calls.pipeline.judged_sends import JudgedSends
from interlock.hub.catalog.target import Target
from interlock.hub.live.client_host import ClientHost, HostMessage
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import OwnConnections
from interlock.hub.live.server_texts import ServerTexts
from interlock.protocols.mcpl.authorization import check_outgoing, check_tool_call
from interlock.protocols.mcpl.checkpoints import RollbackParams, RollbackResult
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.errors import unknown_feature_set
from interlock.wire.errors import Fault

ROLLBACK: Final = "state/rollback"
ROLLBACK_S: Final = 60.0


class ClientRollbacks:
    """Restores earlier state that a client left with servers."""

    def __init__(
        self, hosts: ClientHosts, own_connections: OwnConnections, sends: JudgedSends, texts: ServerTexts
    ) -> None:
        self._hosts = hosts
        self._own_connections = own_connections
        self._sends = sends
        self._texts = texts

    async def roll_back(self, message: HostMessage) -> RollbackResult:
        """Restore a client's state at a server. Refused if others share the connection."""
        request = decode(RollbackParams, message.params)
        live, feature = self._checked(message.host, request.feature_set)
        own = await self._own_connections.open(live.server, message.host.principal)
        if own is None:
            reason = 'agents share the connection to this server; the operator can set share = "principal"'
            return RollbackResult(request.checkpoint, False, reason)
        rollback = RollbackParams(feature, request.checkpoint)
        target = Target("state", live.server, feature)
        call = self._sends.of(message.exchange, message.caller, target, msgspec.json.encode(rollback))
        await self._sends.admit(call)  # The audit log has the rollback before it is sent.
        details = {"featureSet": feature, "agent_id": message.host.principal.id, "checkpoint": request.checkpoint}
        try:
            self._checked(message.host, request.feature_set)  # A person may have switched it off while one decided.
            asking = own.ask(ROLLBACK, rollback, RollbackResult, ROLLBACK_S)
            result = await self._texts.answered(message.host, live.server, ROLLBACK, asking)
        except Fault as fault:
            self._sends.failed(call, fault, details | {"outcome": "failed"})
            raise
        except asyncio.CancelledError:
            self._sends.given_up(call, details | {"outcome": "unknown"})
            raise
        outcome = "done" if result.success else "failed"
        ended = SUCCEEDED if result.success else TOOL_FAILED
        self._sends.ended(call, ended, details | {"outcome": outcome}, result.reason or "")
        return result

    def _checked(self, host: ClientHost, name: str) -> tuple[LiveConnection, str]:
        """The server of a feature set that a client may roll back, with the server's own name of the set."""
        for live in self._hosts.offers.connections(host):
            for feature in live.state.offer.feature_sets:
                if host.name(live.server, feature) == name:
                    rights = self._hosts.offers.rights(host, live)
                    check_outgoing(rights, ROLLBACK)
                    check_tool_call(rights, feature, scoped=False, rollback=True)
                    return live, feature
        raise unknown_feature_set(name)
