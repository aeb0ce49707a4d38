"""A tool server of the hub in a topic, as `server:ID`. It answers requests that name it, through the hub's pipeline.

Rule: a request runs as its sender. First the topic checks the sender's capability. Then the pipeline judges and records
the request like any call at `/servers/ID/mcp`, with the sender's key, grants, limits and approvals.
"""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import Session
from interlock.hub.tool_search.handler import SEARCH_TOOLS
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.revisions import LATEST_LEGACY, agree
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import DEFAULT_BOUNDS, Envelope, encode
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.payloads import PayloadMethod, check_payload
from interlock.protocols.mcpx.proposals import Proposal
from interlock.rooms.mcp_requests import SERVED_METHODS, params_of, response_kind
from interlock.rooms.timestamps import timestamp
from interlock.transports.exchange import SessionExchange, unanswered
from interlock.transports.large_reading import LargeReading
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.messages import EMPTY_OBJECT, BadMessage, Request

if TYPE_CHECKING:
    from interlock.rooms.member import RoomMember
    from interlock.rooms.room import Room

PREFIX: Final = "server:"
MAX_OPEN: Final = 1_024
MAX_CALLERS: Final = 256
MAX_RESULT_BYTES: Final = DEFAULT_BOUNDS.envelope_bytes - DEFAULT_BOUNDS.rest_bytes
_RESPONSES: Final = CapabilitySet(("mcp/response:*",))


class RoomRequest(NamedTuple):
    """A request to a server in a topic."""

    envelope: Envelope
    request: Request
    to: list[str]
    """The receivers of the response."""
    asker: Principal | None


class HubToolServer:
    """One tool server in one topic (`internal_participants.InternalParticipant`)."""

    def __init__(self, room: Room, server: str, hub_app: HubApp) -> None:
        self._room = room
        self._server = server
        self._hub_app = hub_app
        self._open: dict[str, RoomExchange] = {}
        """Requests without an answer yet, by envelope id."""
        self._unread: dict[str, RoomRequest] = {}
        """Large requests that a thread reads, by envelope id."""
        self._callers: dict[Principal, Caller] = {}
        self.id = PREFIX + server
        self.capabilities = _RESPONSES

    def wants(self, envelope: Envelope) -> bool:
        """Whether a request names this server. Broadcasts do not count, because two servers could act on one."""
        return envelope.kind.type == kinds.REQUEST and self.id in envelope.to

    def receive(self, sender: RoomMember, envelope: Envelope, proposal: Proposal | None) -> None:
        """Answer a request, now or later. A request whose kind does not match its payload is refused."""
        try:
            operation = check_payload(envelope)
        except EnvelopeRefused as refusal:
            self._room.report(sender, refusal)
            return
        if operation.id is None:
            self._notified(sender, operation)
            return
        to = [sender.id]
        if proposal is not None and proposal.proposer != sender.id:
            # MCPx, Proposal Fulfillment: the response goes to the fulfiller and the proposer.
            to.append(proposal.proposer)
        room_request = RoomRequest(
            envelope, Request(operation.id, operation.method or "", params_of(envelope)), to, sender.principal
        )
        if len(envelope.payload) <= LARGE:
            self._answer(sender, room_request)
        elif self._is_full:
            self.respond(room_request, "error", _rendered(self._overloaded()))
        else:
            limits = self._hub_app.limits
            # As at every other entrance: reading it here would hold up everyone.
            self._unread[envelope.id] = room_request
            take = partial(self._take_read, sender, room_request)
            LargeReading.here().read(sender.principal, envelope.payload, limits, limits.members, take)

    def on_expired(self, proposal: Proposal) -> None:
        """Do nothing: a server follows no proposals."""

    def leave(self) -> None:
        """Answer all open requests with an error, because the server leaves."""
        unread, self._unread = self._unread, {}
        for room_request in unread.values():
            self.respond(room_request, "error", _rendered(Fault("CANCELLED", f"{self.id} leaves the topic")))
        for exchange in list(self._open.values()):
            exchange.abort(f"{self.id} leaves the topic")

    def respond(self, room_request: RoomRequest, member: str, value: bytes) -> None:
        """Send the response to a request: `result` or `error` with its JSON."""
        self._open.pop(room_request.envelope.id, None)
        if len(value) > MAX_RESULT_BYTES:
            hint = "ask for less, or call the tool outside of the room"
            message = f"the answer has {len(value)} bytes, and an envelope at most {DEFAULT_BOUNDS.envelope_bytes}"
            member, value = "error", _rendered(Fault("TOO_LARGE", message, hint=hint))
        kind = response_kind(room_request.envelope)
        payload = {"jsonrpc": "2.0", "id": room_request.request.id, member: msgspec.Raw(value)}
        about = room_request.envelope.id
        id_, now = str(uuid.uuid4()), timestamp()
        envelope = encode(id_, self.id, kind, payload, to=room_request.to, correlation_id=about, ts=now)
        if not self._room.answer(self.id, envelope, room_request.asker) and value is not UNCARRIED:
            # The envelope may be impossible, for example because of a number that is too large. Answer in any case.
            self.respond(room_request, "error", UNCARRIED)

    def forget(self, room_request: RoomRequest) -> None:
        """Forget a request that its sender cancelled. It gets no answer."""
        self._open.pop(room_request.envelope.id, None)

    def _take_read(self, sender: RoomMember, room_request: RoomRequest, outcome: Outcome) -> None:
        """A large request was read."""
        if self._unread.pop(room_request.envelope.id, None) is None:
            return  # it was given up meanwhile
        if isinstance(outcome, Request):
            asked = room_request.request
            read = Request(asked.id, asked.method, outcome.params)
            self._answer(sender, room_request._replace(request=read))
            return
        bad = outcome if isinstance(outcome, BadMessage) else BadMessage("INVALID_REQUEST", "the payload is no request")
        self.respond(room_request, "error", _rendered(Fault(bad.name, bad.message)))

    def _answer(self, sender: RoomMember, room_request: RoomRequest) -> None:
        try:
            self._serve(sender, room_request)
        except Fault as fault:
            self.respond(room_request, "error", _rendered(fault))

    @property
    def _is_full(self) -> bool:
        return len(self._open) + len(self._unread) >= MAX_OPEN

    def _overloaded(self) -> Fault:
        return Fault("RESOURCE_EXHAUSTED", f"{MAX_OPEN} requests to {self.id} wait", retry_after_ms=1000)

    def _serve(self, sender: RoomMember, room_request: RoomRequest) -> None:
        method = room_request.request.method
        caller = self._caller(sender.principal)
        exchange = RoomExchange(self, room_request, caller)
        if method == "ping":
            exchange.result(EMPTY_OBJECT)
        elif method == "initialize":
            exchange.result(self._introduction(exchange, caller))
        elif method not in SERVED_METHODS:
            raise Fault("METHOD_NOT_FOUND", f"{self.id} does not answer {method[:100]}")
        elif method == "tools/call" and exchange.preview.name in SEARCH_TOOLS:
            # `call_tool` names another tool in its arguments, which the topic's capabilities have not checked.
            raise Fault("TOOL_NOT_FOUND", f"{self.id} has no tool {exchange.preview.name!r}")
        elif self._is_full:
            raise self._overloaded()
        else:
            self._open[room_request.envelope.id] = exchange
            self._hub_app.service.serve(exchange)

    def _caller(self, principal: Principal | None) -> Caller:
        if principal is None:
            hint = "join with a key; `interlock keys create NAME` makes one"
            raise Fault("AUTH_REQUIRED", f"{self.id} answers only participants with a key", hint=hint)
        caller = self._callers.get(principal)
        if caller is None or not caller.current:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            caller = self._callers[principal] = self._admitted(principal)
        return caller

    def _admitted(self, principal: Principal) -> Caller:
        try:
            return self._hub_app.authenticator.admit_principal(principal, f"/servers/{self._server}/mcp")
        except Fault as fault:
            if fault.kind.retryable:
                raise
            rule, message = "the topic and the hub must both allow it", f"{principal.id} may not use {self.id}"
            self._hub_app.recorder.refusal(principal, Target("server", self._server, ""), "", "access", rule, message)
            raise Fault("ACCESS_DENIED", message, hint="an operator can grant it: `interlock grants`") from None

    def _introduction(self, exchange: RoomExchange, caller: Caller) -> bytes:
        """Answer `initialize`. A room has no sessions, so it changes nothing."""
        requested = msgspec.json.decode(exchange.request.params, type=dict[str, object]).get("protocolVersion")
        revision = agree(requested if isinstance(requested, str) else "")
        return self._hub_app.hub.introduce(msgspec.structs.replace(exchange.dialect, revision=revision), caller)

    def _notified(self, sender: RoomMember, operation: PayloadMethod) -> None:
        """Handle `notifications/cancelled` of the same sender. Other notifications have no effect."""
        if operation.method != CANCELLED_METHOD:
            return
        for id_, room_request in list(self._unread.items()):
            if room_request.envelope.sender == sender.id and str(room_request.request.id) == operation.target:
                del self._unread[id_]
        for exchange in list(self._open.values()):
            if exchange.room_request.envelope.sender == sender.id and str(exchange.request.id) == operation.target:
                exchange.cancel("the participant cancelled it")


