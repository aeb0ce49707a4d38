"""Where an HTTP server is: an address, taken apart and checked once."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from interlock.wire.errors import Fault


class Origin(msgspec.Struct, frozen=True):
    """Where connections go."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.scheme == "https" else 80
        return host if self.port == default else f"{host}:{self.port}"


def split_url(url: str) -> tuple[Origin, str]:
    """An http(s) URL's origin and request target. Raises INVALID_PARAMS, saying what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as cause:
        raise Fault("INVALID_PARAMS", f"not a URL: {cause}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Fault("INVALID_PARAMS", f"not an http or https URL: {url[:200]!r}")
    if parts.username is not None or parts.password is not None:
        raise Fault("INVALID_PARAMS", "a URL must not hold a password", hint="configure an Authorization header")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = target + parts.hostname
    if not sent.isascii() or any(char <= " " or char == "\x7f" for char in sent):
        hint = "percent-encode it, and write its host as xn--…"
        raise Fault("INVALID_PARAMS", "a URL must be plain ASCII without spaces", hint=hint)
    return Origin(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)), target
