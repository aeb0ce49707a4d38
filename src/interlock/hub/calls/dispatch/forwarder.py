"""One call on its way to a server and back: what goes out, what comes back, and everything in between.

Ids, progress tokens and request state never cross the hop as they are: each side has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import CANCELLED, UNREADABLE, Outcome, outcome_in
from interlock.hub.calls import recording
from interlock.hub.calls.bridges import url_elicitation as url_first
from interlock.hub.calls.bridges.client_questions import ClientQuestions, check_questions
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.bridges.retries import ANSWERS, QUESTIONS, binding_of
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.plan import Finishing
from interlock.hub.calls.timeouts import timed_out
from interlock.hub.catalog.links import (
    exposed_error,
    exposed_questions,
    has_addresses,
    restored_answers,
    with_exposed_uris,
)
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.mgp_agreement import asking_meta
from interlock.hub.upstreams.sharing import log_level_of
from interlock.protocols.mcp import older_revisions as older
from interlock.protocols.mcp import results
from interlock.protocols.mcp.answers import INPUT_REQUIRED, ResultMembers, read_answer
from interlock.protocols.mcp.capability_projection import request_meta, with_request_meta
from interlock.protocols.mcp.error_translation import error_for_new, error_for_old
from interlock.protocols.mcp.headers import param_values
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.protocols.mcp.meta import Members
from interlock.protocols.mcp.methods import METHODS, is_severe
from interlock.protocols.mcp.progress import how_far, with_token
from interlock.protocols.mcp.trace_meta import traced
from interlock.transports.call_parking import refused
from interlock.transports.link import Outgoing
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.messages import Failure, Id, Request, Result, one_line

_STATE = "requestState"
_encode = msgspec.json.Encoder().encode


class Forwarder(msgspec.Struct, eq=False):
    """Carries one call. It is the sink of the request it sends, and answers the exchange it serves."""

    _call: Call
    _connection: Connection
    _owner: ConnectionOwner | None
    """Set where this connection serves nobody else, so that the server may turn to the client behind it."""
    _states: RequestStates
    _clock: Callable[[], float]
    _done: Callable[[Call], None]
    _recovering: CallRecovery
    _last: Finishing | None
    """What is still to be done to a good result."""
    _patience: tuple[float, float]
    """Seconds that the server may take, and may take with progress."""
    _handle: Id | None = None
    _told: bool = False
    _back: ClientQuestions | None = None
    _questions: int = 0

    @property
    def attended(self) -> bool:
        """Whether its client waits for it now."""
        exchange = self._call.exchange
        return not isinstance(exchange, ParkedExchange) or exchange.attended

    @property
    def _shown(self) -> str | None:
        """The server's name to a client that sees many servers, and so has other addresses than the server."""
        return None if self._call.caller.view.bare else self._call.target.server

    def send(self, more: Members | None = None) -> None:
        """Send it, with more than it came with where it is repeated. A failure to send is the answer."""
        call, connection = self._call, self._connection
        try:
            outgoing = self._outgoing(call, connection, {**call.members, **more} if more else None)
            call.exchange.on_cancel = self.cancelled
            if self._owner is not None:
                self._owner.open.add(self)
            tool = call.target.tool
            self._handle = connection.send(outgoing, self, None if tool is None else tool.idempotent)
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
            if self._connection.mgp is None or not self._recovering.takes(call, answer.error):
                self._failed(answer.error)
            return
        try:
            read = read_answer(answer)
        except Fault as fault:
            call.outcome = UNREADABLE
            self._finish()
            exchange.fail(Fault(fault.name, f"{call.target.server}: {fault.message}"))
            return
        call.outcome = outcome_in(read.members)
        self._finish()
        try:
            result = self._result(one_line(read.result), read.members)
        except Fault as fault:
            exchange.fail(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            exchange.fail(Fault("UPSTREAM_ERROR", f"{call.target.server} answered what cannot be read: {cause}"))
        else:
            if self._last is None:
                exchange.result(result)
            else:
                self._last(call, result, exchange.result)

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
        self._owner.questions.relay(self._connection, request, self._ask, self._shown)

    def on_lost(self, fault: Fault) -> None:
        """No answer will come."""
        if fault.name == "UPSTREAM_TIMEOUT":
            fault = timed_out(self._call, fault, self._patience[0])
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
        return turned and self._recovering.takes(self._call, fault.render(ErrorDialect.MGP))

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
        self._allow(self._states.life_s)
        waiting.add_done_callback(self._told_answer)
        return waiting

    def _told_answer(self, _: asyncio.Future[bytes]) -> None:
        self._questions -= 1
        if not self._questions:
            self._allow(self._patience[0])

    def _allow(self, seconds: float) -> None:
        if self._handle is not None and not self._told:
            self._connection.extend(self._handle, self._clock() + seconds)

    def _failed(self, error: ErrorObject) -> None:
        exchange = self._call.exchange
        question = None
        if exchange.dialect.modern and not self._connection.modern:
            question = url_first.as_question(error, exchange.dialect.capabilities)
        if question is not None:
            exchange.result(question)
            return
        told = error if self._connection.mgp is None else self._recovering.answer(self._call, error)
        if isinstance(told, Fault):
            exchange.fail(told)
        else:
            exchange.pass_failure(self._error(told))

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
            self._may_ask()
            if self._back is None:
                self._back = ClientQuestions(
                    self._call.exchange, self._shown, self._states.life_s, self._repeat, self.on_lost
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
            if self._back is not None:
                self._back.stop()
            if self._owner is not None:
                self._owner.open.discard(self)
            self._done(self._call)

    def _outgoing(self, call: Call, connection: Connection, members: Members | None) -> Outgoing:
        """The request for the server: with other members than the call's own where it is repeated with more."""
        target, exchange = call.target, call.exchange
        view, tool, modern = exchange.preview, target.tool, connection.modern
        meta = view.meta
        named: str | None = target.name
        headers: tuple[tuple[str, str], ...] = ()
        if tool is not None and tool.param_headers and modern:
            headers = tuple(param_values(tool.param_headers, call.arguments))
        mgp = connection.mgp
        if call.plain and members is None and mgp is None and modern is exchange.dialect.modern:
            # Name, arguments and `_meta`, each as it came, put together again: what was judged is what goes out.
            rest = view.untraced
            if rest:
                own = call.trace.encode()
                params = b'{"name":%b,"arguments":%b,"_meta":{"traceparent":"00-%b-%b-01"%b}' % (
                    target.quoted,
                    call.arguments_raw,
                    own,
                    own[:16],
                    rest,
                )
            else:
                own = traced(meta, view.meta_raw, call.trace)
                params = b'{"name":%b,"arguments":%b,"_meta":%b}' % (target.quoted, call.arguments_raw, own)
        else:
            fields = dict(call.members if members is None else members)
            if target.kind in ("tool", "prompt"):
                fields["name"] = msgspec.Raw(target.quoted)
            elif target.kind == "resource":
                fields["uri"] = msgspec.Raw(target.quoted)
            else:
                named = None
            self._translate(fields)
            if mgp is not None and modern:
                fields["_meta"] = asking_meta(fields.get("_meta"))
            said = fields.get("_meta")
            fields["_meta"] = msgspec.Raw(traced(meta, b"" if said is None else bytes(said), call.trace))
            params = _encode(fields)
        now, (patience, most) = self._clock(), self._patience
        asked = meta is not None and meta.progress_token is not None
        return Outgoing(
            exchange.request.method, params, now + patience, named, headers, asked, now + most, True, patience
        )

    def _translate(self, fields: Members) -> None:
        """Say a request in the terms of the server's era."""
        if self._call.exchange.dialect.modern:
            if _STATE in fields:
                opened = self._opened(fields.pop(_STATE))
                if opened is not None:
                    fields[_STATE] = msgspec.Raw(msgspec.json.encode(opened))
            if not self._connection.modern:
                self._make_old(fields)
            elif self._shown is not None and ANSWERS in fields:
                fields[ANSWERS] = msgspec.Raw(restored_answers(self._shown, bytes(fields[ANSWERS])))
        elif self._connection.modern:
            own = fields.get("_meta")
            fields["_meta"] = msgspec.Raw(with_request_meta(None if own is None else bytes(own), self._introduction()))

    def _make_old(self, fields: Members) -> None:
        """Take out of a new client's request what an old server does not know."""
        if _STATE in fields:
            # It was given for a call that is not here any more: nothing is ever sent a second time for it.
            raise refused()
        url_first.check_visited(fields)
        fields.pop(ANSWERS, None)
        raw = fields.pop("_meta", None)
        kept = None if raw is None else results.meta_for_legacy(bytes(raw))
        if kept is not None:
            fields["_meta"] = msgspec.Raw(kept)

    def _introduction(self) -> Mapping[str, object]:
        """What this call's client said when its session was opened, as a new server wants it with each request."""
        dialect = self._call.exchange.dialect
        level = log_level_of(self._call.exchange)
        return request_meta(self._connection.revision, dialect.capabilities.raw, dialect.client_info, level)

    def _result(self, result: bytes, members: ResultMembers) -> bytes:
        call = self._call
        exchange = call.exchange
        modern, modern_client = self._connection.modern, exchange.dialect.modern
        if modern:
            kind = members.kind
            if kind != "complete":
                if modern_client and kind == INPUT_REQUIRED:
                    return self._sealed(result)
                result = results.of_known_kind(result, kind, tasks=exchange.dialect.capabilities.tasks)
            if not modern_client:
                result = results.plain(result, members)
            elif call.target.kind == "resource":
                result = results.cacheable(result)
            elif not members.private:
                result = results.narrowed(result)
        elif modern_client:
            ttl = 0 if exchange.request.method == "resources/read" else None
            result = results.completed(result, members, ttl_ms=ttl, server_info=self._connection.peer.server_info)
        if not call.caller.view.bare and has_addresses(members):
            result = with_exposed_uris(call.target.server, result)
        if not modern_client and (modern or not exchange.dialect.revision.structures):
            # Last, since what a revision cannot carry is told in words, addresses and all.
            tool = call.target.tool
            result = older.result_for(exchange.dialect.revision, result, tool is not None and tool.wraps)
        return result

    def _error(self, error: ErrorObject) -> ErrorObject:
        """The server's own error, with codes of the other era put into this one's."""
        if self._shown is not None and self._call.target.kind == "resource":
            error = exposed_error(self._shown, error)
        if self._call.exchange.dialect.modern:
            return error_for_new(error)
        return error_for_old(error, self._call.exchange.request.method) if self._connection.modern else error

    def _sealed(self, result: bytes) -> bytes:
        """A server's request state is bound to this caller and this call before it leaves. What a person has approved
        is approved for the next round too, whether or not the server has a state."""
        self._may_ask()
        check_questions(result, self._call.exchange.dialect)
        fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        if self._shown is not None and QUESTIONS in fields:
            fields[QUESTIONS] = msgspec.Raw(exposed_questions(self._shown, bytes(fields[QUESTIONS])))
        state = msgspec.json.decode(fields[_STATE], type=str) if _STATE in fields else None
        approval = self._call.approval
        if state is not None or approval is not None:
            expires = self._clock() + self._states.life_s
            matter = "" if approval is None else approval.matter
            token = self._states.close(self._call.caller.owner, self._purpose(), state, expires, matter)
            fields[_STATE] = msgspec.Raw(msgspec.json.encode(token))
        return msgspec.json.encode(fields)

    def _may_ask(self) -> None:
        """Whether a question can be the answer to this (2026-07-28, Multi Round-Trip Requests: Supported Requests)."""
        method = self._call.exchange.request.method
        if not METHODS[method].may_ask:
            raise Fault("UPSTREAM_ERROR", f"{self._call.target.server} asks back where {method} wants an answer")

    def _opened(self, raw: msgspec.Raw) -> str | None:
        try:
            token = msgspec.json.decode(raw, type=str)
        except msgspec.DecodeError:
            raise Fault("INVALID_PARAMS", "requestState must be a string") from None
        return self._states.open(token, self._call.caller.owner, self._purpose(), self._clock())

    def _purpose(self) -> str:
        """What a sealed state is good for: this method of this target with these arguments, in whatever order."""
        return binding_of(self._call).hex()
