"""Retries of stateless clients with the answers to a server of the handshake era. Each continues exactly the call that
asked."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mgp.callbacks import EXTENSION
from interlock.protocols.mgp.methods import agreed_on
from interlock.transports.requests.call_parking import CallParking
from interlock.wire.errors import Fault

STATE: Final = "requestState"
QUESTIONS: Final = "inputRequests"
ANSWERS: Final = "inputResponses"


class Bridges(msgspec.Struct, frozen=True):
    """The parts that carry questions between the eras."""

    states: RequestStates
    retries: Retries


class Retries:
    """Joins calls with the parking."""

    def __init__(self, parking: CallParking) -> None:
        self._parking = parking

    def take(self, call: Call) -> bool:
        """Continue a parked call. False if the request is not a retry of one. Raises REQUEST_STATE_REFUSED."""
        token = token_of(call)
        if not self._parking.gave(token):
            return False
        place, answered = self._parking.find(token, binding_of(call))
        given = call.members.get(ANSWERS)
        place.work.resume(call.exchange, answered, b"{}" if given is None else bytes(given))
        return True

    def hold(self, call: Call, upstream_connection: UpstreamConnection) -> None:
        """Let a server of the handshake era ask the stateless client of a call."""
        exchange = call.exchange
        if upstream_connection.owner is None or upstream_connection.connection.modern or not exchange.dialect.modern:
            return
        if METHODS[exchange.request.method].may_ask:
            self.parked(call)

    def parked(self, call: Call) -> ParkedExchange:
        """The exchange of a call on which its client can be asked. The hub may have asked already."""
        exchange = call.exchange
        if isinstance(exchange, ParkedExchange):
            return exchange
        given = bytes(call.members.get(ANSWERS, b"{}"))
        on_cancel = exchange.on_cancel
        parked = ParkedExchange(exchange, self._parking, lambda: binding_of(call), given)
        parked.on_cancel = on_cancel
        call.answer_through(parked)
        return parked

    def hold_for_callbacks(self, call: Call, connection: Connection) -> None:
        """Let a stateless client answer callbacks of a server as elicitations, if it has no other way."""
        exchange, mgp = call.exchange, connection.mgp
        if mgp is None or EXTENSION not in mgp.extensions or agreed_on(exchange.dialect, EXTENSION):
            return
        answers = exchange.dialect.capabilities.can_answer("elicitation/create", b'{"mode":"form"}')
        if answers and call.target.kind == "tool" and not isinstance(exchange, ParkedExchange):
            call.answer_through(ParkedExchange(exchange, self._parking, lambda: binding_of(call)))

    def end(self, principal_name: str) -> None:
        """End the calls of a principal that wait."""
        self._parking.end(principal_name)

    def close(self) -> None:
        """End every call that waits."""
        self._parking.close()


def binding_of(call: Call) -> bytes:
    """A digest of principal, method, target and arguments. The order of members does not matter."""
    target = call.target
    identity = [
        call.caller.principal_name,
        call.exchange.request.method,
        target.kind,
        target.server,
        target.name,
        call.arguments,
    ]
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).digest()


def token_of(call: Call) -> str:
    """The `requestState` that a call brings. Raises INVALID_PARAMS."""
    try:
        return msgspec.json.decode(call.members[STATE], type=str)
    except msgspec.DecodeError:
        raise Fault("INVALID_PARAMS", "requestState must be a string") from None
