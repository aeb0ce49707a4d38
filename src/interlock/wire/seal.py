"""Tokens that clients return, sealed with a key of this process, so that an altered or invented token is refused.

Each value has exactly one token: another spelling of the same bytes is refused too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

_MAC_BYTES: Final = 32
_MAX_CHARS: Final = 16 * 1024


class Seal:
    """Makes tokens for one purpose, and opens them again."""

    __slots__ = ("_key",)

    def __init__(self, purpose: bytes, secret: bytes | None = None) -> None:
        self._key = hmac.digest(secret or secrets.token_bytes(32), b"interlock:" + purpose, hashlib.sha256)

    def close(self, payload: bytes) -> str:
        """The payload with its authentication code, safe in JSON and URLs."""
        return base64.urlsafe_b64encode(payload + self._mac(payload)).decode().rstrip("=")

    def open(self, token: str) -> bytes | None:
        """The payload, or None for anything that `close` did not give."""
        if len(token) > _MAX_CHARS:
            return None
        try:
            sealed = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except (binascii.Error, UnicodeEncodeError):
            return None
        payload, mac = sealed[:-_MAC_BYTES], sealed[-_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(payload)) or self.close(payload) != token:
            return None
        return payload

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, hashlib.sha256)
