"""Forwards one call to its server, and the answer, progress and questions of the server to the client.

Ids, progress tokens and request states never cross the hub: each side has its own. This file has the way of every call;
answers in another form, questions, chunks, callbacks and errors have files of their own in this package.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.hub.audit.record import CANCELLED, SUCCEEDED, UNREADABLE, Outcome, outcome_in
from interlock.hub.calls import recording
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.call_notifications import relay_notification
from interlock.hub.calls.dispatch.call_requests import CallRequests
from interlock.hub.calls.dispatch.callbacks import ServerCallbacks
from interlock.hub.calls.dispatch.chunk_checks import checked_content
from interlock.hub.calls.dispatch.mgp_relays import NOTIFICATIONS, MgpRelays
from interlock.hub.calls.dispatch.recovery import UNSENT, CallRecovery
from interlock.hub.calls.dispatch.server_errors import answer_error, answer_fault, answer_loss, loss_of
from interlock.hub.calls.dispatch.translation import Translation
from interlock.hub.calls.late_results import LateResults
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.upstream import Upstream
from interlock.protocols.mcp.answers import COMPLETE, INPUT_REQUIRED, ReadResult, ResultMembers, read_answer
from interlock.protocols.mcp.error_translation import URL_FIRST
from interlock.protocols.mcp.headers import param_values
from interlock.protocols.mcp.meta import Members
from interlock.protocols.mcp.reserved_names import error_of_server, params_of_server
from interlock.protocols.mgp import streaming
from interlock.protocols.mgp.methods import agreed_on
from interlock.transports.link import Outgoing
from interlock.transports.requests.open_requests import OpenRequests
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.large import CheckedJson
from interlock.wire.messages import Failure, Id, Request, Result

_UNSET: Final = msgspec.UNSET
_NOTHING: Final[frozenset[str]] = frozenset()
MAX_TIMEOUT_FACTOR: Final = 10
"""Progress keeps a call alive, up to this many times its timeout."""


class CallDispatcher(Protocol):
    """The dispatcher, as the forwarders that it makes use it."""

    states: RequestStates
    recovery: CallRecovery
    late_results: LateResults
    open_requests: OpenRequests[Forwarder]
    callbacks: ServerCallbacks
    loop: asyncio.AbstractEventLoop

    def upstream_of(self, call: Call) -> Upstream | None:
        """The server of a call that is not done."""

    def done(self, call: Call, outcome: Outcome | None = None) -> None:
        """Give the place of a call back, and record how it ended."""


class Forwarder(msgspec.Struct, eq=False):
    """Forwards one call. It is the sink of the request to the server, and answers the exchange of the client."""

    _call: Call
    _plan: Plan
    _connection: Connection
    _owner: ConnectionOwner | None
    """The owner of a private connection, whose client the server may ask."""
    _dispatcher: CallDispatcher
    _began: float
    """When its intent was recorded, as `perf_counter` counts."""
    _outcome: Outcome | None = None
    """How the call ended, as far as is known."""
    _handle: Id | None = None
    _finished: bool = False
    _open_requests: CallRequests | None = None
    """Requests of the server to the client, if there were any."""
    _cancelling: bool = False
    """Whether its client has asked to cancel it by its id."""
    _answered_cancelled: bool = False
    _relays: MgpRelays | None = None
    """Relays chunks, progress and callbacks of a server that speaks MGP."""

    # Sending

    def send(self, more: Members | None = None) -> None:
        """Send the call, with additional members where it is repeated. A failure to send is its answer."""
        call = self._call
        try:
            if self._connection.mgp is not None and self._handle is None:
                self._relays = MgpRelays.of(
                    call, self._plan, self._connection, self._translation(), self._dispatcher.callbacks, self
                )
            outgoing = self._outgoing(more)
            call.exchange.on_cancel = self.cancelled
            if self._owner is not None:
                self._owner.open.add(self)
            if call.exchange.dialect.mgp is not None and agreed_on(call.exchange.dialect, streaming.EXTENSION):
                self._dispatcher.open_requests.add(call.exchange, self)
            if type(call.arguments_raw) is CheckedJson:
                # Each step copies the whole message, so each has a turn of the loop to itself.
                asyncio.get_running_loop().call_soon(self._send_outgoing, outgoing)
            else:
                self._send_outgoing(outgoing)
        except Fault as fault:
            (self.on_lost if fault.name == UNSENT else self._fail)(fault)

    def _outgoing(self, more: Members | None) -> Outgoing:
        """The request for the server, with `more` where it is repeated. A plain one is made without decoding."""
        call, connection, patience = self._call, self._connection, self._plan.timeouts.tool_s
        target, exchange, modern = call.target, call.exchange, connection.modern
        tool, meta, mgp = target.tool, exchange.preview.meta, connection.mgp
        headers: tuple[tuple[str, str], ...] = ()
        if tool is not None and tool.param_headers and modern:
            headers = tuple(param_values(tool.param_headers, call.arguments))
        wants_progress = meta is not None and meta.progress_token is not None
        rest: bytes | None = None
        plain = call.plain and more is None and not call.scope and mgp is None and call.approval is None
        if plain and modern is exchange.dialect.modern:
            # Name, arguments and `_meta` are put together again: the server gets what the gates judged.
            # One join copies large arguments once.
            tail, pieces = b"}" if meta is None else meta.tail, [b'{"name":', target.quoted, b',"arguments":']
            pieces += call.arguments_raw, b',"_meta":{'
            if meta is None or meta.traceparent is None:
                trace = call.trace.encode()
                pieces += b'"traceparent":"00-', trace, b"-", trace[:16], b'-01",' if wants_progress else b'-01"'
            elif not wants_progress:
                tail = tail[1:]
            params = b"".join(pieces) if wants_progress else b"".join((*pieces, tail, b"}"))
            rest = tail + b"}" if wants_progress else None
        else:
            stream = self._relays is not None and self._relays.asks_for_chunks
            params = self._translation().params(call.members, more, stream=stream)
        name, now = None if target.kind == "completion" else target.name, self._dispatcher.loop.time()
        return Outgoing(
            exchange.request.method, params, now + patience, name, headers, wants_progress,
            max_deadline=now + patience * MAX_TIMEOUT_FACTOR, introduced=True, patience=patience, rest=rest,
            idempotent=None if tool is None else tool.idempotent,
            accepts=_NOTHING if self._relays is None else self._relays.accepts,
        )  # fmt: skip

    def _send_outgoing(self, outgoing: Outgoing) -> None:
        try:
            if not self._finished:
                self._handle = self._connection.send(outgoing, self)
                if self._relays is not None and self._relays.stream is not None:
                    self._relays.stream.begin(self._handle)
        except Fault as fault:
            (self.on_lost if fault.name == UNSENT else self._fail)(fault)

    # The answer of the server

    def on_response(self, answer: Result | Failure) -> None:
        """Answer the client in its own terms."""
        call, modern = self._call, self._connection.modern
        if self._cancelling and isinstance(answer, Failure):
            self._outcome, self._answered_cancelled = CANCELLED, True
            self._fail(Fault("CANCELLED", "the call was cancelled"))
            return
        modern_client = call.exchange.dialect.modern
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
            self._outcome = UNREADABLE
            self._fail(Fault(fault.name, f"{call.target.server}: {fault.message}", quotes_server=True))
            return
        outcome = SUCCEEDED if members.error is _UNSET else outcome_in(members)
        self._outcome = msgspec.structs.replace(outcome, size=len(read.result))
        if asks:
            self._after_answer().judge_result(read.result, partial(self._answer_read, read))
        else:
            self._answer_read(read)

    def _answer_read(self, read: ReadResult) -> None:
        """Answer the client with a result. Most are passed on unchanged."""
        streams = self._relays is not None and self._relays.stream is not None
        if streams or not read.clean or not self._is_in_form(read.members):
            self._answer_translated(read)
            return
        self._finish()
        exchange = self._call.exchange
        if self._plan.processor is None and exchange.reachable:
            exchange.result(read.result)
        else:
            self._deliver(read.result)

    def _is_in_form(self, members: ResultMembers) -> bool:
        """Whether a result already has the form of the client's revision."""
        modern, dialect = self._connection.modern, self._call.exchange.dialect
        if modern is not dialect.modern:
            return False
        if not modern:
            return dialect.revision.structures
        shared = members.scope is not _UNSET and not members.private
        return members.result_type == COMPLETE and not shared and self._call.target.kind != "resource"

    def _answer_translated(self, read: ReadResult) -> None:
        """Answer the client with a result in its own terms."""
        try:
            stream = None if self._relays is None else self._relays.stream
            result = read.result if stream is None else stream.finish(read.result)
            translated = self._translation().result(result, read.members, self._deliver)
        except Fault as fault:
            self._fail(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            self._fail(Fault("UPSTREAM_ERROR", f"the answer of {self._call.target.server} cannot be read: {cause}"))
        else:
            self._finish()
            if translated is not None:
                self._deliver(translated)

    def _deliver(self, result: bytes | Fault) -> None:
        """Answer with a result, processed as the settings of its server say."""
        if isinstance(result, Fault):
            answer_fault(self._call, self._plan.processor, result)
        else:
            self._dispatcher.late_results.answer(self._call, self._plan, result)

    def _on_error(self, error: ErrorObject) -> None:
        self._outcome = Outcome("answered", "error", code=error.code, size=len(error.message) + len(error.data))
        error = error_of_server(error)
        if error.code == URL_FIRST:
            self._after_answer().judge_error(error, partial(self._answer_error, error))
        else:
            self._answer_error(error)

    def _answer_error(self, error: ErrorObject) -> None:
        self._finish()
        answer = partial(answer_error, self._call, self._plan, self._connection, self._dispatcher, self._began)
        if self._plan.processor is None:
            answer(error)
        else:
            self._plan.processor.error(self._call, error, answer)

    def on_lost(self, fault: Fault) -> None:
        """Answer a call that the server will not answer."""
        call, upstream = self._call, self._dispatcher.upstream_of(self._call)
        lost = loss_of(call, self._plan, fault)
        self._outcome = recording.lost(lost)
        self._finish()
        answer_loss(call, self._plan, self._dispatcher, upstream, lost, self._began, unsent=fault.name == UNSENT)

    def _asks_client(self, answer: Result | Failure) -> bool:
        """Whether a stateless server's answer is a question. It is then put to the client of the handshake era."""
        if isinstance(answer, Failure):
            return False
        try:
            if read_answer(answer).members.kind != INPUT_REQUIRED:
                if self._open_requests is not None:
                    self._open_requests.completed()
                return False
            self._requests().put_all(answer.result)
        except Fault as fault:
            self.on_lost(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            self.on_lost(Fault("UPSTREAM_ERROR", f"a question of {self._call.target.server} cannot be read: {cause}"))
        return True

    def _after_answer(self) -> CallRequests:
        """The requests of a server that has answered, so that no cancellation could reach it."""
        self._handle = None
        return self._requests()

    # Messages of the server before its answer

    def on_notification(self, method: str, params: bytes) -> None:
        """Relay a notification about this call, or on its stream."""
        params = params_of_server(params)
        # Chunks have checks of their own.
        if self._plan.processor is not None and method != streaming.CHUNK:
            params = self._plan.processor.params(params)
        if method not in NOTIFICATIONS:
            relay_notification(self._call, self._connection, self._owner, method, params)
        elif self._relays is not None:
            self._relays.on_notification(method, params)

    def on_request(self, request: Request) -> None:
        """Put a request of the server to the client: possible where the connection is the client's own."""
        if self._owner is None:
            # It may be for the hub itself. Any other is refused there.
            self._connection.listener.on_request(request)
            return
        ask = partial(self._requests().ask, self._owner)
        self._owner.relay(self._connection, request, self._call.caller, ask, self._call.exposed_server)

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
        """Give the server this much time for its answer, from now on."""
        if self._handle is not None and not self._finished:
            self._connection.extend(self._handle, asyncio.get_running_loop().time() + seconds)

    @property
    def attended(self) -> bool:
        """Whether its client waits for it now."""
        exchange = self._call.exchange
        return not isinstance(exchange, ParkedExchange) or exchange.attended

    # The end

    async def cancel_for_client(self, reason: str) -> bytes | None:
        """Cancel the call as its client asked (MGP, Cancellation). The call is answered with an error, and this returns
        the content so far; None where the call was answered in the meantime."""
        self._cancelling = True
        stream = None if self._relays is None else self._relays.stream
        content = None if stream is None else await stream.cancel(reason)
        if self._finished and not self._answered_cancelled:
            return None
        self.cancelled(reason)
        self._call.exchange.fail(Fault("CANCELLED", "the call was cancelled"))
        return b"[]" if content is None else await checked_content(self._call, self._plan, content)

    def cancelled(self, reason: str) -> None:
        """Cancel the request to the server: the client no longer wants the answer."""
        if not self._finished and (self._handle is not None or self._outcome is not None):
            if self._handle is not None:
                self._connection.cancel(self._handle, reason)
            self._outcome = CANCELLED
        self._finish()

    def refuse(self, fault: Fault) -> None:
        """Answer with a refusal, unless the call is over."""
        if not self._finished:
            self._fail(fault)

    def _fail(self, fault: Fault) -> None:
        self._outcome = recording.failed(self._outcome, fault)
        self._finish()
        answer_fault(self._call, self._plan.processor, fault)

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        # Exchange and call would keep each other alive.
        self._call.exchange.on_cancel = None
        if self._relays is not None:
            self._relays.stop()
        if self._call.exchange.dialect.mgp is not None:
            self._dispatcher.open_requests.remove(self)
        if self._owner is not None:
            self._owner.open.discard(self)
        if self._open_requests is not None:
            requests, self._open_requests = self._open_requests, None
            requests.withdraw()
        self._dispatcher.done(self._call, self._outcome)

    def _requests(self) -> CallRequests:
        """The requests of the server to the client within this call."""
        if self._open_requests is None:
            self._open_requests = CallRequests(self._call, self._plan, self, self._dispatcher.states.life_s)
        return self._open_requests

    def _translation(self) -> Translation:
        """Translates between the eras of client and server, where they differ."""
        return Translation(self._call, self._connection, self._dispatcher.states)
