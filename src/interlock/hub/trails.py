"""Trails: what was found out about a call once, for the calls that are like it.

A call that differs from one before it in nothing but its id and its arguments has the same caller, plan, server and
connection. Its arguments are checked, its place is taken, its intent and its outcome are recorded by the same parts as
ever; only what a call is usually kept in on its way, and what was found out already, is not made again. Whatever is not
plain sailing makes it after all, and goes on by the usual way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import SUCCEEDED
from interlock.hub.call import Call
from interlock.hub.forward import Forward
from interlock.hub.gates.schema import Fits
from interlock.hub.kernel.contexts import Contexts
from interlock.hub.lines import Line
from interlock.hub.plain_calls import PlainCall, StreamCall, WebCall
from interlock.hub.plan import Epoch, Plan
from interlock.hub.recording import Recording
from interlock.hub.sending import Sending
from interlock.hub.sharing import SessionState, log_level_of
from interlock.hub.verdicts import PASS
from interlock.protocols.mcp.alike import Parts
from interlock.protocols.traces import new_trace_id
from interlock.transports.http.client import HttpLink
from interlock.transports.http.exchange import HttpExchange
from interlock.transports.http.sessions import HttpSession
from interlock.transports.http.turn import Said, Turn
from interlock.transports.link import Link
from interlock.transports.rounds import Rounds
from interlock.transports.stdio.client import StdioLink
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits

if TYPE_CHECKING:
    from interlock.transports.http.protocol import HubProtocol

_log = logging.getLogger(__name__)

ENVELOPE: Final = 2_048
"""More members than this cannot stand around the arguments of a call that is known by its likeness."""
_encode: Final = msgspec.json.Encoder().encode


class Trails:
    """Leaves trails."""

    def __init__(
        self,
        sending: Sending,
        recording: Recording,
        epoch: Epoch,
        contexts: Contexts,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self.sending = sending
        self.recording = recording
        self.epoch = epoch
        self.contexts = contexts
        self.deep = limits.depth - 2
        self.large = limits.members - ENVELOPE
        self.clock = clock
        self.rounds = Rounds.of(asyncio.get_running_loop())

    def leave(self, call: Call, plan: Plan, line: Line, said: Said) -> None:
        """Leave the trail of a call that was just sent, if those like it need no more than that."""
        epoch = self.epoch.number
        if said.barren != epoch:
            said.trail = self._of(call, plan, line, said)
            said.barren = epoch if said.trail is None else -1

    def _of(self, call: Call, plan: Plan, line: Line, said: Said) -> Trail | None:
        connection, exchange, tool = line.connection, call.exchange, call.target.tool
        dialect, checks, session = exchange.dialect, [check for _, check in plan.checks], exchange.session
        kind = _KINDS.get(type(connection.link))
        if (
            line.owner is not None
            or tool is None
            or tool.param_headers
            or type(self.recording) is not Recording
            or kind is None
            or connection.modern is not dialect.modern
            or connection.mgp is not None
            or call.caller.expires is not None
            or dialect is not said.dialect
            or session is not said.session
            or not (session is None or isinstance(session.state, SessionState))
            or log_level_of(exchange) is not None
            or dialect.mgp_offer is not None
            or not (dialect.modern or dialect.revision.structures)
            or dialect.capabilities.tasks
            or not call.plain
            or not exchange.glance.untraced
            or plan.standing is not PASS
            or plan.meters
            or plan.finish is not None
            or len(checks) > 1
        ):
            return None
        if not checks:
            return Trail(self, call, plan, line, kind, said, _anything)
        check = checks[0]
        return Trail(self, call, plan, line, kind, said, check.accepts) if isinstance(check, Fits) else None


class Trail:
    """What calls of one tool by one caller have in common."""

    __slots__ = (
        "_accepts", "_kind", "_trails", "caller", "connection", "line", "link", "modern", "name", "plan", "principal",
        "said", "session", "target", "timeout_s", "upstream",
    )  # fmt: skip

    def __init__(
        self,
        trails: Trails,
        call: Call,
        plan: Plan,
        line: Line,
        kind: type[PlainCall],
        said: Said,
        accepts: Callable[[object], bool],
    ) -> None:
        self._trails = trails
        self._kind = kind
        self._accepts = accepts
        self.caller = call.caller
        self.principal = call.caller.principal
        self.plan = plan
        self.target = plan.target
        self.upstream = call.upstream
        self.line = line
        self.connection: Connection = line.connection
        self.link = line.connection.link
        self.said = said
        self.session = said.session
        self.modern = said.dialect.modern
        self.name = said.call.view.name or ""
        self.timeout_s = plan.timeout_s

    def follow(self, turn: Turn, parts: Parts) -> bool:
        """Judge a call, and send it on in the next step of the round. False where it must be judged at length."""
        trails, plan, caller, given, value = self._trails, self.plan, self.caller, parts[1], parts[2]
        now = trails.clock()
        if (
            plan.epoch != trails.epoch.number
            or now >= plan.valid_until
            or not caller.standing
            or self.upstream.shared_line is not self.line
            or trails.recording.strict
            or len(given) > trails.large
            or given.count(b"{") + given.count(b"[") > trails.deep
            # What two readers could read differently is looked at again.
            or _encode(value) != given
            or not self._accepts(value)
        ):
            return False
        session = self.session
        if session is not None and not self._is_taken_in(session, turn, parts[0]):
            return False
        caller.used = True
        if trails.contexts.kept:
            trails.contexts.used(caller, session, self.name)
        call = self._kind(self, turn, parts[0], given, now + self.timeout_s)
        if session is not None:
            session.take(parts[0], call)
        trails.rounds.then(self._go, call, turn)
        return True

    def _is_taken_in(self, session: HttpSession, turn: Turn, id: int) -> bool:
        """Whether a session takes it in, and nothing about it has changed that matters here."""
        state = session.state
        session.touch()
        return (
            turn.head.caller is self.caller
            and session.may_take(id)
            and isinstance(state, SessionState)
            and state.log_level is None
            and self.connection.reopening is None
        )

    def _go(self, call: PlainCall, turn: Turn) -> None:
        """Take its place, record it and send it."""
        trails, connection = self._trails, turn.connection
        if connection is None:
            if self.session is not None:
                self.session.settle(call.asked)
            return
        sending, load = trails.sending, self.caller.load
        if sending.take_place(load, self.upstream) is not None:
            self._serve_at_length(call, connection)
            return
        trace = new_trace_id()
        try:
            call.ticket = trails.recording.recorder.intent(self.principal, self.target, trace, call.given)
        except Fault:
            sending.leave(load, self.upstream)
            self._serve_at_length(call, connection)
            return
        if self.session is None:
            turn.on_gone = call.client_gone
        own = trace.encode()
        params = b'{"name":%b,"arguments":%b,"_meta":{"traceparent":"00-%b-%b-01"%b}' % (
            self.target.quoted, call.given, own, own[:16], self.said.call.untraced
        )  # fmt: skip
        try:
            call.begin(params)
        except Fault as fault:
            call.forward.unsent(fault)
        except Exception:
            _log.exception("a call to %s could not be sent", self.target.server)
            call.forward.unsent(Fault("INTERNAL_ERROR", "a fault of ours; it was logged"))

    def _serve_at_length(self, call: PlainCall, connection: HubProtocol) -> None:
        """Nothing was sent of it yet: have it served as if there were no trail."""
        if self.session is not None:
            self.session.settle(call.asked)
        connection.face.endpoint.handle(call.turn, at_length=True)

    def ended_well(self, call: PlainCall) -> None:
        """The server's answer came, and is passed on."""
        self._trails.sending.leave(self.caller.load, self.upstream)
        self._trails.recording.recorder.outcome(call.ticket, SUCCEEDED)

    def at_length(self, call: PlainCall) -> tuple[HttpExchange, Forward]:
        """What a call is usually kept in, for one that is under way."""
        turn, alike, session = call.turn, self.said.call, self.session
        parts = alike.parts(turn.body)
        assert parts is not None
        exchange = HttpExchange(*alike.read(turn.body, parts), self.said.dialect, self.caller, turn, session)
        made = Call(exchange, self.caller, self.target)
        made.upstream, made.ticket, made.trace = self.upstream, call.ticket, call.ticket.trace
        forward = self._trails.sending.forward(made, self.plan, self.connection, handle=call.id or None)
        exchange.on_cancel = forward.cancelled
        if session is None:
            turn.on_gone = exchange.client_gone
        elif session.opened.get(call.asked) is call:
            session.opened[call.asked] = exchange
        return exchange, forward


_KINDS: Final[dict[type[Link], type[PlainCall]]] = {HttpLink: WebCall, StdioLink: StreamCall}
"""What calls are on the way to a server; to one that is reached otherwise no trail leads."""


def _anything(value: object) -> bool:
    return True
