"""A link on which all requests share one stream: which request waits for which answer, until when, and how it ends.

The transport hands in messages, and writes the bytes it is given.
"""

from __future__ import annotations

import abc
import asyncio
from typing import Final

import msgspec

from interlock.transports.link import Link, Listener, Outgoing, Sink
from interlock.transports.violation_log import ViolationLog
from interlock.wire.conversation import (
    CANCELLED_METHOD,
    PROGRESS,
    Answered,
    Notified,
    Progressed,
    RefusedMessage,
    RelatedNotification,
    RequestReceived,
    RpcConversation,
    UnmatchedMessage,
    Withdrawn,
)
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import (
    EMPTY_OBJECT,
    Id,
    Message,
    Notification,
    Request,
    encode_failure,
    encode_notification,
    encode_request,
    encode_result,
    one_line,
)

SWEEP: Final = 0.25
"""Seconds between two checks of the deadlines, while requests are pending."""


class Waiter(msgspec.Struct, eq=False):
    """One request's place in the conversation."""

    id: int
    outgoing: Outgoing
    sink: Sink
    least: float = 0.0
    """The deadline is never earlier than this."""
    sent: bool = False
    """Whether the server may have got it, where the transport knows that of each."""

    def arrive(self) -> None:
        """The server has got it."""
        self.sent = True


