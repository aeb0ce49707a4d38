"""Reads the messages that an HTTP server sends. Unreadable input is reported, never guessed at."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from interlock.protocols.mcp.meta import names_method
from interlock.protocols.mcpl.live import unread_delivery
from interlock.transports.http.client.heads import fits
from interlock.wire.errors import ErrorDialect, ErrorObject
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage, Id, Message, decode, decode_batch, is_batch
from interlock.wire.unread_ids import ids_in

RETRY_SECONDS: Final = 1.0
"""How long to wait before a broken stream is asked for again, where the server does not say."""

BAD_EVENTS: Final = 1_000
"""This many events in a row that are not messages count as a flood."""

FLOOD: Final = "the server floods its stream with events that are not messages"


class ReadingLink(Protocol):
    """The link that messages are read for."""

    limits: Limits

    def complain(self, text: str, kind: str = "stray") -> None:
        """Report what the server should not have done."""

    def refuse_unread(self, id: Id, error: ErrorObject) -> None:
        """Answer a request of the server that cannot be taken (handshake era)."""


class ReadMessages(NamedTuple):
    """The messages of a body or an event."""

    messages: list[Message]
    unread: BadMessage | None = None
    """The last invalid one, unless it is a request of the server. It may be the awaited answer."""
    unread_ids: frozenset[int] = frozenset()
    """The requests that unreadable answers name."""


def read_messages(link: ReadingLink, data: bytes) -> ReadMessages:
    """The message in a body or an event, or those of a batch (2025-03-26). An unreadable message is reported."""
    try:
        if not is_batch(data):
            return ReadMessages([decode(data, link.limits)])
        parts = decode_batch(data, link.limits)
    except BadMessage as bad:
        parts = [bad.naming(bad.id, asks=bad.id is not None and names_method(data))]
    return taken(link, parts, data)


def taken(link: ReadingLink, outcome: Outcome, data: bytes) -> ReadMessages:
    """The valid messages among those read from `data`. An invalid one is reported, and refused if it is a request."""
    messages: list[Message] = []
    unread: BadMessage | None = None
    ids: frozenset[int] = frozenset()
    for part in outcome if isinstance(outcome, list) else [outcome]:
        if not isinstance(part, BadMessage):
            messages.append(part)
            continue
        link.complain(part.message, "message")
        if part.id is not None and part.asks:
            link.refuse_unread(part.id, part.render(ErrorDialect.OLD_MCP))
        else:
            ids |= ids_in(part.part or data, part.id)
            unread = part
            if (delivery := unread_delivery(part, part.part or data)) is not None:
                messages.append(delivery)
    return ReadMessages(messages, unread, ids)


def header_text(event_id: str) -> str | None:
    """An event id as a header can carry it; None when it cannot."""
    text = event_id.encode().decode("latin-1")
    return text if text and fits(text) else None
