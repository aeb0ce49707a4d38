"""One end of a JSON-RPC conversation over a shared stream: pending requests, and requests of the peer to answer.

It is pure: bytes and times are arguments, and each event is a return value. It knows no transport, and of all methods
only the notifications about other messages: progress, cancelled, and those that name a request.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import msgspec

from interlock.wire.cancellation import read_withdrawal, withdrawal
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    BadMessage,
    Failure,
    Id,
    Message,
    Notification,
    Request,
    Result,
    decode,
    encode_notification,
)

W = TypeVar("W")
"""The receiver of an answer of the other side: a future, a call, a test's string."""
E = TypeVar("E")
"""The worker on a request of the other side, where this end keeps one."""

CANCELLED_METHOD = "notifications/cancelled"
PROGRESS = "notifications/progress"
NAMES_REQUEST = frozenset(
    {
        "notifications/mgp.stream.chunk",
        "notifications/mgp.stream.progress",
        "notifications/mgp.callback.request",
    }
)
"""Notifications whose `request_id` names the request they belong to."""


class RequestReceived(msgspec.Struct, frozen=True):
    """A request of the peer. Its answer is owed until `settle`."""

    request: Request


class Answered(msgspec.Struct, Generic[W], frozen=True):
    """The answer to one of our requests."""

    waiter: W
    answer: Result | Failure


class Progressed(msgspec.Struct, Generic[W], frozen=True):
    """Progress of one of our requests."""

    waiter: W
    params: bytes


class RelatedNotification(msgspec.Struct, Generic[W], frozen=True):
    """A notification that names one of our requests."""

    waiter: W
    notification: Notification


class Notified(msgspec.Struct, frozen=True):
    """A notification that names no request of ours."""

    notification: Notification


class Withdrawn(msgspec.Struct, Generic[E], frozen=True):
    """The peer cancelled a request that is not answered yet."""

    id: Id
    reason: str
    exchange: E | None = None


class UnmatchedMessage(msgspec.Struct, frozen=True):
    """An answer or progress without a request that waits for it. It is counted, not answered."""

    reason: str


class RefusedMessage(msgspec.Struct, frozen=True):
    """An invalid message; `bad.id` is the request to answer, if there is one."""

    bad: BadMessage


Received: TypeAlias = (
    RequestReceived
    | Answered[W]
    | Progressed[W]
    | RelatedNotification[W]
    | Notified
    | Withdrawn[E]
    | UnmatchedMessage
    | RefusedMessage
)


