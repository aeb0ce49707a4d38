"""One end of a conversation over a shared stream: who waits for which answer, and which answers are still owed.

Pure: bytes and instants come in as values, what happened comes out as a value. It knows neither transport nor method,
save the three notifications that speak about other messages: progress, cancelled, and the ping that asks for nothing.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import msgspec

from interlock.wire.cancellation import read_withdrawal, withdrawal
from interlock.wire.errors import Fault
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
    encode_request,
)

W = TypeVar("W")
"""Whatever waits for an answer: a future, a call, a test's string."""

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"


class Asked(msgspec.Struct, frozen=True):
    """The other side wants an answer, which is owed until `settle`."""

    request: Request


class Answered(msgspec.Struct, Generic[W], frozen=True):
    """One of ours was answered."""

    waiter: W
    answer: Result | Failure


class Progressed(msgspec.Struct, Generic[W], frozen=True):
    """One of ours is getting on."""

    waiter: W
    params: bytes


class Notified(msgspec.Struct, frozen=True):
    """A notification about nothing that this end keeps."""

    notification: Notification


class Withdrawn(msgspec.Struct, frozen=True):
    """The other side no longer wants an answer that is owed."""

    id: Id
    reason: str


class Stray(msgspec.Struct, frozen=True):
    """A message that belongs to nothing: an answer nobody waits for, progress of nothing. Worth a count, no answer."""

    reason: str


class Refused(msgspec.Struct, frozen=True):
    """A message that cannot be taken; `bad.id` says whom to answer, if anyone."""

    bad: BadMessage


Received: TypeAlias = Asked | Answered[W] | Progressed[W] | Notified | Withdrawn | Stray | Refused


class Conversation(Generic[W]):
    """Ids both ways, pending requests with their deadlines, and the answers this end owes."""

    __slots__ = ("_limits", "_next", "_owed", "_waiting")

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._next = 0
        self._waiting: dict[Id, tuple[W, float]] = {}
        self._owed: set[Id] = set()

    @property
    def waiting(self) -> int:
        """How many of our requests have no answer yet."""
        return len(self._waiting)

    @property
    def owed(self) -> int:
        """How many of the other side's requests have no answer yet."""
        return len(self._owed)

    def reserve(self) -> int:
        """An id for the next request. It is also a progress token that is unique on this stream."""
        if len(self._waiting) >= self._limits.pending:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                f"{self._limits.pending} requests are waiting on this connection",
                hint="wait for some to be answered",
                retry_after_ms=1000,
            )
        self._next += 1
        return self._next

    def ask(self, id: int, method: str, params: bytes, waiter: W, deadline: float) -> bytes:
        """The bytes of a request whose answer `waiter` will get, unless `deadline` passes first."""
        self._waiting[id] = (waiter, deadline)
        return encode_request(id, method, params)

    def extend(self, id: Id, deadline: float) -> W | None:
        """Give a waiting request another deadline. Gives who waits for it, if anyone does."""
        if id not in self._waiting:
            return None
        waiter = self._waiting[id][0]
        self._waiting[id] = (waiter, deadline)
        return waiter

    def withdraw(self, id: Id, reason: str = "") -> bytes | None:
        """Stop waiting. Gives the notification that tells the other side, or None if nothing was waiting."""
        if self._waiting.pop(id, None) is None:
            return None
        return encode_notification(CANCELLED, withdrawal(id, reason))

    def expire(self, now: float) -> list[tuple[Id, W]]:
        """Those whose deadline has passed. They are still waiting until `withdraw`."""
        return [(id_, waiter) for id_, (waiter, deadline) in self._waiting.items() if deadline <= now]

    def abandon(self) -> list[W]:
        """The stream is gone: everyone who waited, to be told so. Nothing is owed any more."""
        waiters = [waiter for waiter, _ in self._waiting.values()]
        self._waiting.clear()
        self._owed.clear()
        return waiters

    def owe(self, id: Id) -> bool:
        """Take one of the other side's requests: an answer is owed until `settle`. False where it cannot be taken."""
        owed = self._owed
        if id in owed or len(owed) >= self._limits.pending:
            return False
        owed.add(id)
        return True

    def settle(self, id: Id) -> bool:
        """An owed answer is about to be sent. False when it is no longer wanted, and must not be."""
        if id not in self._owed:
            return False
        self._owed.discard(id)
        return True

    def receive(self, data: bytes) -> Received[W]:
        """What one message from the other side means here."""
        try:
            message = decode(data, self._limits)
        except BadMessage as bad:
            return Refused(bad)
        return self.take(message)

    def answered(self, id: Id) -> W | None:
        """The answer to one of ours is there: who waited for it, if anyone did."""
        waiting = self._waiting.pop(id, None)
        return None if waiting is None else waiting[0]

    def take(self, message: Message) -> Received[W]:
        """The same for a message that was decoded already."""
        if isinstance(message, Result | Failure):
            return self._answered(message)
        if isinstance(message, Request):
            return self._asked(message)
        if message.method == PROGRESS:
            return self._progressed(message)
        if message.method == CANCELLED:
            return self._cancelled(message)
        return Notified(message)

    def _answered(self, answer: Result | Failure) -> Received[W]:
        waiting = None if answer.id is None else self._waiting.pop(answer.id, None)
        if waiting is None:
            return Stray(f"an answer to {answer.id!r}, which nobody waits for")
        return Answered(waiting[0], answer)

    def _asked(self, request: Request) -> Received[W]:
        if self.owe(request.id):
            return Asked(request)
        if request.id in self._owed:
            return Refused(BadMessage("INVALID_REQUEST", f"id {request.id!r} is already in use by an open request"))
        return Refused(BadMessage("RESOURCE_EXHAUSTED", "too many open requests", request.id))

    def _progressed(self, notification: Notification) -> Received[W]:
        try:
            token = _decode_progress(notification.params).progressToken
        except msgspec.DecodeError as cause:
            return Stray(f"progress that cannot be read: {cause}")
        waiting = self._waiting.get(token)
        if waiting is None and isinstance(token, str):
            # Ours are numbers. One in words was chosen to outlive its request, as a task's does.
            return Notified(notification)
        if waiting is None:
            return Stray(f"progress of {token!r}, which nobody waits for")
        return Progressed(waiting[0], notification.params)

    def _cancelled(self, notification: Notification) -> Received[W]:
        try:
            id_, reason = read_withdrawal(notification.params)
        except msgspec.DecodeError as cause:
            return Stray(f"a cancellation that cannot be read: {cause}")
        if id_ not in self._owed:
            return Stray(f"cancellation of {id_!r}, which is not open")
        self._owed.discard(id_)
        return Withdrawn(id_, reason)


class _Progress(msgspec.Struct):
    progressToken: Id


_decode_progress = msgspec.json.Decoder(_Progress).decode
