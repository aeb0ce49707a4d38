"""Which HTTP status and headers an error has. A request that was served is answered 200 even when it failed, unless the
revision names another status: the error in the body is the answer."""

from __future__ import annotations

from typing import Final

from interlock.wire.errors import Fault

_CREDENTIAL: Final = frozenset({"AUTH_REQUIRED", "AUTH_EXPIRED"})
_MODERN_BY_NAME: Final = {
    "METHOD_NOT_FOUND": 404,
    "HEADER_MISMATCH": 400,
    "MISSING_CAPABILITY": 400,
    "UNSUPPORTED_VERSION": 400,
    # Older clients end the session at other statuses than 200.
    "RATE_LIMITED": 429,
    "QUOTA_EXCEEDED": 429,
}
_MODERN_BY_CODE: Final = {-32601: 404, -32020: 400, -32021: 400, -32022: 400}


def fault_status(fault: Fault, modern: bool) -> int:
    """The status of a request that was served and failed (2026-07-28, Streamable HTTP: Protocol Version Header)."""
    if fault.name in _CREDENTIAL:
        return 401
    if fault.name == "INSUFFICIENT_SCOPE":
        return 403
    if not modern:
        return 200
    if fault.foreign_code is not None:
        return failure_status(fault.foreign_code, modern)
    return _MODERN_BY_NAME.get(fault.name, 200)


def failure_status(code: int, modern: bool) -> int:
    """The same for an error that is passed on."""
    return _MODERN_BY_CODE.get(code, 200) if modern else 200


def fault_headers(fault: Fault) -> bytes:
    """The headers `Retry-After` and `WWW-Authenticate` of an error."""
    lines = b""
    if fault.retry_after_ms is not None:
        lines += b"retry-after: %d\r\n" % max(1, -(-fault.retry_after_ms // 1000))
    challenge = bearer_challenge(fault)
    if challenge is not None:
        lines += b"www-authenticate: %b\r\n" % challenge.encode("latin-1", "replace")
    return lines


def bearer_challenge(fault: Fault) -> str | None:
    """The value of `WWW-Authenticate` (RFC 6750); None for an error that another credential would not fix."""
    if fault.challenge:
        return f"Bearer {fault.challenge}"
    if fault.name not in _CREDENTIAL:
        return None
    return 'Bearer error="invalid_token"' if fault.name == "AUTH_EXPIRED" else "Bearer"