class OneStreamLink(Link):
    """A connection to a server that speaks on one stream."""

    says: str
    """The source of complaints about it."""

    def __init__(self, listener: Listener, limits: Limits) -> None:
        self.listener = listener
        self.complaints = ViolationLog(listener, self.says)
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._conversation: RpcConversation[Waiter, None] = RpcConversation(limits)
        self.modern = False
        """Whether the stateless era is spoken, in which servers send no requests."""
        self._handshake: Id | None = None
        self._sweeping = False
        self._held: set[Id] = set()
        """Requests whose sinks take no more notifications for now."""
        self._fault: Fault | None = None

    @abc.abstractmethod
    def _post(self, message: bytes, waiter: Waiter) -> None:
        """Send a request. Raises a `Fault` where it cannot be sent."""

    @abc.abstractmethod
    def _write(self, message: bytes) -> None:
        """Send a message that is no request. Does nothing once the link is gone."""

    @abc.abstractmethod
    def _reached(self, waiter: Waiter) -> bool:
        """Whether the server may have got this request."""

    def _hold_stream(self, *, on: bool) -> None:
        """Pause reading the server's messages, or resume it. Not every transport can."""

    @property
    def pending(self) -> int:
        return len(self._conversation.waiting)

    def cancel(self, handle: Id, reason: str) -> None:
        self._withdraw(handle, reason)

    def extend(self, handle: Id, deadline: float) -> None:
        waiter = self._conversation.extend(handle, deadline)
        if waiter is not None:
            waiter.least = deadline

    def hold(self, handle: Id, *, on: bool) -> None:
        if on and handle in self._conversation.waiting:
            self._held.add(handle)
        elif not on and handle in self._held:
            self._held.discard(handle)
        else:
            return
        self._check_held()

    def _check_held(self) -> None:
        """Pause the stream only while every open request is paused, so that no request waits for another's client."""
        held, waiting = self._held, self._conversation.waiting
        if held:
            held.intersection_update(waiting)
        self._hold_stream(on=bool(held) and len(held) == len(waiting))

    def tell(self, method: str, params: bytes) -> None:
        self._write(encode_notification(method, sendable(params)))

    def answer(self, id: Id, result: bytes) -> None:
        if self._conversation.settle(id):
            self._write(encode_result(id, sendable(result)))

    def refuse(self, id: Id, error: ErrorObject) -> None:
        if self._conversation.settle(id):
            self._write(encode_failure(id, error))

    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        if self._fault is not None:
            raise Fault("UPSTREAM_UNAVAILABLE", self._fault.message)
        if not outgoing.patience and outgoing.max_deadline is not None:
            outgoing.be_patient(outgoing.deadline - self._loop.time())
        conversation = self._conversation
        id_ = conversation.reserve()
        params = outgoing.params
        if outgoing.rest is not None:
            params = b'%b"progressToken":%d%b' % (params, id_, outgoing.rest)
        elif outgoing.wants_progress:
            params = outgoing.with_token(id_)
        try:
            message = encode_request(id_, outgoing.method, one_line(params))
        except UnicodeDecodeError:
            raise _not_text() from None
        if outgoing.method == "initialize":
            self._handshake = id_
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP, self._sweep)
        waiter = Waiter(id_, outgoing, sink)
        conversation.waiting[id_] = waiter, outgoing.deadline
        if self._held:
            self._check_held()
        try:
            self._post(message, waiter)
        except Fault:
            self._forget(id_)
            raise
        return id_

    # Messages of the server.

    def _take(self, message: Message) -> bool:
        """Hand a message to its receiver. Returns whether one waited for it."""
        match self._conversation.take(message):
            case Answered(waiter, answer):
                waiter.sink.on_response(answer)
                return True
            case RelatedNotification(waiter, notification):
                return self._concerned(waiter, notification)
            case Progressed(waiter, params):
                self._progressed(waiter, params)
            case Notified(notification):
                self.listener.on_notification(notification.method, notification.params)
            case RequestReceived(request):
                self._on_request(request)
            case Withdrawn():
                assert isinstance(message, Notification)
                self.listener.on_notification(CANCELLED_METHOD, message.params)
            case UnmatchedMessage(reason):
                self._complain("stray", reason)
            case RefusedMessage(bad):
                self._complain("refused", bad.message)
                if bad.id is not None and not self.modern:
                    self._write(encode_failure(bad.id, bad.render(ErrorDialect.OLD_MCP)))
        return False

    def _concerned(self, waiter: Waiter, notification: Notification) -> bool:
        if notification.method not in waiter.outgoing.accepts:
            self._complain("stray", f"{notification.method} of {waiter.id}, which did not ask for it")
            return False
        self._move_deadline(waiter)
        waiter.sink.on_notification(notification.method, notification.params)
        return True

    def _on_request(self, request: Request) -> None:
        if self.modern:
            self._conversation.settle(request.id)
            self._complain("refused", f"a request of its own, which this revision has not: {request.method[:100]}")
        elif request.method == "ping":
            self.answer(request.id, EMPTY_OBJECT)
        else:
            self.listener.on_request(request)

    def _progressed(self, waiter: Waiter, params: bytes) -> None:
        outgoing = waiter.outgoing
        if not outgoing.wants_progress:
            self._complain("stray", f"progress of {waiter.id}, which did not ask for it")
            return
        self._move_deadline(waiter)
        waiter.sink.on_notification(PROGRESS, params)

    def _move_deadline(self, waiter: Waiter) -> None:
        outgoing = waiter.outgoing
        if outgoing.max_deadline is not None:
            deadline = min(self._loop.time() + outgoing.patience, outgoing.max_deadline)
            self._conversation.extend(waiter.id, max(waiter.least, deadline))

    def _complain(self, kind: str, text: str) -> None:
        """Report what the server should not have done."""
        self.complaints.report(kind, text)

    # How a request ends without an answer.

    def _sweep(self) -> None:
        self._sweeping = False
        for id_, waiter in self._conversation.expire(self._loop.time()):
            if self._withdraw(id_, "the deadline passed"):
                waiter.sink.on_lost(Fault("UPSTREAM_TIMEOUT", f"no answer to {waiter.outgoing.method} in time"))
        if self._conversation.waiting and not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP, self._sweep)

    def _withdraw(self, id: Id, reason: str) -> bool:
        """Stop waiting and tell the server. The handshake itself is never cancelled (2025-11-25, Cancellation)."""
        cancellation = self._conversation.withdraw(id, reason)
        self.hold(id, on=False)
        if cancellation is not None and id != self._handshake:
            self._write(cancellation)
        return cancellation is not None

    def _forget(self, id: Id) -> bool:
        """Stop waiting, and tell nobody."""
        return self._conversation.withdraw(id) is not None

    def fail(self, id: Id, why: str) -> bool:
        """Fail the request of ours with this id. False where none waits."""
        waiting = self._conversation.waiting.get(id)
        if waiting is None or not self._forget(id):
            return False
        waiting[0].sink.on_lost(Fault("UPSTREAM_ERROR", why, quotes_server=True))
        return True

    def _lose_all(self, fault: Fault) -> None:
        """End all pending requests: the stream is gone."""
        self._fault = fault
        for waiter in self._conversation.abandon():
            name = "OUTCOME_UNKNOWN" if self._reached(waiter) else "UPSTREAM_UNAVAILABLE"
            text, quotes = fault.operator_text, fault.quotes_server
            waiter.sink.on_lost(Fault(name, fault.message, operator_text=text, quotes_server=quotes))


def sendable(payload: bytes) -> bytes:
    """The payload on one line. Raises INVALID_PARAMS if it is not UTF-8."""
    try:
        return one_line(payload)
    except UnicodeDecodeError:
        raise _not_text() from None


def _not_text() -> Fault:
    return Fault("INVALID_PARAMS", "the parameters are not UTF-8")
