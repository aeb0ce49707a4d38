"""MGP's event messages: `mgp/events/subscribe`, `mgp/events/unsubscribe`, `notifications/mgp.event`. Pure.

Channels have segments between dots. Patterns are those of `protocols/patterns.py`. (MGP, Event Subscription)
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.patterns import CHANNELS, Pattern, PatternError
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json_or

SUBSCRIBE: Final = "mgp/events/subscribe"
UNSUBSCRIBE: Final = "mgp/events/unsubscribe"
EVENT: Final = "notifications/mgp.event"
WITHOUT_SESSION: Final = 'open `subscriptions/listen` with `"dev.cloto/mgp": {"events": {"channels": [...]}}`'
"""How a client of the stateless era subscribes."""

FAMILIES: Final = ("model", "system", "tool", "security", "lifecycle")
"""The families of MGP's Standard Event Channels; `lifecycle` is an addition of this hub."""
MAX_CHANNELS: Final = 64
"""Channels of one subscription."""

Severity = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class SubscriptionFilter(msgspec.Struct, forbid_unknown_fields=True):
    """The filter of a subscription. An unknown member is refused, because ignoring it would let too much pass."""

    min_severity: Severity | None = None
    server_id: Name | list[Name] | None = None
    """Only events of, or about, these servers."""
    tool_name: Name | None = None
    """Only events about this tool."""


class SubscribeParams(msgspec.Struct):
    """The params of `mgp/events/subscribe`."""

    channels: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MAX_CHANNELS)]
    filter: SubscriptionFilter = msgspec.field(default_factory=SubscriptionFilter)


class UnsubscribeParams(msgspec.Struct):
    """The params of `mgp/events/unsubscribe`."""

    subscription_id: Name


class SubscribeResult(msgspec.Struct):
    """The result of `mgp/events/subscribe`."""

    subscribed: list[str]
    unsupported: list[str]
    subscription_id: str


class UnsubscribeResult(msgspec.Struct):
    """The result of `mgp/events/unsubscribe`."""

    unsubscribed: bool
    """False for a subscription that this client does not have."""


class EventParams(msgspec.Struct, omit_defaults=True):
    """The params of `notifications/mgp.event`."""

    subscription_id: str
    channel: str
    timestamp: str
    data: msgspec.Raw
    severity: str = ""
    server_id: str = ""
    """The server that sent the event; absent in events of the hub itself."""
    dropped: int = 0
    """How many earlier events were dropped, because they came faster than they could be sent."""


class EmittedEvent(msgspec.Struct):
    """An event as a server sends it."""

    subscription_id: str
    channel: Name
    data: msgspec.Raw = msgspec.Raw(b"{}")
    timestamp: str = ""
    severity: str = ""


class _Severe(msgspec.Struct):
    severity: str = ""
    level: str = ""


def rank(severity: str) -> int:
    """The rank of a severity. An event without one passes every filter, as in MGP's own example (MGP, Server Push
    Notifications)."""
    return LOG_LEVELS.index(severity) if severity in LOG_LEVELS else len(LOG_LEVELS)


def severity_of(event: EmittedEvent) -> str:
    """The severity of a server's event: its `severity`, or `severity` or `level` of its data; empty without any."""
    if event.severity in LOG_LEVELS:
        return event.severity
    stated = decode_json_or(event.data, _Severe, _Severe())
    return next((word for word in (stated.severity, stated.level) if word in LOG_LEVELS), "")


def channel_pattern(text: str) -> Pattern:
    """A channel or a pattern of channels. Raises INVALID_PARAMS."""
    try:
        return Pattern(text, CHANNELS)
    except PatternError as cause:
        raise Fault("INVALID_PARAMS", f"channel {text[:100]!r}: {cause}") from None


def asked_of_servers(pattern: Pattern) -> list[str]:
    """The channels to request from a server for a client with this pattern.

    They are whole families: servers may support no other patterns, and clients cannot make the list long.
    """
    if not may_match_family(pattern):
        return [pattern.text]
    head = Pattern(pattern.text.partition(".")[0], CHANNELS)
    return [f"{family}.*" for family in FAMILIES if head.matches(family)]


def offered_pattern(text: str) -> Pattern:
    """A channel that a server offers. The pattern of a family matches all of its channels."""
    family, _, rest = text.partition(".")
    return channel_pattern(f"{family}.**" if rest == "*" and family in FAMILIES else text)


def may_match_family(pattern: Pattern) -> bool:
    """Whether a pattern with wildcards can match a channel of a standard family."""
    first, dot, rest = pattern.text.partition(".")
    if pattern.literal:
        return False
    if first == "**":
        return True
    head = Pattern(first, CHANNELS)
    return bool(dot and rest) and any(head.matches(family) for family in FAMILIES)
