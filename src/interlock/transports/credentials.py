"""A credential that stands in a message, for streams that have no headers (tool registry, Bearer Token in MCP Request).

It is read by whoever admits callers, and goes nowhere else.
"""

from __future__ import annotations

import msgspec

from interlock.wire.errors import Fault


class _Auth(msgspec.Struct, tag_field="type", tag="bearer"):
    token: str


def header_of(auth: bytes) -> bytes:
    """What the `Authorization` header would have said. Raises AUTH_REQUIRED for what cannot be read: it is not none."""
    try:
        token = msgspec.json.decode(auth, type=_Auth).token
        return b"Bearer " + token.encode("latin-1")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        mend = 'write "auth": {"type": "bearer", "token": KEY}'
        raise Fault("AUTH_REQUIRED", "the credential beside the method cannot be read", mend=mend) from None
