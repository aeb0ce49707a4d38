"""Forwards one call to its server, and the answer, progress and questions of the server to the client.

Ids, progress tokens and request states never cross the hub: each side has its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import CANCELLED, UNREADABLE, Outcome, outcome_in, sized
from interlock.hub.calls import recording
from interlock.hub.calls.bridges import url_elicitation as url_first
from interlock.hub.calls.bridges.client_questions import ClientQuestions
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.login_answers import answer_with_login
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.translation import Translation
from interlock.hub.calls.timeouts import timed_out
from interlock.hub.catalog.links import with_exposed_uris
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
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Outgoing
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.large import Read
from interlock.wire.messages import Failure, Id, Request, Result, one_line

_UNSET: Final = msgspec.UNSET
LONGEST_CALL_FACTOR: Final = 10
"""Progress keeps a call alive, up to this many times its timeout."""


class CallDispatcher(Protocol):
    """The dispatcher, as the forwarders that it makes use it."""

    states: RequestStates
    recovery: CallRecovery

    def done(self, call: Call) -> None:
        """Give the place of a call back, and record how it ended."""


class Forwarder(msgspec.Struct, eq=False):
    """Forwards one call. It is the sink of the request to the server, and answers the exchange of the client."""

    _call: Call
    _plan: Plan
    _connection: Connection
    _owner: ConnectionOwner | None
    """The owner of a private connection, whose client the server may ask."""
    _dispatcher: CallDispatcher
    _handle: Id | None = None
    _finished: bool = False
    _client_questions: ClientQuestions | None = None
    _open_requests: int = 0
    """Requests of the server that the client has not answered yet."""

    @property
    def attended(self) -> bool:
        """Whether its client waits for it now."""
        exchange = self._call.exchange
        return not isinstance(exchange, ParkedExchange) or exchange.attended

    def send(self, more: Members | None = None) -> None:
        """Send the call, with additional members where it is repeated. A failure to send is its answer."""
        call = self._call
        try:
            outgoing = self._outgoing(more)
            call.exchange.on_cancel = self.cancelled
            if self._owner is not None:
                self._owner.open.add(self)
            if type(call.arguments_raw) is Read:
                # Each step copies the whole message, so each has a turn of the loop to itself.
                asyncio.get_running_loop().call_soon(self._send_large, outgoing)
                return
            tool = call.target.tool
            self._handle = self._connection.send(outgoing, self, None if tool is None else tool.idempotent)
        except Fault as fault:
            self._fail(fault)

    def _send_large(self, outgoing: Outgoing) -> None:
        if self._finished:
            return
        tool = self._call.target.tool
        try:
            self._handle = self._connection.send(outgoing, self, None if tool is None else tool.idempotent)
        except Fault as fault:
            self._fail(fault)

    def _fail(self, fault: Fault) -> None:
        self._finish()
        self._call.exchange.fail(fault)

    def on_response(self, answer: Result | Failure) -> None:
        """Answer the client in its own terms."""
        call, modern = self._call, self._connection.modern
        exchange = call.exchange
        modern_client = exchange.dialect.modern
        if modern and not modern_client and self._asks_client(answer):
            return
        if isinstance(answer, Failure):
            self._on_error(answer.error)
            return
        try:
            read = answer if type(answer) is ReadResult else read_answer(answer)
        except Fault as fault:
            call.outcome = UNREADABLE
            self._fail(Fault(fault.name, f"{call.target.server}: {fault.message}"))
            return
        members = read.members
        size = len(read.result)
        if members.error is _UNSET:
            call.outcome = Outcome("answered", "result", "ok", 0, size)
        else:
            call.outcome = sized(outcome_in(members), size)
        try:
            result = self._in_client_era(read.result, members)
            self._finish()
            addressed = not call.caller.bare and members.has_addresses(result)
            if addressed or (not modern_client and (modern or not exchange.dialect.revision.structures)):
                if type(result) is Read:
                    LargeReading.here().work(result, partial(self._rewritten, addressed), self._deliver)
                    return
                result = self._rewritten(addressed, result)
        except Fault as fault:
            self._fail(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            self._fail(Fault("UPSTREAM_ERROR", f"{call.target.server} answered what cannot be read: {cause}"))
        else:
            if self._plan.processor is None:
                exchange.result(result)
            else:
                self._plan.processor.finish(call, result, exchange.result)

    def _deliver(self, result: bytes | Fault) -> None:
        """Answer with a large result that a thread has rewritten."""
        exchange, processor = self._call.exchange, self._plan.processor
        if isinstance(result, Fault):
            exchange.fail(result)
        elif processor is None:
            exchange.result(result)
        else:
            processor.finish(self._call, result, exchange.result)

    def _on_error(self, error: ErrorObject) -> None:
        self._call.outcome = Outcome("answered", "error", code=error.code, size=len(error.message) + len(error.data))
        self._finish()
        processor = self._plan.processor
        if processor is not None:
            error = processor.error(error)
        recovery = self._dispatcher.recovery
        if self._connection.mgp is None or not recovery.takes(self._call, self._plan, error):
            self._answer_error(error)

    def on_notification(self, method: str, params: bytes) -> None:
        """Pass progress and log messages of this call to the client. Log messages of a shared legacy session belong to
        no client. Any other notification on a call's stream is not about the call."""
        exchange, processor = self._call.exchange, self._plan.processor
        if processor is not None:
            params = processor.params(params)
        if method == PROGRESS:
            meta = exchange.preview.meta
            if meta is not None and meta.progress_token is not None:
                self._on_progress(params, meta.progress_token)
        elif method == "notifications/message":
            if self._wants_logs() and is_severe(params, log_level_of(exchange)):
                exchange.notify(method, one_line(params))
        elif method == "notifications/elicitation/complete":
            if not exchange.dialect.modern:
                exchange.notify(method, one_line(params))
        else:
            self._connection.listener.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        """Pass a request of the server to the client: possible where the connection is the client's own."""
        if self._owner is None:
            # It may be for the hub itself. Any other is refused there.
            self._connection.listener.on_request(request)
            return
        self._owner.questions.relay(self._connection, request, self._ask_client, self._call.exposed_server)

    def on_lost(self, fault: Fault) -> None:
        """Answer a call that the server will not answer."""
        call = self._call
        if fault.name == "UPSTREAM_TIMEOUT":
            fault = timed_out(call.target, call.trace, fault, self._plan.timeouts.tool_s)
        elif fault.name == "SESSION_UNKNOWN":
            # This is the hub's own session with the server: the client has no session to open again.
            message = f"{call.target.server} lost its session with the hub"
            fault = Fault("UPSTREAM_UNAVAILABLE", message, hint="repeat the call, if it may be made twice")
        call.outcome = recording.lost(fault)
        upstream = call.upstream
        self._finish()
        if fault.name == "LOGIN_REQUIRED":
            answer_with_login(call, fault, upstream)
            return
        turned_away = fault.kind.retryable and "status" in fault.data
        if turned_away and self._dispatcher.recovery.takes(call, self._plan, fault.render(ErrorDialect.MGP)):
            return
        call.exchange.fail(fault)

    def _on_progress(self, params: bytes, token: Id) -> None:
        """Notify the client of progress, if there is any: it must increase with each notification."""
        progress = how_far(params)
        if progress is not None and progress > self._call.progress:
            self._call.progress = progress
            self._call.exchange.notify(PROGRESS, with_token(params, token))

    def _ask_client(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client. The server's timeout does not run while it waits for the answer."""
        exchange = self._call.exchange
        if not exchange.dialect.modern:
            params = question_for_old(exchange.dialect.revision, method, params)
        waiting = exchange.ask(method, params)
        self._open_requests += 1
        self._extend(self._dispatcher.states.life_s)
        waiting.add_done_callback(self._on_client_answer)
        return waiting

    def _on_client_answer(self, _: asyncio.Future[bytes]) -> None:
        self._open_requests -= 1
        if not self._open_requests:
            self._extend(self._plan.timeouts.tool_s)

    def _extend(self, seconds: float) -> None:
        if self._handle is not None and not self._finished:
            self._connection.extend(self._handle, asyncio.get_running_loop().time() + seconds)

    def _answer_error(self, error: ErrorObject) -> None:
        exchange = self._call.exchange
        question = None
        if exchange.dialect.modern and not self._connection.modern:
            question = url_first.as_question(error, exchange.dialect.capabilities)
        if question is not None:
            exchange.result(question)
            return
        answer: ErrorObject | Fault = error
        if self._connection.mgp is not None:
            answer = self._dispatcher.recovery.answer(self._call, error)
        if isinstance(answer, Fault):
            exchange.fail(answer)
        else:
            exchange.pass_failure(self._translation().error(answer))

    def _wants_logs(self) -> bool:
        """Whether the client wants log messages, and they can be attributed to its call.

        The request tells a modern server the level. A legacy server logs for one client on its own connection only.
        """
        exchange = self._call.exchange
        if self._connection.modern:
            return log_level_of(exchange) is not None
        return self._owner is not None and (not exchange.dialect.modern or log_level_of(exchange) is not None)

    def _asks_client(self, answer: Result | Failure) -> bool:
        """Whether a modern server's answer is a question, which is then put to the legacy client."""
        call, questions = self._call, self._client_questions
        try:
            if isinstance(answer, Failure) or read_answer(answer).members.kind != INPUT_REQUIRED:
                if questions is not None and isinstance(answer, Result):
                    questions.completed()
                return False
            self._translation().check_may_ask()
            if questions is None:
                life_s = self._dispatcher.states.life_s
                questions = ClientQuestions(call.exchange, call.exposed_server, life_s, self.send, self.on_lost)
                self._client_questions = questions
            questions.ask(answer.result)
        except Fault as fault:
            self.on_lost(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            self.on_lost(Fault("UPSTREAM_ERROR", f"{call.target.server} asked what cannot be read: {cause}"))
        return True

    def cancelled(self, reason: str) -> None:
        """Cancel the request to the server: the client no longer wants the answer."""
        if self._handle is not None and not self._finished:
            self._connection.cancel(self._handle, reason)
            self._call.outcome = CANCELLED
        self._finish()

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        # Exchange and call would keep each other alive.
        self._call.exchange.on_cancel = None
        if self._client_questions is not None:
            questions, self._client_questions = self._client_questions, None
            questions.stop()
        if self._owner is not None:
            self._owner.open.discard(self)
        self._dispatcher.done(self._call)

    def _outgoing(self, more: Members | None) -> Outgoing:
        """The request for the server, with additional members where the call is repeated."""
        call, connection = self._call, self._connection
        target, exchange = call.target, call.exchange
        tool, meta, modern = target.tool, exchange.preview.meta, connection.modern
        headers: tuple[tuple[str, str], ...] = ()
        if tool is not None and tool.param_headers and modern:
            headers = tuple(param_values(tool.param_headers, call.arguments))
        wants_progress = meta is not None and meta.progress_token is not None
        rest: bytes | None = None
        if call.plain and more is None and connection.mgp is None and modern is exchange.dialect.modern:
            # Name, arguments and `_meta` are put together again: the server gets what the gates judged.
            trace = call.trace.encode()
            head = b'{"name":%b,"arguments":%b,"_meta":{' % (target.quoted, call.arguments_raw)
            tail = b"}" if meta is None else meta.tail
            if meta is None or meta.traceparent is None:
                head += b'"traceparent":"00-%b-%b-01"' % (trace, trace[:16])
                params, rest = (head + b",", tail + b"}") if wants_progress else (head + tail + b"}", None)
            else:
                params, rest = (head, tail + b"}") if wants_progress else (head + tail[1:] + b"}", None)
        else:
            params = self._translation().params({**call.members, **more} if more else call.members)
        now, patience = asyncio.get_running_loop().time(), self._plan.timeouts.tool_s
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
        """Translates between the eras of client and server, where they differ."""
        return Translation(self._call, self._connection, self._dispatcher.states)

    def _in_client_era(self, result: bytes, members: ResultMembers) -> bytes:
        """A result on one line, with the members that results have in the client's era."""
        if not result.isascii() or result.find(b"\n") >= 0 or result.find(b"\r") >= 0:
            result = one_line(result)
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

    def _rewritten(self, addressed: bool, result: bytes) -> bytes:
        """A result with the hub's addresses, as the client's revision can carry it. Large ones run in a thread."""
        call, dialect = self._call, self._call.exchange.dialect
        if addressed:
            result = with_exposed_uris(call.target.server, result)
        if not dialect.modern and (self._connection.modern or not dialect.revision.structures):
            # Last, since older revisions get structures as text, addresses included.
            tool = call.target.tool
            result = older.result_for(dialect.revision, result, tool is not None and tool.wraps)
        return result
