"""Prepares the arguments of calls for the audit log: without secrets, and bounded.

Most arguments hold nothing that looks like a secret. One scan of all arguments of a batch shows that, and they are kept
as they came. Only arguments that may hold a secret are decoded and redacted member by member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.hub.audit.redaction import RedactText, redact
from interlock.judge.secrets import may_hold_secrets

MAX_BYTES: Final = 2048
"""Of the arguments in one entry, without the object around arguments that are none."""
_WORDS: Final = (
    b"pass", b"pwd", b"pin", b"otp", b"secret", b"token", b"bearer", b"cookie", b"credential", b"auth", b"jwt",
    b"signature", b"key", b"connection", b"dsn",
)  # fmt: skip
"""A name that `names_a_secret` recognizes contains one of these."""
_LIMITS: Final = ((2000, 100), (200, 50), (40, 10))
"""Characters of a text, and members of an object, that are kept: the first pair with which everything fits."""


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
    """The value, in an object if it is none: a client may send anything, and readers of the log expect an object."""
    return value if not value or value.startswith(b"{") else b'{"[no object]":%b}' % value


def _is_doubtful(value: bytes) -> bool:
    """Whether a value may hold a secret. An escape may hide one."""
    if b"\\" in value:
        return True
    lowered = value.lower()
    return any(word in lowered for word in _WORDS) or may_hold_secrets(value)
