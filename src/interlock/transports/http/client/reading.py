"""Reads what an HTTP server sends: messages, refusals, event ids. Unreadable input is reported, never guessed at."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from interlock.protocols.mcp.meta import names_method
from interlock.protocols.mgp.errors import read_recovery
from interlock.transports.http.client.heads import fits
from interlock.transports.http.dates import parse_date
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage, Id, Message, decode, decode_batch, is_batch
from interlock.wire.unread_ids import ids_in

RETRY_SECONDS: Final = 1.0
"""How long to wait before a broken stream is asked for again, where the server does not say."""

BAD_EVENTS: Final = 1_000
"""This many events in a row that are not messages count as a flood."""

FLOOD: Final = "the server floods its stream with events that are not messages"

TURNED_AWAY: Final[Mapping[int, str]] = {429: "RATE_LIMITED", 503: "SERVER_NOT_READY"}
"""Statuses that allow the same request later, with their errors."""

MAX_WAIT_S: Final = 86_400
"""Upper bound for `Retry-After`: a day."""


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
    return ReadMessages(messages, unread, ids)


def read_error(body: bytes) -> ErrorObject | None:
    """The JSON-RPC error in a refusal's body. Its id does not matter: the HTTP response belongs to one request."""
    try:
        return msgspec.json.decode(body, type=_Refusal).error
    except JSON_ERRORS:
        return None


def http_fault(status: int, headers: Mapping[bytes, bytes], body: bytes, error: ErrorObject | None) -> Fault:
    """The fault for an HTTP error status, with the server's message."""
    reason = error.message if error is not None else body[:200].decode("utf-8", "replace").strip()
    data: dict[str, object] = {"status": status}
    hint = ""
    if status in (401, 403):
        challenge = headers.get(b"www-authenticate", b"").decode("latin-1")[:1024]
        data["www_authenticate"] = challenge
        reason = challenge or reason
        hint = "log in, or configure a credential that the server accepts"
    elif error is not None:
        data["code"] = error.code
    answered = f"HTTP {status}"
    if status == 200:
        kind = headers.get(b"content-type", b"").decode("latin-1")[:100]
        answered = f"it answered with {kind or 'no Content-Type'}, which is neither JSON nor an event stream"
    message = answered + (f": {reason[:500]}" if reason else "")
    name = TURNED_AWAY.get(status, "UPSTREAM_ERROR")
    wait_ms = retry_after_ms(headers)
    return Fault(name, message, hint=hint, data=data, retry_after_ms=wait_ms, quotes_server=True)


def speaks_of_recovery(status: int, error: ErrorObject) -> bool:
    """Whether a server's error says more about retries than its status does."""
    return status not in TURNED_AWAY or read_recovery(error) is not None


def header_text(event_id: str) -> str | None:
    """An event id as a header can carry it; None when it cannot."""
    text = event_id.encode().decode("latin-1")
    return text if text and fits(text) else None


def retry_after_ms(headers: Mapping[bytes, bytes]) -> int | None:
    """The value of `Retry-After`, in seconds or as a date (RFC 9110, Retry-After); a date by the server's own clock."""
    value = headers.get(b"retry-after", b"").strip()
    if value.isdigit():
        return min(int(value[:9]), MAX_WAIT_S) * 1000
    then = parse_date(value)
    if then is None:
        return None
    now = parse_date(headers.get(b"date", b"")) or time.time()
    return round(min(max(then - now, 0), MAX_WAIT_S) * 1000)


class _Refusal(msgspec.Struct):
    error: ErrorObject


def is_about_session(error: ErrorObject | None) -> bool:
    """Whether a server refuses a session that it does not know. Some answer 400 where the specification has 404."""
    return error is not None and "session" in error.message.lower()
