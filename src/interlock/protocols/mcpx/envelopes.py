"""The envelope (MCPx, Message Envelope): decoded within bounds, and passed on byte for byte.

The payload stays raw. An ambiguous envelope is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.kinds import EnvelopeKind, has_control_characters, parse_kind
from interlock.wire.members import BadObject, MemberReader, Members
from interlock.wire.nesting import has_more_members, nested_deeper
from interlock.wire.numbers import has_unreadable_numbers

PROTOCOL: Final = "mcpx/v0.1"
FORMER_PROTOCOL: Final = "mcp-x/v0"
MEMBERS: Final = ("protocol", "id", "ts", "from", "to", "kind", "correlation_id", "payload")
RESERVED_IDS: Final = ("system:", "server:")
"""Prefixes of participant ids that no credential can have: the gateway's own, and those of servers in a topic."""
MAX_PARTICIPANT_CHARS: Final = 128


class EnvelopeBounds(msgspec.Struct, frozen=True):
    """The bounds of an envelope."""

    envelope_bytes: int = 256 * 1024
    rest_bytes: int = 32 * 1024
    """All members but the payload."""
    depth: int = 64
    members: int = 10_000
    """Object members and array items, at any depth: each reader makes values of them."""
    id_chars: int = 128
    recipients: int = 64


DEFAULT_BOUNDS: Final = EnvelopeBounds()


class Envelope(msgspec.Struct, frozen=True):
    """One envelope: its bytes, and the members that routing needs."""

    id: str
    sender: str
    kind: EnvelopeKind
    payload: bytes
    raw: bytes
    """The bytes that are passed on."""
    to: tuple[str, ...] = ()
    """Empty for a broadcast."""
    correlation_id: str | None = None
    ts: str | None = None


def decode(data: bytes, bounds: EnvelopeBounds = DEFAULT_BOUNDS) -> Envelope:
    """The envelope in these bytes. Raises `EnvelopeRefused`, with its id and kind if they could be read."""
    members = _members(data, bounds)
    try:
        return _envelope(members, data, bounds)
    except EnvelopeRefused as refusal:
        raise refusal.about(_salvaged(members, "id", bounds.id_chars), _salvaged(members, "kind", 256)) from None


def encode(
    id: str,
    sender: str,
    kind: str,
    payload: object,
    *,
    to: Sequence[str] = (),
    correlation_id: str | None = None,
    ts: str | None = None,
) -> bytes:
    """An envelope in the specification's order of members. `payload` is anything that msgspec encodes."""
    members: dict[str, object] = {"protocol": PROTOCOL, "id": id}
    if ts is not None:
        members["ts"] = ts
    members["from"] = sender
    if to:
        members["to"] = list(to)
    members["kind"] = kind
    if correlation_id is not None:
        members["correlation_id"] = correlation_id
    members["payload"] = payload
    return msgspec.json.encode(members)


def why_bad_participant(id: str) -> str | None:
    """The reason why a text cannot be the id of a participant; None if it can."""
    if id.startswith(RESERVED_IDS):
        return f"ids that begin with {' or '.join(RESERVED_IDS)} are reserved"
    if not _is_name(id, MAX_PARTICIPANT_CHARS):
        return f"a participant id has 1 to {MAX_PARTICIPANT_CHARS} characters, none of them a control character"
    return None


def _members(data: bytes, bounds: EnvelopeBounds) -> Members:
    if len(data) > bounds.envelope_bytes:
        raise EnvelopeRefused(
            RefusalReason.TOO_LARGE,
            f"The envelope has {len(data)} bytes.",
            f"Send at most {bounds.envelope_bytes} bytes, or a reference to what is larger.",
        )
    # First, since it is cheap: the rest makes values of members.
    if has_more_members(data, bounds.members):
        raise EnvelopeRefused(
            RefusalReason.TOO_LARGE,
            f"The envelope has more than {bounds.members} members and items.",
            "Send fewer, or a reference to what is larger.",
        )
    try:
        if not data.isascii():
            data.decode()
        members = _reader(bounds.rest_bytes).read(data)
    except UnicodeDecodeError as cause:
        raise EnvelopeRefused(
            RefusalReason.NOT_JSON, f"The envelope is not UTF-8: {cause.reason}.", "Encode it as UTF-8."
        ) from None
    except BadObject as bad:
        raise as_refusal(bad, "envelope") from None
    if nested_deeper(data, bounds.depth + 1):
        raise EnvelopeRefused(
            RefusalReason.NESTED_TOO_DEEPLY,
            f"The envelope is nested deeper than {bounds.depth + 1} levels.",
            f"A payload has at most {bounds.depth} levels of arrays and objects.",
        )
    return members


def _envelope(members: Members, data: bytes, bounds: EnvelopeBounds) -> Envelope:
    protocol = _text(members, "protocol")
    if protocol != PROTOCOL:
        raise _unsupported(protocol)
    id_ = _id(members, "id", bounds)
    sender = _participant(_text(members, "from"), "from")
    kind = parse_kind(_text(members, "kind"))
    correlation_id = _id(members, "correlation_id", bounds) if "correlation_id" in members else None
    ts = _timestamp(_text(members, "ts")) if "ts" in members else None
    payload = bytes(_required(members, "payload"))
    if payload[:1] != b"{":
        raise EnvelopeRefused(
            RefusalReason.NOT_AN_OBJECT, "`payload` is not an object.", "Write an object, if need be `{}`."
        )
    if has_unreadable_numbers(payload):
        fix = "Write a number that a double holds, or a string."
        raise EnvelopeRefused(RefusalReason.INVALID_PAYLOAD, "A number of the payload is too large to be read.", fix)
    return Envelope(id_, sender, kind, payload, data, _recipients(members, bounds), correlation_id, ts)


