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
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import SUCCEEDED
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.dispatcher import Dispatcher
from interlock.hub.calls.dispatch.forwarder import Forwarder
from interlock.hub.calls.dispatch.plain_calls import PlainCall, StreamCall, WebCall
from interlock.hub.calls.gates.schema import Fits
from interlock.hub.calls.plan import Plan, PolicyVersion
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.verdicts import PASS
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.sharing import SessionState, log_level_of
from interlock.protocols.mcp.alike import Parts
from interlock.protocols.traces import new_trace_id
from interlock.transports.alike_calls import OpenExchange, Said, Turn
from interlock.transports.batching import Batching
from interlock.transports.exchange import Session
from interlock.transports.http.client import HttpLink
from interlock.transports.link import Link
from interlock.transports.stdio.client import StdioLink
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits

_log = logging.getLogger(__name__)

ENVELOPE: Final = 2_048
"""More members than this cannot stand around the arguments of a call that is known by its likeness."""
_encode: Final = msgspec.json.Encoder().encode


class Trails:
    """Leaves trails."""

    def __init__(
        self,
        sending: Dispatcher,
        recording: Recording,
        policy_version: PolicyVersion,
        contexts: Contexts,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self.sending = sending
        self.recording = recording
        self.policy_version = policy_version
        self.contexts = contexts
        self.deep = limits.depth - 2
        self.large = limits.members - ENVELOPE
        self.clock = clock
        self.rounds = Batching.of(asyncio.get_running_loop())

    def leave(self, call: Call, plan: Plan, line: UpstreamConnection, said: Said) -> None:
        """Leave the trail of a call that was just sent, if those like it need no more than that."""
        policy_version = self.policy_version.number
        if said.barren != policy_version:
            said.trail = self._of(call, plan, line, said)
            said.barren = policy_version if said.trail is None else -1

    def _of(self, call: Call, plan: Plan, line: UpstreamConnection, said: Said) -> Trail | None:
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
            or not exchange.preview.untraced
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
        line: UpstreamConnection,
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
            plan.policy_version != trails.policy_version.number
            or now >= plan.valid_until
            or not caller.standing
            or self.upstream.shared_connection is not self.line
            or trails.recording.strict
            or len(given) > trails.large
            or given.count(b"{") + given.count(b"[") > trails.deep
            # What two readers could read differently is looked at again.
            or _encode(value) != given
            or not self._accepts(value)
        ):
            return False
        session = self.session
        if not turn.takes(self.said, caller, parts[0]) or not (session is None or self._is_as_it_was(session)):
            return False
        caller.used = True
        if trails.contexts.kept:
            trails.contexts.used(caller, session, self.name)
        call = self._kind(self, turn, parts[0], given, now + self.timeout_s)
        turn.hold(self.said, parts[0], call)
        trails.rounds.then(self._go, call, turn)
        return True

    def _is_as_it_was(self, session: Session) -> bool:
        """Whether nothing about a session has changed that matters here."""
        state = session.state
        return isinstance(state, SessionState) and state.log_level is None and self.connection.reopening is None

    def _go(self, call: PlainCall, turn: Turn) -> None:
        """Take its place, record it and send it."""
        trails = self._trails
        if not turn.wanted:
            turn.let_go(self.said, call.asked, call)
            return
        sending, load = trails.sending, self.caller.load
        if sending.take_place(load, self.upstream) is not None:
            self._serve_at_length(call)
            return
        trace = new_trace_id()
        try:
            call.ticket = trails.recording.recorder.intent(self.principal, self.target, trace, call.given)
        except Fault:
            sending.leave(load, self.upstream)
            self._serve_at_length(call)
            return
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

    def _serve_at_length(self, call: PlainCall) -> None:
        """Nothing was sent of it yet."""
        call.turn.let_go(self.said, call.asked, call)
        call.turn.serve_at_length()

    def ended_well(self, call: PlainCall, result: bytes) -> None:
        """The server's answer came: whoever waits for it goes first, and nothing comes in between."""
        call.turn.pass_on(self.said, call.asked, result)
        trails = self._trails
        trails.sending.leave(self.caller.load, self.upstream)
        assert call.ticket is not None
        trails.recording.recorder.outcome(call.ticket, SUCCEEDED)

    def exchange(self, call: PlainCall) -> OpenExchange:
        """What its client's transport usually keeps it in."""
        turn, said = call.turn, self.said
        parts = said.call.parts(turn.body)
        assert parts is not None
        return said.at_length(turn, said, self.caller, parts, call)

    def at_length(self, call: PlainCall) -> tuple[OpenExchange, Forwarder]:
        """What a call is usually kept in, for one that is under way."""
        assert call.ticket is not None
        exchange = self.exchange(call)
        made = Call(exchange, self.caller, self.target)
        made.upstream, made.ticket, made.trace = self.upstream, call.ticket, call.ticket.trace
        forward = self._trails.sending.forward(made, self.plan, self.connection, handle=call.id or None)
        exchange.on_cancel = forward.cancelled
        return exchange, forward


_KINDS: Final[dict[type[Link], type[PlainCall]]] = {HttpLink: WebCall, StdioLink: StreamCall}
"""What calls are on the way to a server; to one that is reached otherwise no trail leads."""


def _anything(value: object) -> bool:
    return True
