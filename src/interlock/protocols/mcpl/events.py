"""Push events (MCPL, Push Events) and the tags that describe them (MCPL 0.5, Event Tags).

Tags are a server's claims about its own events. They may influence how an admitted event is handled, never whether it
is admitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from interlock.protocols.mcpl.content import Content
from interlock.protocols.mcpl.decoding import Line, Name, Object, Value

Tags: TypeAlias = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=256)], ...], msgspec.Meta(max_length=64)]


class EventPayload(Value, frozen=True):
    """The content of the event, for a model to read."""

    content: Content


class PushEvent(Value, frozen=True):
    """The params of `push/event`."""

    feature_set: Name
    event_id: Name
    timestamp: str
    payload: EventPayload
    origin: Object = msgspec.field(default_factory=dict)
    tags: Tags = ()

    def __post_init__(self) -> None:
        check_timestamp(self.timestamp)
        check_tags(self.tags)


class PushResult(Value, frozen=True):
    """The answer to a push."""

    accepted: bool
    inference_id: str | None = None
    reason: Line | None = None


MAX_TIMESTAMP: Final = 64


def check_timestamp(text: str) -> None:
    """Refuse a text that is not an ISO 8601 time."""
    try:
        if len(text) > MAX_TIMESTAMP:
            raise ValueError("it is too long")
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`timestamp` is no ISO 8601 time: {text[:40]!r}") from None


_TAG = re.compile(r"[A-Za-z0-9._-]+:[A-Za-z0-9._:*=-]+\Z")

IMPLIES: Final[Mapping[str, tuple[str, ...]]] = {
    "chat:mention": ("chat:addressed",),
    "chat:reply": ("chat:addressed",),
    "chat:dm": ("chat:addressed", "chat:private"),
}
"""The implications that the specification defines. Implications that a server declares are ignored."""


def check_tags(tags: Iterable[str]) -> None:
    """Refuse a tag without a namespace."""
    for tag in tags:
        if not _TAG.match(tag):
            raise ValueError(f"a tag is `namespace:value`, not {tag[:40]!r}")


def expand_tags(tags: Iterable[str]) -> frozenset[str]:
    """The tags with what they imply. An addressed event is not ambient."""
    found = set(tags)
    for tag in tuple(found):
        found |= set(IMPLIES.get(tag, ()))
    return frozenset(found - {"chat:ambient"} if "chat:addressed" in found else found)
