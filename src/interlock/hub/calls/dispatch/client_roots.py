"""Asks a client of the stateless era for its roots before a call, if the server of the call uses roots.

A server of the handshake era asks once for each connection and keeps the answer. A stateless client has no session for
that answer. So every call brings its own roots, and takes a connection whose server knows the same roots.
"""

from __future__ import annotations

from interlock.hub.calls.bridges.retries import Retries
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.refusals import is_refusal
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.hub.upstreams.connection_owner import ROOTS
from interlock.hub.upstreams.sharing import with_roots
from interlock.hub.upstreams.upstream import Upstream
from interlock.protocols.mcp.methods import METHODS
from interlock.wire.errors import Fault
from interlock.wire.messages import one_line


class ClientRoots:
    """Finds the connection of calls that depends on the roots of their clients."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries

    async def rooted(self, call: Call, plan: Plan, upstream: Upstream, key: ConnectionKey) -> ConnectionKey:
        """The connection for the roots of the client of a call. It is the same one as before where the client cannot be
        asked, or a gate denies the server the roots. Raises a `Fault`."""
        if not METHODS[call.exchange.request.method].may_ask:
            return key
        channel = self._retries.parked(call)
        request = ClientRequest(call.target.server, ROOTS, b"{}", b"{}", call.caller, channel, call.trace)
        try:
            with upstream.waiting():
                answer = await plan.pipeline.ask_client(request)
            return with_roots(key, one_line(answer))
        except Fault as fault:
            if is_refusal(fault):
                return key
            raise
        except ValueError as cause:
            raise Fault("INVALID_PARAMS", "the roots of the client cannot be read") from cause
