"""Checks of raw JSON, such as params: how many members and levels it has, and whether it can be read in two ways."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.large import CheckedJson
from interlock.wire.limits import Limits
from interlock.wire.nesting import has_more_members, nested_deeper


def check_shape(payload: bytes, limits: Limits) -> None:
    """Refuse a payload that is nested too deeply or has too many members. A small one passes at once."""
    if type(payload) is CheckedJson:
        return
    # First, since it is cheaper.
    if has_more_members(payload, limits.members):
        raise Fault("INVALID_REQUEST", f"more than {limits.members} members")
    if nested_deeper(payload, limits.depth):
        raise Fault("INVALID_REQUEST", f"nested deeper than {limits.depth} levels")


def strict(payload: bytes) -> None:
    """Refuse JSON with duplicate member names at any depth: two programs could read it differently."""
    with suppress(ValueError, OverflowError, RecursionError):
        if msgspec.json.encode(msgspec.json.decode(payload)) == payload:
            return  # decoding would have dropped a duplicate member
    try:
        _STRICT.decode(payload.decode())
    except _Duplicate as duplicate:
        raise Fault("PARSE_ERROR", f"duplicate member {duplicate.args[0]!r} in one object") from None
    except (ValueError, RecursionError) as cause:
        raise Fault("PARSE_ERROR", f"not JSON: {cause}") from None


class _Duplicate(ValueError):
    pass


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Duplicate(name)
            seen.add(name)
    return members


_STRICT = json.JSONDecoder(object_pairs_hook=_unique)
