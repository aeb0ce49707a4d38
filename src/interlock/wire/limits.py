"""Bounds for messages of peers. Every reader takes a `Limits`."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one conversation."""

    message_bytes: int = 8 * 1024 * 1024
    """Largest message taken in, as sent on the wire."""
    depth: int = 64
    """Deepest nesting of arrays and objects in a message that is judged."""
    members: int = 10_000
    """Most object members and array items in a message that is judged."""
    answer_members: int = 1_000_000
    """Most object members and array items in a large message of a server: 30,000 tools."""
    notification_bytes: int = 256 * 1024
    """Largest notification, which is read by many."""
    pending: int = 4_096
    """Most requests that may wait for an answer, in each direction."""
    batch: int = 64
    """Most messages in one batch (revision 2025-03-26 only)."""
    id_chars: int = 256
    """Longest string id."""


DEFAULT = Limits()


def over_message_bytes(subject: str, limit: int) -> str:
    """The sentence for a message over `Limits.message_bytes`. It names the setting that an operator can raise."""
    return f"{subject} is over the limit of {limit} bytes (`message_bytes`)"