class RpcConversation(Generic[W, E]):
    """Ids both ways, pending requests with their deadlines, and the answers this end owes."""

    __slots__ = ("_last_id", "_limits", "owed", "waiting")

    def __init__(self, limits: Limits = DEFAULT, last_id: int = 0) -> None:
        self._limits = limits
        self._last_id = last_id
        self.waiting: dict[Id, tuple[W, float]] = {}
        """Our requests that have no answer yet: the receiver of each answer, and its deadline."""
        self.owed: dict[Id, E | None] = {}
        """The other side's requests that have no answer yet."""

    def reserve(self) -> int:
        """An id for the next request. It is also a progress token that is unique on this stream."""
        if len(self.waiting) >= self._limits.pending:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                f"{self._limits.pending} requests are waiting on this connection",
                hint="wait for some to be answered",
                retry_after_ms=1000,
            )
        self._last_id += 1
        return self._last_id

    def extend(self, id: Id, deadline: float) -> W | None:
        """Give a pending request another deadline. Returns its receiver; None if it is not pending."""
        if id not in self.waiting:
            return None
        waiter = self.waiting[id][0]
        self.waiting[id] = (waiter, deadline)
        return waiter

    def withdraw(self, id: Id, reason: str = "") -> bytes | None:
        """Stop waiting for an answer. Returns the cancellation for the peer; None if the request is not pending."""
        if self.waiting.pop(id, None) is None:
            return None
        return encode_notification(CANCELLED_METHOD, withdrawal(id, reason))

    def expire(self, now: float) -> list[tuple[Id, W]]:
        """Requests whose deadline has passed. They stay pending until `withdraw`."""
        return [(id_, waiter) for id_, (waiter, deadline) in self.waiting.items() if deadline <= now]

    def abandon(self) -> list[W]:
        """Forget all requests, as the stream is gone. Returns the receivers of those that were pending."""
        waiters = [waiter for waiter, _ in self.waiting.values()]
        self.waiting.clear()
        self.owed.clear()
        return waiters

    def owe(self, id: Id) -> bool:
        """Note that a request of the peer needs an answer, until `settle`. False where the request is refused."""
        owed = self.owed
        if id in owed or len(owed) >= self._limits.pending:
            return False
        owed[id] = None
        return True

    def settle(self, id: Id) -> bool:
        """Note that an answer is about to be sent. False if the request was cancelled: then it must not be sent."""
        if id not in self.owed:
            return False
        del self.owed[id]
        return True

    def receive(self, data: bytes) -> Received[W, E]:
        """Read one message of the peer."""
        try:
            message = decode(data, self._limits)
        except BadMessage as bad:
            return RefusedMessage(bad)
        return self.take(message)

    def take(self, message: Message) -> Received[W, E]:
        """The same for a message that was decoded already."""
        if isinstance(message, Result | Failure):
            return self._answered(message)
        if isinstance(message, Request):
            return self._on_request(message)
        if message.method == PROGRESS:
            return self._progressed(message)
        if message.method == CANCELLED_METHOD:
            return self._cancelled(message)
        if message.method in NAMES_REQUEST:
            return self._concerned(message)
        return Notified(message)

    def _answered(self, answer: Result | Failure) -> Received[W, E]:
        waiting = None if answer.id is None else self.waiting.pop(answer.id, None)
        if waiting is None:
            return UnmatchedMessage(f"an answer to {answer.id!r}, which nobody waits for")
        return Answered(waiting[0], answer)

    def _on_request(self, request: Request) -> Received[W, E]:
        if self.owe(request.id):
            return RequestReceived(request)
        if request.id in self.owed:
            return RefusedMessage(
                BadMessage("INVALID_REQUEST", f"id {request.id!r} is already in use by an open request")
            )
        return RefusedMessage(BadMessage("RESOURCE_EXHAUSTED", "too many open requests", request.id))

    def _progressed(self, notification: Notification) -> Received[W, E]:
        try:
            token = _decode_progress(notification.params).progressToken
        except JSON_ERRORS as cause:
            return UnmatchedMessage(f"progress that cannot be read: {cause}")
        waiting = self.waiting.get(token)
        if waiting is None and isinstance(token, str):
            # Our tokens are numbers. A text was chosen to outlive its request, as the token of a task is.
            return Notified(notification)
        if waiting is None:
            return UnmatchedMessage(f"progress of {token!r}, which nobody waits for")
        return Progressed(waiting[0], notification.params)

    def _concerned(self, notification: Notification) -> Received[W, E]:
        named = named_request(notification.params)
        waiting = None if named is None else self.waiting.get(named)
        if waiting is None:
            return UnmatchedMessage(f"{notification.method} of {named!r}, which nobody waits for")
        return RelatedNotification(waiting[0], notification)

    def _cancelled(self, notification: Notification) -> Received[W, E]:
        try:
            id_, reason = read_withdrawal(notification.params)
        except msgspec.DecodeError as cause:
            return UnmatchedMessage(f"a cancellation that cannot be read: {cause}")
        if id_ not in self.owed:
            return UnmatchedMessage(f"cancellation of {id_!r}, which is not open")
        return Withdrawn(id_, reason, self.owed.pop(id_))


def named_request(params: bytes) -> Id | None:
    """The request that a notification of `NAMES_REQUEST` names; None where it names none."""
    try:
        return _decode_named(params).request_id
    except JSON_ERRORS:
        return None


class _Progress(msgspec.Struct):
    progressToken: Id


class _Named(msgspec.Struct):
    request_id: Id


_decode_named = msgspec.json.Decoder(_Named).decode
_decode_progress = msgspec.json.Decoder(_Progress).decode
