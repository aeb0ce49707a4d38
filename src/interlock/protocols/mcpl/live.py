"""Requests of servers in the stateless revision: they arrive on a stream that the host opened.

The host puts `dev.interlock/live` into the `notifications` of `subscriptions/listen`. The server's requests arrive
there as notifications, and the host answers each by the request `dev.interlock/answer`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from interlock.protocols.mcpl.decoding import Name, Object, Value
from interlock.protocols.mcpl.policy import names
from interlock.wire.messages import Id

FILTER: Final = "dev.interlock/live"
ANSWER: Final = "dev.interlock/answer"
DELIVERY: Final = "notifications/dev.interlock/live"

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


class StreamedMessage(Value, frozen=True):
    """A message of the server on the stream. With an id it is a request, which must be answered."""

    method: Name
    params: Object = msgspec.field(default_factory=dict)
    id: Id | None = None


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
