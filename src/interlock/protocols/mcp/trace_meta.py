"""A request's `_meta` on its way on: with a trace, and without the progress token of the hop that it came by.

The span is the call's own here, and as unique as its trace. A trace that begins here says that it is recorded, so that
nobody further on leaves it out for that.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.meta import PROGRESS_TOKEN, Members, RequestMeta

_KEPT: Final = 512
_KEPT_BYTES: Final = 4_096
_decode_members: Final = msgspec.json.Decoder(Members).decode
_passed: dict[bytes, bytes] = {}
"""For what clients say with every request, by its very bytes."""


def passed_on(meta: RequestMeta, raw: bytes) -> bytes:
    """What follows in a `_meta` on members that are put in front: all of it, but for its progress token."""
    known = _passed.get(raw)
    if known is not None:
        return known
    fields = _decode_members(raw)
    told = fields.pop(PROGRESS_TOKEN, None)
    if meta.traceparent is None:
        fields.pop("traceparent", None)  # a null, in whose place another is put
    rest = b"," + msgspec.json.encode(fields)[1:] if fields else b"}"
    if told is None and meta.traceparent is None and len(raw) <= _KEPT_BYTES:
        if len(_passed) >= _KEPT:
            _passed.clear()
        _passed[raw] = rest
    return rest


def traced(meta: RequestMeta | None, raw: bytes, trace: str) -> bytes:
    """The `_meta` for the next hop: as it is where it names a trace, else with one put in front of the rest."""
    if meta is not None and meta.traceparent is not None and raw:
        return raw
    rest, own = raw[1:].lstrip(), trace.encode()
    behind = b"," + rest if rest and rest[0] != _END else b"}"
    return b'{"traceparent":"00-%b-%b-01"%b' % (own, own[:16], behind)


_END: Final = ord("}")