class RoomExchange(SessionExchange[Session, Caller]):
    """The exchange of a request in a topic. It has no session, and its answer is a response envelope."""

    __slots__ = ("_open", "_participant", "room_request")

    def __init__(self, participant: HubToolServer, room_request: RoomRequest, caller: Caller) -> None:
        request = room_request.request
        super().__init__(request, preview(request.params), Dialect(LATEST_LEGACY), caller, None, None)
        self._participant = participant
        self.room_request = room_request
        self._open = True

    @property
    def open(self) -> bool:
        return self._open

    def result(self, result: bytes) -> None:
        self._answer("result", result)

    def fail(self, fault: Fault) -> None:
        self._answer("error", _rendered(fault))

    def pass_failure(self, error: ErrorObject) -> None:
        self._answer("error", msgspec.json.encode(error))

    def notify(self, method: str, params: bytes) -> None:
        """Drop notifications: a request in a topic cannot ask for progress."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise unanswered(method, "in a room")

    def cancel(self, reason: str) -> None:
        """Cancel the request. It gets no answer."""
        if self._open:
            self._open = False
            self._participant.forget(self.room_request)
            on_cancel, self.on_cancel = self.on_cancel, None
            if on_cancel is not None:
                on_cancel(reason)

    def abort(self, reason: str) -> None:
        """Answer that the server has left, and stop the work."""
        on_cancel = self.on_cancel
        self.fail(Fault("CANCELLED", reason))
        if on_cancel is not None:
            on_cancel(reason)

    def _answer(self, member: str, value: bytes) -> None:
        if self._open:
            self._open = False
            self.on_cancel = None
            self._participant.respond(self.room_request, member, value)


def _rendered(fault: Fault) -> bytes:
    return msgspec.json.encode(fault.render(ErrorDialect.OLD_MCP))


UNCARRIED: Final = _rendered(Fault("UPSTREAM_ERROR", "the topic cannot carry the answer"))