def _required(members: Members, name: str) -> msgspec.Raw:
    try:
        return members[name]
    except KeyError:
        raise EnvelopeRefused(
            RefusalReason.MISSING_MEMBER, f"The envelope has no `{name}`.", f"Add `{name}`."
        ) from None


def _text(members: Members, name: str) -> str:
    try:
        return _decode_text(_required(members, name))
    except msgspec.ValidationError:
        instead = ", or leave it out" if name in ("ts", "correlation_id") else ""
        fix = f"Write `{name}` as a string{instead}."
        raise EnvelopeRefused(RefusalReason.WRONG_TYPE, f"`{name}` is not a string.", fix) from None


def _id(members: Members, name: str, bounds: EnvelopeBounds) -> str:
    text = _text(members, name)
    if not _is_name(text, bounds.id_chars):
        raise EnvelopeRefused(
            RefusalReason.INVALID_ID,
            f"`{name}` has {len(text)} characters, or a control character.",
            f"An id has 1 to {bounds.id_chars} characters and no control characters. A UUID is a good one.",
        )
    return text


def _recipients(members: Members, bounds: EnvelopeBounds) -> tuple[str, ...]:
    if "to" not in members:
        return ()
    try:
        to = _decode_recipients(members["to"])
    except msgspec.ValidationError:
        fix = "Write `to` as an array of participant ids, or leave it out to reach everyone."
        raise EnvelopeRefused(RefusalReason.WRONG_TYPE, "`to` is not an array of strings.", fix) from None
    if len(to) > bounds.recipients:
        raise EnvelopeRefused(
            RefusalReason.TOO_MANY_RECIPIENTS,
            f"`to` names {len(to)} participants.",
            f"Name at most {bounds.recipients}, or leave `to` out to reach everyone.",
        )
    return tuple(_participant(name, "to") for name in to)


def _participant(text: str, member: str) -> str:
    if not _is_name(text, MAX_PARTICIPANT_CHARS):
        raise EnvelopeRefused(
            RefusalReason.INVALID_PARTICIPANT,
            f"`{member}` holds a participant id of {len(text)} characters, or with a control character.",
            f"A participant id has 1 to {MAX_PARTICIPANT_CHARS} characters; `system/welcome` names those in the topic.",
        )
    return text


def _timestamp(text: str) -> str:
    if not _RFC3339.fullmatch(text):
        fix = "Write it like 2025-08-26T14:00:00Z, or leave it out."
        raise EnvelopeRefused(RefusalReason.INVALID_TIMESTAMP, f"`ts` is {text[:40]!r}, which is not RFC 3339.", fix)
    return text


def _unsupported(protocol: str) -> EnvelopeRefused:
    if protocol == FORMER_PROTOCOL:
        message = f"`{FORMER_PROTOCOL}` is MCPx 0.0, which is not compatible with 0.1."
        fix = f"Speak `{PROTOCOL}`: kinds are `mcp/request:METHOD`, and capabilities replace privilege levels."
        return EnvelopeRefused(RefusalReason.UNSUPPORTED_PROTOCOL, message, fix)
    message = f"`protocol` is {protocol[:40]!r}."
    return EnvelopeRefused(RefusalReason.UNSUPPORTED_PROTOCOL, message, f'Write "protocol": "{PROTOCOL}".')


def as_refusal(bad: BadObject, what: str) -> EnvelopeRefused:
    """The refusal for an unreadable envelope or payload."""
    message = f"The {what} is unreadable: {bad}."
    match bad.problem:
        case "not_json":
            return EnvelopeRefused(RefusalReason.NOT_JSON, message, "Send one JSON object per message.")
        case "not_an_object":
            return EnvelopeRefused(RefusalReason.NOT_AN_OBJECT, message, "Send one JSON object per message.")
        case "duplicate":
            return EnvelopeRefused(RefusalReason.DUPLICATE_MEMBER, message, "Write every member once.")
        case "wrong_case":
            return EnvelopeRefused(RefusalReason.WRONG_CASE, message, "Write member names as the specification does.")
        case "too_large":
            return EnvelopeRefused(RefusalReason.TOO_LARGE, message, "Leave out members that MCPx does not name.")


def _salvaged(members: Members, name: str, most: int) -> str | None:
    """The text of a member of a refused envelope, so that the refusal can name it."""
    try:
        text = _decode_text(members[name])
    except (KeyError, msgspec.DecodeError):
        return None
    return text if _is_name(text, most) else None


def _is_name(text: str, most: int) -> bool:
    return 0 < len(text) <= most and not has_control_characters(text)


@lru_cache(maxsize=8)
def _reader(rest_bytes: int) -> MemberReader:
    return MemberReader(MEMBERS, ("payload",), rest_bytes)


_decode_text = msgspec.json.Decoder(str).decode
_decode_recipients = msgspec.json.Decoder(list[str]).decode
_RFC3339: Final = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[Tt ]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
