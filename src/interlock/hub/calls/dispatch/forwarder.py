"""One call on its way to a server and back: what goes out, what comes back, and everything in between.

Ids, progress tokens and request state never cross the hop as they are: each side has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import CANCELLED, SUCCEEDED, UNREADABLE, Outcome, outcome_in
from interlock.hub.calls import recording
from interlock.hub.calls.bridges import url_elicitation as url_first
from interlock.hub.calls.bridges.client_questions import ClientQuestions
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.translation import Translation
from interlock.hub.calls.plan import Plan
from interlock.hub.calls.timeouts import timed_out
from interlock.hub.catalog.links import (
    has_addresses,
    with_exposed_uris,
)
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.sharing import log_level_of
from interlock.protocols.mcp import older_revisions as older
from interlock.protocols.mcp import results
from interlock.protocols.mcp.answers import COMPLETE, INPUT_REQUIRED, ReadResult, ResultMembers, read_answer
from interlock.protocols.mcp.headers import param_values
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.protocols.mcp.meta import Members
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mcp.progress import how_far, with_token
from interlock.protocols.mcp.trace_meta import passed_on
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Outgoing
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.large import Read
from interlock.wire.messages import Failure, Id, Request, Result, one_line

_STATE = "requestState"
_encode = msgspec.json.Encoder().encode

_UNSET: Final = msgspec.UNSET
LONGEST_CALL_FACTOR: Final = 10
"""Progress keeps a call alive, up to this many times its timeout."""


class Means(msgspec.Struct, frozen=True):
    """What all calls are forwarded with."""

    states: RequestStates
    recovering: CallRecovery
    clock: Callable[[], float]


class Forwarder(msgspec.Struct, eq=False):
    """Carries one call. It is the sink of the request it sends, and answers the exchange it serves."""

    _call: Call
    _plan: Plan
    _connection: Connection
    _owner: ConnectionOwner | None
    """Set where this connection serves nobody else, so that the server may turn to the client behind it."""
    _done: Callable[[Call], None]
    _means: Means
    _handle: Id | None = None
    _told: bool = False
    _back: ClientQuestions | None = None
    _questions: int = 0

    @property
    def attended(self) -> bool:
        """Whether its client waits for it now."""
        exchange = self._call.exchange
        return not isinstance(exchange, ParkedExchange) or exchange.attended

    def send(self, more: Members | None = None) -> None:
        """Send it, with more than it came with where it is repeated. A failure to send is the answer."""
        call = self._call
        try:
            outgoing = self._outgoing({**call.members, **more} if more else None)
            call.exchange.on_cancel = self.cancelled
            if self._owner is not None:
                self._owner.open.add(self)
        except Fault as fault:
            self.unsent(fault)
            return
        if type(call.arguments_raw) is Read:
            # Each step copies the whole: one in a turn of the loop.
            asyncio.get_running_loop().call_soon(self._launch, outgoing)
        else:
            self._launch(outgoing)

    def _launch(self, outgoing: Outgoing) -> None:
        if self._told:
            return
        tool = self._call.target.tool
        try:
            self._handle = self._connection.send(outgoing, self, None if tool is None else tool.idempotent)
        except Fault as fault:
            self.unsent(fault)

    def unsent(self, fault: Fault) -> None:
        """It could not be sent."""
        self._finish()
        self._call.exchange.fail(fault)

    def on_response(self, answer: Result | Failure) -> None:
        """The server's answer, in the client's own terms."""
        call = self._call
        exchange = call.exchange
        if not exchange.dialect.modern and self._connection.modern and self._asks_back(answer):
            return
        if isinstance(answer, Failure):
            call.outcome = Outcome("answered", "error", code=answer.error.code)
            self._finish()
            if self._connection.mgp is None or not self._means.recovering.takes(call, answer.error):
                self._failed(answer.error)
            return
        if type(answer) is ReadResult:
            read = answer
        else:
            try:
                read = read_answer(answer)
            except Fault as fault:
                call.outcome = UNREADABLE
                self._finish()
                exchange.fail(Fault(fault.name, f"{call.target.server}: {fault.message}"))
                return
        members = read.members
        call.outcome = SUCCEEDED if members.error is _UNSET else outcome_in(members)
        self._finish()
        try:
            result = self._result(one_line(read.result), members)
            if type(result) is Read:
                LargeReading.here().work(result, partial(self._for_client, members), self._finished)
                return
            result = self._for_client(members, result)
        except Fault as fault:
            exchange.fail(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            exchange.fail(Fault("UPSTREAM_ERROR", f"{call.target.server} answered what cannot be read: {cause}"))
        else:
            self._finished(result)

    def _finished(self, result: bytes | Fault) -> None:
        exchange, finish = self._call.exchange, self._plan.finish
        if isinstance(result, Fault):
            exchange.fail(result)
        elif finish is None:
            exchange.result(result)
        else:
            finish(self._call, result, exchange.result)

    def on_notification(self, method: str, params: bytes) -> None:
        """Progress and log messages of this call. Log messages of a shared session are the operator's alone. What else
        comes on a call's stream, such as a changed list, is not about the call."""
        exchange = self._call.exchange
        if method == PROGRESS:
            meta = exchange.preview.meta
            if meta is not None and meta.progress_token is not None:
                self._progressed(params, meta.progress_token)
        elif method == "notifications/message":
            if self._wants_logs() and is_severe(params, log_level_of(exchange)):
                exchange.notify(method, one_line(params))
        elif method == "notifications/elicitation/complete":
            if not exchange.dialect.modern:
                exchange.notify(method, one_line(params))
        else:
            self._connection.listener.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        """The server turns to the client in mid-call: possible where the connection is the client's own."""
        if self._owner is None:
            fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be answered on a shared connection")
            self._connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))
            return
        self._owner.questions.relay(self._connection, request, self._ask, self._call.shown)

    def on_lost(self, fault: Fault) -> None:
        """No answer will come."""
        if fault.name == "UPSTREAM_TIMEOUT":
            fault = timed_out(self._call, fault, self._plan.timeout_s)
        elif fault.name == "SESSION_UNKNOWN":
            # The hub's own session with the server, which is no business of the client's.
            message = f"{self._call.target.server} lost its session with the hub"
            fault = Fault("UPSTREAM_UNAVAILABLE", message, hint="repeat the call, if it may be made twice")
        self._call.outcome = recording.lost(fault)
        self._finish()
        if not self._turned_away(fault):
            self._call.exchange.fail(fault)

    def _turned_away(self, fault: Fault) -> bool:
        """Whether a status said to come back later, and the call does."""
        turned = fault.kind.retryable and "status" in fault.data
        return turned and self._means.recovering.takes(self._call, fault.render(ErrorDialect.MGP))

    def _progressed(self, params: bytes, token: Id) -> None:
        """Tell the client how far its call is, if it is further than it was."""
        reached = how_far(params)
        if reached is not None and reached > self._call.reached:
            self._call.reached = reached
            self._call.exchange.notify(PROGRESS, with_token(params, token))

    def _ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client. The server's own time stands still while it waits for an answer."""
        exchange = self._call.exchange
        if not exchange.dialect.modern:
            params = question_for_old(exchange.dialect.revision, method, params)
        waiting = exchange.ask(method, params)
        self._questions += 1
        self._allow(self._means.states.life_s)
        waiting.add_done_callback(self._told_answer)
        return waiting

    def _told_answer(self, _: asyncio.Future[bytes]) -> None:
        self._questions -= 1
        if not self._questions:
            self._allow(self._plan.timeout_s)

    def _allow(self, seconds: float) -> None:
        if self._handle is not None and not self._told:
            self._connection.extend(self._handle, self._means.clock() + seconds)

    def _failed(self, error: ErrorObject) -> None:
        exchange = self._call.exchange
        question = None
        if exchange.dialect.modern and not self._connection.modern:
            question = url_first.as_question(error, exchange.dialect.capabilities)
        if question is not None:
            exchange.result(question)
            return
        told = error if self._connection.mgp is None else self._means.recovering.answer(self._call, error)
        if isinstance(told, Fault):
            exchange.fail(told)
        else:
            exchange.pass_failure(self._translation().error(told))

    def _wants_logs(self) -> bool:
        """A new server was told the level with the call; an old one speaks for this client on its own line alone."""
        if self._connection.modern:
            return log_level_of(self._call.exchange) is not None
        return self._owner is not None and (
            not self._call.exchange.dialect.modern or log_level_of(self._call.exchange) is not None
        )

    def _asks_back(self, answer: Result | Failure) -> bool:
        """Whether a new server's answer is a question, which then is put to the old client."""
        try:
            if isinstance(answer, Failure) or read_answer(answer).members.kind != INPUT_REQUIRED:
                if self._back is not None and isinstance(answer, Result):
                    self._back.completed()
                return False
            self._translation().check_may_ask()
            if self._back is None:
                self._back = ClientQuestions(
                    self._call.exchange, self._call.shown, self._means.states.life_s, self._repeat, self.on_lost
                )
            self._back.ask(answer.result)
        except Fault as fault:
            self.on_lost(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            self.on_lost(Fault("UPSTREAM_ERROR", f"{self._call.target.server} asked what cannot be read: {cause}"))
        return True

    def _repeat(self, more: Members) -> None:
        self.send(more)

    def cancelled(self, reason: str) -> None:
        """The client no longer wants it."""
        if self._handle is not None and not self._told:
            self._connection.cancel(self._handle, reason)
            self._call.outcome = CANCELLED
        self._finish()

    def _finish(self) -> None:
        if not self._told:
            self._told = True
            # The exchange would refer to this call, which refers to the exchange.
            self._call.exchange.on_cancel = None
            back, self._back = self._back, None
            if back is not None:
                back.stop()
            if self._owner is not None:
                self._owner.open.discard(self)
            self._done(self._call)

    def _outgoing(self, members: Members | None) -> Outgoing:
        """The request for the server: with other members than the call's own where it is repeated with more."""
        call, connection = self._call, self._connection
        target, exchange = call.target, call.exchange
        tool, meta, modern = target.tool, exchange.preview.meta, connection.modern
        headers: tuple[tuple[str, str], ...] = ()
        if tool is not None and tool.param_headers and modern:
            headers = tuple(param_values(tool.param_headers, call.arguments))
        wants_progress = meta is not None and meta.progress_token is not None
        rest: bytes | None = None
        if call.plain and members is None and connection.mgp is None and modern is exchange.dialect.modern:
            # Name, arguments and `_meta` put together again: what was judged is what goes out.
            behind = b"}" if meta is None else passed_on(meta, exchange.preview.meta_raw)
            trace = call.trace.encode()
            own = b'"traceparent":"00-%b-%b-01"' % (trace, trace[:16])
            if meta is not None and meta.traceparent is not None:
                own = b""
            params = b'{"name":%b,"arguments":%b,"_meta":{%b' % (target.quoted, call.arguments_raw, own)
            if wants_progress:
                params, rest = params + b"," if own else params, behind + b"}"
            elif own:
                params += behind + b"}"
            else:
                params += behind[1:] + b"}"
        else:
            params = self._translation().params(call.members if members is None else members)
        now, patience = self._means.clock(), self._plan.timeout_s
        return Outgoing(
            exchange.request.method,
            params,
            now + patience,
            None if target.kind == "completion" else target.name,
            headers,
            wants_progress,
            now + patience * LONGEST_CALL_FACTOR,
            True,
            patience,
            rest,
        )

    def _translation(self) -> Translation:
        """Between the client's terms and the server's, where the two differ."""
        return Translation(self._call, self._connection, self._means.states, self._means.clock)

    def _result(self, result: bytes, members: ResultMembers) -> bytes:
        call = self._call
        exchange = call.exchange
        modern, modern_client = self._connection.modern, exchange.dialect.modern
        if modern:
            if members.result_type != COMPLETE:
                kind = members.kind
                if modern_client and kind == INPUT_REQUIRED:
                    return self._translation().sealed(result)
                if kind is not None or modern_client:
                    result = results.of_known_kind(result, kind, tasks=exchange.dialect.capabilities.tasks)
            if not modern_client:
                result = results.plain(result, members)
            elif call.target.kind == "resource":
                result = results.cacheable(result)
            elif members.scope is not _UNSET and not members.private:
                result = results.narrowed(result)
        elif modern_client:
            ttl = 0 if exchange.request.method == "resources/read" else None
            result = results.completed(result, members, ttl_ms=ttl, server_info=self._connection.peer.server_info)
        return result

    def _for_client(self, members: ResultMembers, result: bytes) -> bytes:
        """A result with addresses of the hub, as the client's revision can carry it. Large ones run in a thread."""
        call, exchange = self._call, self._call.exchange
        modern, modern_client = self._connection.modern, exchange.dialect.modern
        if not call.caller.bare and has_addresses(members, result):
            result = with_exposed_uris(call.target.server, result)
        if not modern_client and (modern or not exchange.dialect.revision.structures):
            # Last, since what a revision cannot carry is told in words, addresses and all.
            tool = call.target.tool
            result = older.result_for(exchange.dialect.revision, result, tool is not None and tool.wraps)
        return result
