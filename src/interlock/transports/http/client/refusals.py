"""Responses with an error status: what the server says with them, and the fault that a caller gets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mgp.errors import read_recovery
from interlock.transports.http.dates import parse_date
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.json_values import JSON_ERRORS

MAX_ERROR_BYTES: Final = 64 * 1024
"""Upper bound for the body of a refusal."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
SAME_METHOD: Final = frozenset({307, 308})
"""Redirects that keep method and body. The others ask for a GET."""
LACKS_TOKEN: Final = frozenset({401, 403})

TURNED_AWAY: Final[Mapping[int, str]] = {429: "RATE_LIMITED", 503: "SERVER_NOT_READY"}
"""Statuses that allow the same request later, with their errors."""

MAX_WAIT_S: Final = 86_400
"""Upper bound for `Retry-After`: a day."""


class RefusedResponse(msgspec.Struct, frozen=True):
    """A response that is no answer."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes
    error: ErrorObject | None
    """The JSON-RPC error in the body. Its id does not matter: the HTTP response belongs to one request."""

    @classmethod
    def of(cls, status: int, headers: Mapping[bytes, bytes], body: bytes) -> RefusedResponse:
        """Read a response with this body."""
        try:
            error = msgspec.json.decode(body, type=_ErrorOnly).error
        except JSON_ERRORS:
            error = None
        return cls(status, headers, body, error)

    @property
    def location(self) -> str:
        """Where a redirect points to."""
        return self.headers.get(b"location", b"").decode("latin-1")

    @property
    def challenge(self) -> str:
        """The value of `WWW-Authenticate`."""
        return self.headers.get(b"www-authenticate", b"").decode("latin-1")

    @property
    def loses_session(self) -> bool:
        """Whether the server does not know the session. Some answer 400 where the specification has 404."""
        if self.status == 400:
            return self.error is not None and "session" in self.error.message.lower()
        return self.status == 404

    @property
    def answer(self) -> ErrorObject | None:
        """The error, where it says more than the status does: it is the answer to the request."""
        error = self.error
        if error is None or self.status < 400 or self.status in LACKS_TOKEN:
            return None
        return error if self.status not in TURNED_AWAY or read_recovery(error) is not None else None

    def fault(self) -> Fault:
        """The fault for the caller, with the server's message."""
        status, error = self.status, self.error
        reason = error.message if error is not None else self.body[:200].decode("utf-8", "replace").strip()
        data: dict[str, object] = {"status": status}
        hint = ""
        if status in LACKS_TOKEN:
            data["www_authenticate"] = challenge = self.challenge[:1024]
            reason = challenge or reason
            hint = "log in, or configure a credential that the server accepts"
        elif error is not None:
            data["code"] = error.code
        answered = f"HTTP {status}"
        if status == 200:
            kind = self.headers.get(b"content-type", b"").decode("latin-1")[:100]
            answered = f"it answered with {kind or 'no Content-Type'}, which is neither JSON nor an event stream"
        message = answered + (f": {reason[:500]}" if reason else "")
        name = TURNED_AWAY.get(status, "UPSTREAM_ERROR")
        wait_ms = retry_after_ms(self.headers)
        return Fault(name, message, hint=hint, data=data, retry_after_ms=wait_ms, quotes_server=True)


def retry_after_ms(headers: Mapping[bytes, bytes]) -> int | None:
    """The value of `Retry-After`, in seconds or as a date (RFC 9110, Retry-After); a date by the server's own clock."""
    value = headers.get(b"retry-after", b"").strip()
    if value.isdigit():
        return min(int(value[:9]), MAX_WAIT_S) * 1000
    then = parse_date(value)
    if then is None:
        return None
    now = parse_date(headers.get(b"date", b"")) or time.time()
    return round(min(max(then - now, 0), MAX_WAIT_S) * 1000)


class _ErrorOnly(msgspec.Struct):
    error: ErrorObject
