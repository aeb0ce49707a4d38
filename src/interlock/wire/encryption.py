"""Encrypts stored text with a key of the hub (AES-256-GCM). Each text is bound to a purpose or a principal."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12


class Encryption:
    """Encrypts text. It opens only with the same key and the same `bound_to`."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, text: str, bound_to: str) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher().encrypt(nonce, text.encode(), bound_to.encode())
        return base64.b64encode(sealed).decode()

    def open(self, sealed: str, bound_to: str) -> str | None:
        """The text; None if the key or `bound_to` is another one, or the text was altered."""
        from cryptography.exceptions import InvalidTag

        try:
            data = base64.b64decode(sealed)
            return self._cipher().decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound_to.encode()).decode()
        except (InvalidTag, ValueError):
            return None

    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 6 MB, needed only where something is sealed

        return AESGCM(self._key)
