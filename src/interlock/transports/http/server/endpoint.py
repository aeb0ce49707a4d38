"""The rules of Streamable HTTP in both eras: the meaning of POST, GET and DELETE on an MCP path, and their answers.

`connection.py` handles bytes and connections. The service decides who may ask, and answers.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.protocols.mcp import headers as mcp_headers
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import (
    check_session_version,
    is_modern,
    name_in,
    preview,
    read_initialize,
    read_modern,
)
from interlock.transports.credentials import check_beside
from interlock.transports.exchange import AdmittedCaller, Service
from interlock.transports.http.bounds import DEFAULT_BOUNDS, HttpBounds
from interlock.transports.http.server.answers import fault_headers
from interlock.transports.http.server.exchange import LISTEN, HttpExchange
from interlock.transports.http.server.guard import GuardRefusal, Headers
from interlock.transports.http.server.http_batch import HttpBatch
from interlock.transports.http.server.http_request import HttpRequest, RequestHead
from interlock.transports.http.server.large_body import LargeBody
from interlock.transports.http.server.legacy_sse import LegacySse
from interlock.transports.http.server.legacy_sse_paths import mcp_path_of
from interlock.transports.http.server.malformed import KEY, MalformedRequests
from interlock.transports.http.server.post_headers import accepts_events, names_modern, names_session, unfit
from interlock.transports.http.server.refusals import error_dialect_of, failure, id_of, refuse
from interlock.transports.http.server.sessions import HttpSession, HttpSessions
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.transports.sessions.session import BACK_MS, SERVER_STOPS
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.cancellation import read_withdrawal
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import Fault, internal_error
from interlock.wire.large import LARGE
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    BadMessage,
    Failure,
    Id,
    Notification,
    Request,
    Result,
    decode,
    decode_batch,
    encode_result,
    is_batch,
    plain_request,
)

_log = logging.getLogger(__name__)

_ALLOW_ALL: Final = b"allow: POST, GET, DELETE\r\n"
_ALLOW_POST: Final = b"allow: POST\r\n"
INITIALIZED: Final = "notifications/initialized"


class McpEndpoint:
    """Everything behind the MCP paths of one HTTP face."""

    def __init__(
        self,
        service: Service,
        limits: Limits = DEFAULT,
        bounds: HttpBounds = DEFAULT_BOUNDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._limits = limits
        self._bounds = bounds
        self.sessions = HttpSessions(service, limits, bounds, clock)
        self.open_bytes = RequestBytes(bounds.held_bytes)
        """The large bodies of this address, and the open requests of its streams of revision 2024-11-05."""
        self._small_requests = RequestBytes(bounds.open_small_bytes)
        self.legacy_sse = LegacySse(service, limits, bounds, self.open_bytes)
        self._malformed = MalformedRequests(service, clock)
        self._listening: set[HttpExchange] = set()
        """Subscriptions of the stateless era: requests that are never done by themselves."""

    def handle(self, http: HttpRequest) -> None:
        """Answer a request, now or later."""
        head = http.head
        try:
            if head.fit:
                self._post(http)
            elif not head.path.endswith("/mcp") and mcp_path_of(head.path) is not None:
                self.legacy_sse.handle(http)
            elif head.method == b"POST":
                self._post(http)
            elif head.method == b"GET":
                self._get(http)
            elif head.method == b"DELETE":
                self._delete(http)
            else:
                refuse(http, 405, Fault("INVALID_REQUEST", "only POST, GET and DELETE"), _ALLOW_ALL)
        except AuthenticationPending as waiting:
            waiting.settled.add_done_callback(lambda _: self._again(http))
        except Exception as cause:
            self._fail(http, cause)

    def _fail(self, http: HttpRequest, cause: Exception) -> None:
        if isinstance(cause, Fault):
            id_, fault = id_of(http, cause), self._malformed.counted(http, cause)
            refuse(http, fault.kind.http, fault, error_dialect=error_dialect_of(http, fault), id=id_)
        else:
            _log.error("a request to %s failed", http.head.path, exc_info=cause)
            refuse(http, 500, internal_error(), id=id_of(http, None))

    def _again(self, http: HttpRequest) -> None:
        """The caller is known now. A client that has gone meanwhile needs no answer."""
        if not http.over:
            self.handle(http)

    def early_refusal(self, head: RequestHead) -> GuardRefusal | None:
        """The refusal for the caller, the method or the type of a request, before its body is read; None for none."""
        large = head.length > self._bounds.early_bytes or b"transfer-encoding" in head.headers
        try:
            self.legacy_sse.admit(head.path, head.headers)
        except Fault as fault:
            if isinstance(fault, AuthenticationPending) and not large:
                return None
            return GuardRefusal(fault.kind.http, fault.message, fault.name, fault_headers(fault))
        if not large:
            return None
        if head.method != b"POST":
            return GuardRefusal(413, "only a POST has a body here", "TOO_LARGE")
        refused = unfit(head.headers)
        return None if refused is None else GuardRefusal(*refused)

    def principal_name_of(self, path: str, headers: Headers) -> str:
        """The principal of the key in a head, where it admits its caller; empty otherwise."""
        if KEY not in headers:
            return ""
        try:
            return self.legacy_sse.admit(path, headers).principal_name
        except Fault:
            return ""

    def tick(self) -> None:
        """Sessions that nobody uses end."""
        self.sessions.expire()
        self.legacy_sse.tick()
        self._listening = {exchange for exchange in self._listening if exchange.open}

    def drain(self) -> None:
        """End the streams that only listen; calls under way go on."""
        self.sessions.hang_up()
        self.legacy_sse.drain()
        for exchange in self._listening:
            exchange.end_listening(SERVER_STOPS.reason)

    def close(self) -> None:
        """End every session, and answer its requests."""
        self.legacy_sse.close()
        self.sessions.end_all(SERVER_STOPS.reason)

    def abandon(self, http: HttpRequest) -> None:
        """Answer a request without a session that is open when the server stops."""
        watcher = http.connection.watcher
        if isinstance(watcher, HttpExchange):
            watcher.abort(SERVER_STOPS)
            return
        # The request was not carried out: its caller or its body is not known yet.
        fault = Fault("SERVER_DRAINING", SERVER_STOPS.reason, hint="send the request again", retry_after_ms=BACK_MS)
        refuse(http, fault.kind.http, fault, error_dialect=error_dialect_of(http, fault), id=id_of(http, None))

    def _post(self, http: HttpRequest, message: Request | None = None) -> None:
        """Serve the request in a POST, which is read from its body where it was not read already."""
        head = http.head
        caller = self._admit(http)
        if not head.fit:
            refused = unfit(head.headers)
            if refused is not None:
                refuse(http, refused[0], Fault("INVALID_REQUEST", refused[1]))
                return
            head.carries_message()
        request = message
        if request is None and http.message is None and len(http.body) <= LARGE:
            request = plain_request(http.body)
        if request is None:
            self._message(http, caller)
            return
        method, view = request.method, preview(request.params)
        meta = view.meta
        session: HttpSession | None = None
        if (meta is not None and meta.protocol_version is not None) or is_modern(request, view, head.headers):
            name = view.name if method == "tools/call" else name_in(method, view)
            mirrored = None if meta is None else (method, name, meta.protocol_version)
            # The headers are compared with the body once for each pair of both.
            known_pair = mirrored is not None and mirrored == head.mirrored
            dialect = read_modern(request, view, None if known_pair else head.headers)
            if not known_pair:
                head.mirrors(mirrored)
        elif method == "initialize":
            self._initialize(http, caller, request)
            return
        else:
            known = head.session
            if not isinstance(known, HttpSession) or known.over or known.principal_name != caller.principal_name:
                known = self._session(http, caller)
                head.names_session(known)
            session = known
            dialect = session.session.dialect
        exchange = HttpExchange(request, view, dialect, caller, http, session)
        exchange.serve(self._service, self._small_requests)
        if method == LISTEN and exchange.open:
            self._listening.add(exchange)

    def _admit(self, http: HttpRequest) -> AdmittedCaller:
        """The caller of a request. Raises a `Fault`."""
        head = http.head
        caller: AdmittedCaller = self._service.admit(head.path, head.headers)
        if KEY in head.headers:
            http.connection.admit(http, caller.principal_name)
        return caller

    def _message(self, http: HttpRequest, caller: AdmittedCaller) -> None:
        """Take a message that is not written as most requests are."""
        read = http.message
        if read is None and len(http.body) > LARGE:
            self._malformed.check(http)
            LargeBody(http, self).read(caller.principal_name, self._limits)
            return
        if isinstance(read, BadMessage):
            raise read
        if isinstance(read, list) or (read is None and is_batch(http.body)):
            self._batch(http, caller)
            return
        message = read or decode(http.body, self._limits)
        if isinstance(message, Request):
            check_beside(message.auth, http.head.headers)
            self._post(http, message)
        elif isinstance(message, Notification):
            self._take_notification(http, caller, message)
        else:
            self._session(http, caller).on_response(message)
            http.answer(202)

    def _initialize(self, http: HttpRequest, caller: AdmittedCaller, request: Request) -> None:
        dialect = read_initialize(request.params)
        preparing = self._service.prepare_session(caller, dialect)
        if preparing is None:
            self._open_session(http, caller, request.id, dialect)
        else:
            # Prepared or not: what is missing then is found at once.
            preparing.add_done_callback(lambda _: self._open_prepared(http, caller, request.id, dialect))

    def _open_prepared(self, http: HttpRequest, caller: AdmittedCaller, id: Id, dialect: Dialect) -> None:
        """Open a session for a client that waits for it still."""
        if not http.over:
            try:
                self._open_session(http, caller, id, dialect)
            except Exception as cause:
                self._fail(http, cause)

    def _open_session(self, http: HttpRequest, caller: AdmittedCaller, id: Id, dialect: Dialect) -> None:
        opened, greeting = self.sessions.open(caller, dialect)
        named = b"mcp-session-id: %b\r\n" % opened.session.id.encode()
        http.answer(200, encode_result(id, greeting), named)

    def _take_notification(self, http: HttpRequest, caller: AdmittedCaller, notification: Notification) -> None:
        view = preview(notification.params)
        if is_modern(Request(0, notification.method, notification.params), view, http.head.headers):
            self._service.on_notification(caller, None, notification)
        else:
            self._on_notification(self._session(http, caller), caller, notification)
        http.answer(202)

    def _on_notification(self, session: HttpSession, caller: AdmittedCaller, notification: Notification) -> None:
        if notification.method == CANCELLED_METHOD:
            try:
                id_, reason = read_withdrawal(notification.params)
            except msgspec.DecodeError as cause:
                raise Fault("INVALID_PARAMS", f"{CANCELLED_METHOD}: {cause}") from None
            exchange = session.opened.get(id_)
            if exchange is not None:
                exchange.cancel(reason)
            return
        if notification.method == INITIALIZED:
            session.session.confirm()
        self._service.on_notification(caller, session.session, notification)

    def _batch(self, http: HttpRequest, caller: AdmittedCaller) -> None:
        if not names_session(http.head.headers):
            raise Fault("INVALID_REQUEST", "batches are part of revision 2025-03-26 alone, and never initialize")
        session = self._session(http, caller)
        if not session.session.dialect.revision.batches:
            raise Fault("INVALID_REQUEST", f"revision {session.session.dialect.revision.name} has no batches")
        messages = http.message if isinstance(http.message, list) else decode_batch(http.body, self._limits)
        refused = [failure(bad, bad.id) for bad in messages if isinstance(bad, BadMessage)]
        requests = [message for message in messages if isinstance(message, Request)]
        for message in messages:
            if isinstance(message, Notification):
                with contextlib.suppress(Fault):
                    self._on_notification(session, caller, message)
            elif isinstance(message, Result | Failure):
                session.on_response(message)
        batch = HttpBatch(http, session, len(requests), refused)
        if not requests:
            batch.close()
        for request in requests:
            self._serve_in_batch(http, session, caller, request, batch)

    def _serve_in_batch(
        self, http: HttpRequest, session: HttpSession, caller: AdmittedCaller, request: Request, batch: HttpBatch
    ) -> None:
        try:
            if request.method == "initialize":
                raise Fault("INVALID_REQUEST", "initialize must not be part of a batch")
            check_beside(request.auth, http.head.headers)
            view = preview(request.params)
            exchange = HttpExchange(request, view, session.session.dialect, caller, http, session, batch)
            exchange.serve(self._service, self._small_requests)
        except Fault as fault:
            batch.answered(failure(fault, request.id))

    def _get(self, http: HttpRequest) -> None:
        caller = self._admit(http)
        if not names_session(http.head.headers):
            refuse(http, 405, Fault("INVALID_REQUEST", "there is no stream to GET without a session"), _ALLOW_POST)
            return
        session = self._session(http, caller)
        if not accepts_events(http.head.headers):
            refuse(http, 406, Fault("INVALID_REQUEST", "Accept must list text/event-stream"))
            return
        last_event = http.head.headers.get(mcp_headers.LAST_EVENT)
        if not session.listen(http, caller, None if last_event is None else last_event.decode("latin-1")):
            refuse(http, 405, Fault("INVALID_REQUEST", "the stream of that event is over"), _ALLOW_POST)

    def _delete(self, http: HttpRequest) -> None:
        caller = self._admit(http)
        if not names_session(http.head.headers):
            refuse(http, 405, Fault("INVALID_REQUEST", "there is nothing to DELETE without a session"), _ALLOW_POST)
            return
        self.sessions.end(self._session(http, caller), SessionEvent.LEAVE, "the client ended the session")
        http.answer(204)

    def _session(self, http: HttpRequest, caller: AdmittedCaller) -> HttpSession:
        """The session that a request of the handshake era names."""
        if names_modern(http.head.headers):
            raise Fault("INVALID_REQUEST", "clients send no responses in this revision")
        named = http.head.headers.get(mcp_headers.SESSION)
        if named is None:
            raise Fault(
                "INVALID_REQUEST",
                "Mcp-Session-Id is missing",
                hint="open a session with initialize, or send the request in the form of revision 2026-07-28",
            )
        session = self.sessions.find(named, caller)
        check_session_version(http.head.headers, session.session.dialect.revision)
        return session
