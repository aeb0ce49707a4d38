"""Forwards one call to its server, and the answer, progress and questions of the server to the client.

Ids, progress tokens and request states never cross the hub: each side has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import CANCELLED, SUCCEEDED, UNREADABLE, Outcome, outcome_in
from interlock.hub.calls import recording
from interlock.hub.calls.bridges import url_elicitation as url_first
from interlock.hub.calls.bridges.client_questions import ClientQuestions, questions_in
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.call_requests import CallRequests
from interlock.hub.calls.dispatch.callbacks import CallbackRelay, Callbacks
from interlock.hub.calls.dispatch.login_answers import answer_with_login
from interlock.hub.calls.dispatch.outgoing import outgoing_for
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.stream_relay import StreamRelay, relay_for
from interlock.hub.calls.dispatch.translation import Translation
from interlock.hub.calls.late_results import LateResults
from interlock.hub.calls.timeouts import timed_out
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.sharing import log_level_of
from interlock.protocols.mcp.answers import COMPLETE, INPUT_REQUIRED, ReadResult, read_answer
from interlock.protocols.mcp.error_translation import URL_FIRST
from interlock.protocols.mcp.meta import Members
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mcp.progress import how_far, with_token
from interlock.protocols.mcp.reserved_names import error_of_server, has_reserved, params_of_server
from interlock.protocols.mgp import streaming
from interlock.protocols.mgp.callbacks import REQUEST as CALLBACK
from interlock.protocols.mgp.methods import agreed_on
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Outgoing
from interlock.transports.open_requests import OpenRequests
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
    late_results: LateResults
    open_requests: OpenRequests[Forwarder]
    callbacks: Callbacks

    def done(self, call: Call) -> None:
        """Give the place of a call back, and record how it ended."""


def _cancelled() -> Fault:
    return Fault("CANCELLED", "the call was cancelled")


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
    _open_requests: CallRequests | None = None
    """Requests of the server to the client, if there were any."""
    _cancelling: bool = False
    """Whether its client has asked to cancel it by its id."""
    _answered_cancelled: bool = False
    _callbacks: CallbackRelay | None = None
    """Answers callbacks of a server that agreed on them."""
    _stream: StreamRelay | None = None
    """Relays chunks and progress of a server that agreed on MGP's streaming."""

    @property
    def attended(self) -> bool:
        """Whether its client waits for it now."""
        exchange = self._call.exchange
        return not isinstance(exchange, ParkedExchange) or exchange.attended

    def send(self, more: Members | None = None) -> None:
        """Send the call, with additional members where it is repeated. A failure to send is its answer."""
        call = self._call
        try:
            if self._connection.mgp is not None and self._handle is None:
                self._stream = relay_for(call, self._plan, self._connection, self._translation())
                self._callbacks = self._dispatcher.callbacks.relay_for(call, self._connection, self)
            outgoing = self._outgoing(more)
            call.exchange.on_cancel = self.cancelled
            if self._owner is not None:
                self._owner.open.add(self)
            if call.exchange.dialect.mgp is not None and agreed_on(call.exchange.dialect, streaming.EXTENSION):
                self._dispatcher.open_requests.add(call.exchange, self)
            if type(call.arguments_raw) is Read:
                # Each step copies the whole message, so each has a turn of the loop to itself.
                asyncio.get_running_loop().call_soon(self._send_large, outgoing)
                return
            self._send_now(outgoing)
        except Fault as fault:
            self._fail(fault)

    def _send_large(self, outgoing: Outgoing) -> None:
        if self._finished:
            return
        try:
            self._send_now(outgoing)
        except Fault as fault:
            self._fail(fault)

    def _send_now(self, outgoing: Outgoing) -> None:
        tool = self._call.target.tool
        self._handle = self._connection.send(outgoing, self, None if tool is None else tool.idempotent)
        if self._stream is not None:
            self._stream.begin(self._handle)

    def _fail(self, fault: Fault) -> None:
        self._finish()
        self._call.exchange.fail(fault)

    async def cancel_for_client(self, reason: str) -> bytes | None:
        """Cancel the call as its client asked (MGP, Cancellation). The call is answered with an error, and this returns
        the content so far; None where the call was answered in the meantime."""
        self._cancelling = True
        content = None if self._stream is None else await self._stream.cancel(reason)
        if self._finished and not self._answered_cancelled:
            return None
        self.cancelled(reason)
        self._call.exchange.fail(_cancelled())
        return b"[]" if content is None else await self._checked(content)

    async def _checked(self, content: bytes) -> bytes:
        """Content that passed the same checks as a result."""
        processor, checked = self._plan.processor, asyncio.get_running_loop().create_future()
        if processor is None:
            return content
        processor.finish(self._call, b'{"content":%b}' % content, checked.set_result)
        return bytes(msgspec.json.decode(await checked, type=dict[str, msgspec.Raw])["content"])

    def on_response(self, answer: Result | Failure) -> None:
        """Answer the client in its own terms."""
        call, modern = self._call, self._connection.modern
        exchange = call.exchange
        if self._cancelling and isinstance(answer, Failure):
            call.outcome, self._answered_cancelled = CANCELLED, True
            self._fail(_cancelled())
            return
        modern_client = exchange.dialect.modern
        if modern and not modern_client and self._asks_client(answer):
            return
        if isinstance(answer, Failure):
            self._on_error(answer.error)
            return
        try:
            read = answer if type(answer) is ReadResult else read_answer(answer)
            members = read.members
            asks = modern and modern_client and members.result_type != COMPLETE and members.kind == INPUT_REQUIRED
        except Fault as fault:
            call.outcome = UNREADABLE
            self._fail(Fault(fault.name, f"{call.target.server}: {fault.message}"))
            return
        outcome = SUCCEEDED if members.error is _UNSET else outcome_in(members)
        call.outcome = msgspec.structs.replace(outcome, size=len(read.result))
        if asks:
            self._judge_questions(read)
        else:
            self._answer_read(read)

    def _answer_read(self, read: ReadResult) -> None:
        """Answer the client with a result that may leave."""
        call, members = self._call, read.members
        exchange = call.exchange
        try:
            translation = self._translation()
            result = read.result if self._stream is None else self._stream.finish(read.result)
            result = translation.in_client_era(result, members)
            self._finish()
            reserved = has_reserved(members, result)
            addressed = not call.caller.bare and members.has_addresses(result)
            old = not exchange.dialect.modern
            structures = exchange.dialect.revision.structures
            if reserved or addressed or (old and (self._connection.modern or not structures)):
                work = partial(translation.rewritten, reserved, addressed)
                if type(result) is Read:
                    LargeReading.here().work(result, work, self._deliver)
                    return
                result = work(result)
        except Fault as fault:
            self._fail(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            self._fail(Fault("UPSTREAM_ERROR", f"{call.target.server} answered what cannot be read: {cause}"))
        else:
            self._deliver(result)

    def _judge_questions(self, read: ReadResult) -> None:
        """Answer a stateless client with a stateless server's questions, once the gates let every one of them pass."""
        try:
            self._translation().check_may_ask()
            self._leave(questions_in(read.result, self._call.exchange.dialect), partial(self._answer_read, read))
        except Fault as fault:
            self._fail(fault)

    def _leave(self, questions: list[tuple[str, bytes]], then: Callable[[], None]) -> None:
        """Go on once every question may leave for the client. If one may not, only the refusal leaves."""
        # The server has answered: there is no request that a cancellation could reach.
        self._handle = None
        self._requests().leave(questions, then)

    def refuse(self, fault: Fault) -> None:
        """Answer with a refusal, unless the call is over."""
        if not self._finished:
            self._fail(fault)

    def _deliver(self, result: bytes | Fault) -> None:
        """Answer with a result, as the settings of its server say; a thread may have rewritten a large one."""
        if isinstance(result, Fault):
            self._call.exchange.fail(result)
        elif self._plan.processor is None:
            self._answer(result)
        else:
            self._plan.processor.finish(self._call, result, self._answer)

    def _answer(self, result: bytes) -> None:
        """Answer the client. A result that does not reach it is kept for an identical call."""
        call = self._call
        if not call.exchange.reachable:
            self._dispatcher.late_results.keep(call, result)
        call.exchange.result(result)

    def _on_error(self, error: ErrorObject) -> None:
        self._call.outcome = Outcome("answered", "error", code=error.code, size=len(error.message) + len(error.data))
        error = error_of_server(error)
        if error.code != URL_FIRST:
            self._on_known_error(error)
            return
        try:
            # Pages that a person is to open are questions to that person.
            self._leave(url_first.questions_in(error), partial(self._on_known_error, error))
        except Fault as fault:
            self._fail(fault)

    def _on_known_error(self, error: ErrorObject) -> None:
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
        params = params_of_server(params)
        if method == streaming.CHUNK:
            if self._stream is not None:
                self._stream.on_chunk(params)
            return
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
        elif method == CALLBACK:
            if self._callbacks is not None:
                self._callbacks.on_request(params)
        elif method == streaming.PROGRESS:
            if self._stream is not None:
                self._stream.on_progress(params)
        else:
            self._connection.listener.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        """Put a request of the server to the client: possible where the connection is the client's own."""
        if self._owner is None:
            # It may be for the hub itself. Any other is refused there.
            self._connection.listener.on_request(request)
            return
        ask = partial(self._requests().ask, self._owner)
        self._owner.questions.relay(self._connection, request, ask, self._call.exposed_server)

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

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on the stream of this call."""
        return self._call.exchange.ask(method, params)

    def ask_client(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client for a callback of the server, once the gates let it pass."""
        return self._requests().call_back(method, params)

    def wait_longer(self, seconds: float) -> None:
        """Let the server take longer: it waits for an answer."""
        self.extend(max(seconds, self._plan.timeouts.tool_s))

    def extend(self, seconds: float) -> None:
        """Wait so long for the server's answer, from now on."""
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
                self._client_questions = questions = ClientQuestions(
                    call.exchange, call.exposed_server, life_s, self._requests().put, self.send, self.on_lost
                )
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
        if self._stream is not None:
            self._stream.stop()
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            callbacks.stop()
        if self._call.exchange.dialect.mgp is not None:
            self._dispatcher.open_requests.remove(self)
        if self._owner is not None:
            self._owner.open.discard(self)
        if self._open_requests is not None:
            self._open_requests.withdraw()
        self._dispatcher.done(self._call)

    def _outgoing(self, more: Members | None) -> Outgoing:
        """The request for the server, with additional members where the call is repeated."""
        stream = self._stream is not None and self._stream.asks_for_chunks
        outgoing = outgoing_for(self._call, self._connection, self._dispatcher.states, more, stream=stream)
        now, patience = asyncio.get_running_loop().time(), self._plan.timeouts.tool_s
        outgoing.deadline, outgoing.max_deadline = now + patience, now + patience * LONGEST_CALL_FACTOR
        outgoing.patience = patience
        if self._stream is not None or self._callbacks is not None:
            outgoing.accepts = self._accepts()
        return outgoing

    def _accepts(self) -> frozenset[str]:
        """The notifications about the call that the hub takes from the server."""
        accepts = frozenset[str]() if self._stream is None else self._stream.accepts
        return accepts if self._callbacks is None else accepts | {CALLBACK}

    def _requests(self) -> CallRequests:
        """The requests of the server to the client within this call."""
        if self._open_requests is None:
            self._open_requests = CallRequests(self._call, self._plan, self, self._dispatcher.states.life_s)
        return self._open_requests

    def _translation(self) -> Translation:
        """Translates between the eras of client and server, where they differ."""
        return Translation(self._call, self._connection, self._dispatcher.states)
