"""Credentials inside messages, for streams that have no headers (tool registry, Bearer Token in MCP Request).

The authenticator reads it, and no other part does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

import msgspec

from interlock.wire.errors import Fault

HEADER: Final = b"authorization"


class _Auth(msgspec.Struct, tag_field="type", tag="bearer"):
    token: str


def header_of(auth: bytes) -> bytes:
    """The equivalent of an `Authorization` header. Raises AUTH_REQUIRED for an unreadable value."""
    try:
        token = msgspec.json.decode(auth, type=_Auth).token
        return b"Bearer " + token.encode("latin-1")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        hint = 'write "auth": {"type": "bearer", "token": KEY}'
        raise Fault("AUTH_REQUIRED", "the member `auth` cannot be read", hint=hint) from None


def check_beside(auth: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Raises AUTH_REQUIRED for a credential in the message without one in the header: over HTTP the header counts, and
    a client with a credential must not be treated as one without."""
    if auth and HEADER not in headers:
        refuse_beside(auth)


def refuse_beside(auth: bytes) -> NoReturn:
    """Raise AUTH_REQUIRED for any credential."""
    hint = "send it as `Authorization: Bearer KEY`"
    raise Fault("AUTH_REQUIRED", "over HTTP a credential belongs in the header", hint=hint)
