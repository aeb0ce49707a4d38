"""Messages of a server that are no answers: its own requests, each answered once, and notifications about requests."""

from __future__ import annotations

from typing import Protocol

import msgspec

from interlock.transports.http.client.http_call import HttpCall
from interlock.transports.link import Listener
from interlock.wire.cancellation import read_withdrawal
from interlock.wire.conversation import CANCELLED_METHOD, NAMES_REQUEST, PROGRESS, named_request
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.limits import Limits
from interlock.wire.messages import EMPTY_OBJECT, Id, Notification, Request, encode_failure, encode_result


class MessageLink(Protocol):
    """The link to a server, as the reader of its messages uses it."""

    listener: Listener
    limits: Limits
    calls: dict[Id, HttpCall]
    """The requests that wait for an answer."""

    @property
    def modern(self) -> bool:
        """Whether the stateless era is spoken."""

    def post(self, body: bytes, method: str = "") -> None:
        """Send a message that is no request."""

    def progressed(self, call: HttpCall, params: bytes) -> None:
        """A request is getting on."""

    def move_deadline(self, call: HttpCall) -> None:
        """Let a request take longer, up to its last deadline."""

    def complain(self, text: str, kind: str = "stray") -> None:
        """Report what the server should not have done."""


class HttpServerMessages:
    """Takes the messages of one server."""

    def __init__(self, link: MessageLink) -> None:
        self._link = link
        self._owed: set[Id] = set()
        """The server's requests that have no answer yet."""

    def settle(self, id: Id) -> bool:
        """An answer to the server is about to be sent. False where it is not wanted."""
        if id not in self._owed:
            return False
        self._owed.discard(id)
        return True

    def owe(self, request: Request) -> bool:
        if self._link.modern:
            self._link.complain(f"a request of its own, which this revision has not: {request.method[:100]}")
            return False
        if request.method == "ping":
            self._link.post(encode_result(request.id, EMPTY_OBJECT))
            return False
        if request.id in self._owed:
            self._link.complain(f"request id {request.id!r} is used twice")
            return False
        if len(self._owed) >= self._link.limits.pending:
            error = Fault("RESOURCE_EXHAUSTED", "too many open requests").render(ErrorDialect.OLD_MCP)
            self._link.post(encode_failure(request.id, error))
            return False
        self._owed.add(request.id)
        return True

    def on_notification(self, notification: Notification) -> None:
        method, params = notification.method, notification.params
        try:
            if method == PROGRESS:
                call = self._link.calls.get(msgspec.json.decode(params, type=_Progress).progressToken)
                if call is not None:
                    self._link.progressed(call, params)
                    return
            elif method in NAMES_REQUEST:
                self._concerned(method, params)
                return
            elif method == CANCELLED_METHOD:
                self._owed.discard(read_withdrawal(params)[0])
        except JSON_ERRORS:
            self._link.complain(f"{method} cannot be read")
            return
        self._link.listener.on_notification(method, params)

    def _concerned(self, method: str, params: bytes) -> None:
        named = named_request(params)
        call = None if named is None else self._link.calls.get(named)
        if call is None or method not in call.outgoing.accepts:
            self._link.complain(f"{method} of {named!r}, which did not ask for it")
            return
        self._link.move_deadline(call)
        call.sink.on_notification(method, params)


class _Progress(msgspec.Struct):
    progressToken: Id
