"""Answers of a server that cannot be read: the request that one belongs to, and what its caller is told."""

from __future__ import annotations

import re
from typing import Final

from interlock.wire.messages import BadMessage, Id

_ID_IN_HEAD: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\b')
_HEAD_BYTES: Final = 128


def answered_id(bad: BadMessage, data: bytes) -> Id | None:
    """The id that an unreadable answer names."""
    return id_in(data) if bad.id is None else bad.id


def id_in(data: bytes) -> int | None:
    """The id at the beginning of a message that cannot be read as a whole."""
    known = _ID_IN_HEAD.match(data, 0, _HEAD_BYTES)
    return None if known is None else int(known[1])


def why_unread(bad: BadMessage) -> str:
    """Why a request has no answer."""
    return f"its answer cannot be read: {bad.message}"
