"""Prepares the arguments of calls for the audit log: without secrets, and bounded.

Most arguments contain nothing that looks like a secret. One scan over all arguments of a batch shows that, and they
stay unchanged. Only arguments that may contain a secret are decoded and redacted member by member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from interlock.hub.audit.redaction import RedactText, redact
from interlock.judge.secrets import may_hold_secrets

MAX_BYTES: Final = 2048
"""Bytes of the arguments in one entry, without the object that wraps arguments which are not an object."""
_DOUBTFUL: Final = (
    rb"(?i)\\|pass|pwd|pin|otp|secret|token|bearer|cookie|credential|auth|jwt|signature|key|connection|dsn"
)
"""A name that `names_a_secret` recognizes contains one of these words, unless an escape hides it."""
_LIMITS: Final = ((2000, 100), (200, 50), (40, 10))
"""Bounds for characters of a text and members of an object. The first pair with which the arguments fit is used."""


def prepare(arguments: Sequence[bytes], text: RedactText) -> list[bytes]:
    """Each of these JSON values as an object without secrets and within `MAX_BYTES`. Empty for empty arguments."""
    if not _is_doubtful(b"\n".join(arguments)):
        return [
            _object(redacted(value, text) if len(value) > MAX_BYTES or b"\n" in value else value) for value in arguments
        ]
    return [
        _object(redacted(value, text) if len(value) > MAX_BYTES or b"\n" in value or _is_doubtful(value) else value)
        for value in arguments
    ]


def redacted(value: bytes, text: RedactText) -> bytes:
    """One JSON value without secrets and within `MAX_BYTES`."""
    if not value:
        return value
    try:
        decoded = msgspec.json.decode(value)
        for characters, members in _LIMITS:
            kept = msgspec.json.encode(redact(decoded, text, max_text=characters, max_members=members))
            if len(kept) <= MAX_BYTES:
                return kept
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    return msgspec.json.encode({"[cut]": f"{len(value)} bytes"})


def _object(value: bytes) -> bytes:
    """The value, wrapped in an object if it is not one, because readers of the log expect an object."""
    return value if not value or value.startswith(b"{") else b'{"[no object]":%b}' % value


def _is_doubtful(value: bytes) -> bool:
    """Whether a value may hold a secret."""
    return _doubtful()(value) is not None or may_hold_secrets(value)


@lru_cache(maxsize=1)
def _doubtful() -> Callable[[bytes], object]:
    """A matcher for values with an escape or a word of a secret's name, in one pass for all words."""
    import re2

    options = re2.Options()
    options.never_capture = True
    matcher: Callable[[bytes], object] = re2.compile(_DOUBTFUL, options).search
    return matcher
