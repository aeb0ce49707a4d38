"""Translates a server's error for a client of another era: the same message, with a code of the client's revision."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import TABLE, ErrorObject
from interlock.wire.json_values import decode_json_or

NOT_FOUND: Final = TABLE["RESOURCE_NOT_FOUND"]
URL_FIRST: Final = TABLE["URL_ELICITATION_REQUIRED"].mcp
_MISSING_CAPABILITY: Final = TABLE["MISSING_CAPABILITY"]
_INTERNAL: Final = TABLE["INTERNAL_ERROR"].mcp
_HUBS_OWN: Final = frozenset(TABLE[name].new_mcp for name in ("HEADER_MISMATCH", "UNSUPPORTED_VERSION"))
"""Errors that concern the hub as the caller, not the client."""
_RESERVED: Final = range(-32099, -32019)
"""Codes that the specification reserves (2026-07-28, Error Codes). Servers may not invent codes in this range."""


def error_for_new(error: ErrorObject) -> ErrorObject:
    """A server's error for a client of the stateless era."""
    if error.code == NOT_FOUND.mcp:
        return _numbered(error, NOT_FOUND.new_mcp)
    lacking = (_MISSING_CAPABILITY.mcp, _MISSING_CAPABILITY.new_mcp)
    if error.code in lacking and _about(error).requiredCapabilities:
        return _numbered(error, _MISSING_CAPABILITY.new_mcp)
    return _numbered(error, _INTERNAL) if error.code in _RESERVED else error


def error_for_old(error: ErrorObject, method: str) -> ErrorObject:
    """A stateless server's error for a client of the handshake era."""
    if error.code == _MISSING_CAPABILITY.new_mcp:
        return _numbered(error, _MISSING_CAPABILITY.mcp)
    if error.code in _HUBS_OWN:
        return _numbered(error, _INTERNAL)
    # Only an unknown resource has the address in its data (2026-07-28, Resources).
    if method == "resources/read" and error.code == NOT_FOUND.new_mcp and _about(error).uri is not None:
        return _numbered(error, NOT_FOUND.mcp)
    return error


def _numbered(error: ErrorObject, code: int) -> ErrorObject:
    return ErrorObject(code, error.message, error.data)


def _about(error: ErrorObject) -> _About:
    return decode_json_or(error.data, _About, _About())


class _About(msgspec.Struct):
    uri: str | None = None
    requiredCapabilities: dict[str, object] | None = None
