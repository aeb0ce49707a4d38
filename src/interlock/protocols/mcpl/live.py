"""Requests of servers in the stateless revision: they arrive on a stream that the host opened.

The host puts `dev.interlock/live` into the `notifications` of `subscriptions/listen`. The server's requests arrive
there as notifications, and the host answers each by the request `dev.interlock/answer`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from interlock.protocols.mcp.meta import SUBSCRIPTION_ID
from interlock.protocols.mcpl.decoding import Name, Object, Value
from interlock.protocols.mcpl.policy import names
from interlock.wire.json_values import decode_json_or
from interlock.wire.large import LARGE
from interlock.wire.messages import BadMessage, Id, Notification

FILTER: Final = "dev.interlock/live"
ANSWER: Final = "dev.interlock/answer"
DELIVERY: Final = "notifications/dev.interlock/live"

MAX_ID_CHARS: Final = 256

Patterns = Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)]


class LiveFilter(Value, frozen=True):
    """The messages that a host wants. Without a list, all that the server may send."""

    feature_sets: Patterns | None = None
    methods: Patterns | None = None

    def wants(self, method: str, feature_set: str | None = None) -> bool:
        """Whether a message of the server passes the filter."""
        if self.methods is not None and method not in self.methods:
            return False
        return self.feature_sets is None or feature_set is None or names(self.feature_sets, feature_set)


class StreamMeta(msgspec.Struct, frozen=True):
    """The `_meta` of a message on the stream."""

    subscription: Id | None = msgspec.field(default=None, name=SUBSCRIPTION_ID)
    """The subscription that it belongs to (2026-07-28, Subscriptions: Receiving Notifications)."""


class StreamedMessage(Value, frozen=True):
    """A message of the server on the stream. With an id it is a request, which must be answered."""

    method: Name
    params: Object = msgspec.field(default_factory=dict)
    id: Id | None = None
    meta: StreamMeta = msgspec.field(default_factory=StreamMeta, name="_meta")


class UnreadDelivery(msgspec.Struct, frozen=True):
    """The id of a message on the stream that is over a bound, so that it can be refused."""

    id: Id | None = None
    unread: str = ""
    """Why it was not read. Empty in a message of the server's own."""


def unread_delivery(bad: BadMessage, data: bytes) -> Notification | None:
    """The notification that stands for the invalid one in `data`, so that its id is answered; None for any other."""
    method, id_ = bad.wrapped or ("", None)
    if bad.wrapped is None and len(data) <= LARGE:
        read = decode_json_or(data, _Envelope, _Envelope())
        method, id_ = read.method, read.params.id
    if method != DELIVERY or id_ is None or (isinstance(id_, str) and len(id_) > MAX_ID_CHARS):
        return None
    return Notification(DELIVERY, msgspec.json.encode(UnreadDelivery(id_, bad.message)))


class _Envelope(msgspec.Struct, frozen=True):
    method: str = ""
    params: UnreadDelivery = msgspec.field(default_factory=UnreadDelivery)


class AnswerError(Value, frozen=True):
    """A JSON-RPC error inside an answer."""

    code: int
    message: str
    data: object = None


class AnswerParams(Value, frozen=True):
    """The params of `dev.interlock/answer`."""

    id: Id
    result: Object | None = None
    error: AnswerError | None = None

    def __post_init__(self) -> None:
        if (self.result is None) == (self.error is None):
            raise ValueError("an answer has either `result` or `error`")
