"""Trace ids: reads and writes W3C `traceparent`, and converts ids of other forms.

Inside the hub, a trace id is always 32 lower-case hexadecimal digits, not all of them zero.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.intake import RequestPreview
from interlock.protocols.mcp.meta import members
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.messages import Request
from interlock.wire.names import may_spell

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ID: Final = re.compile(r"[0-9a-f]{32}")
_MAX_CHARS: Final = 512
_UNSET: Final = msgspec.UNSET
_bits: Final = random.getrandbits


class Traceparent(msgspec.Struct, frozen=True):
    """The origin of a request: its trace, the span that sent it, and whether the trace is sampled."""

    trace: str
    span: str
    sampled: bool = False

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"


def read_traceparent(text: str) -> Traceparent | None:
    """Read a `traceparent`; None for a value that the standard says to ignore."""
    matched = _PARENT.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if matched is None:
        return None
    version, trace, span, flags, more = matched.groups()
    if version == "ff" or (version == "00" and more) or not trace.strip("0") or not span.strip("0"):
        return None
    return Traceparent(trace, span, sampled=bool(int(flags, 16) & 1))


def new_trace_id() -> str:
    """A new random trace id."""
    return "%032x" % (_bits(128) or 1)


def new_span_id() -> str:
    """A new random span id."""
    return "%016x" % (_bits(64) or 1)


def trace_id_from(text: str) -> str:
    """The trace id for a text: the digits of a UUID, or a hash of any other text. Empty for an empty text."""
    plain = text.replace("-", "").lower()
    if _ID.fullmatch(plain) and plain.strip("0"):
        return plain
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32] if text else ""


def find_trace_id(meta: Mapping[str, object], params: Mapping[str, object], top: Mapping[str, object]) -> str:
    """The trace id a request carries: `traceparent` in `_meta`, else `trace_id` in `_meta`, params or top level."""
    parent = meta.get("traceparent")
    if isinstance(parent, str) and (read := read_traceparent(parent)) is not None:
        return read.trace
    for place in (meta, params, top):
        given = place.get("trace_id")
        if isinstance(given, str) and given and len(given) <= _MAX_CHARS:
            return trace_id_from(given)
    return ""


def as_uuid(trace: str) -> str:
    """A trace id in the form of MGP's audit events."""
    return f"{trace[:8]}-{trace[8:12]}-{trace[12:16]}-{trace[16:20]}-{trace[20:]}" if len(trace) == 32 else trace


def trace_of(request: Request, seen: RequestPreview) -> str:
    """The trace id that a request names, or a new one."""
    meta = seen.meta
    if meta is not None:
        parent = None if meta.traceparent is None else read_traceparent(meta.traceparent)
        if parent is not None:
            return parent.trace
        if meta.trace_id is not _UNSET:
            return _named(bytes(meta.trace_id)) or new_trace_id()
    # The params of a plain call have no member for it.
    if seen.arguments is None and may_spell(request.params, b"trace_id"):
        raw = members(request.params).get("trace_id")
        if raw is not None:
            return _named(bytes(raw)) or new_trace_id()
    top = request.trace_id
    return (find_trace_id({}, {}, {"trace_id": top}) if top else "") or new_trace_id()


def _named(value: bytes) -> str:
    """The trace id in a JSON value (MGP, Trace ID Propagation); empty if it is invalid."""
    try:
        return find_trace_id({}, {"trace_id": msgspec.json.decode(value)}, {})
    except JSON_ERRORS:
        return ""
