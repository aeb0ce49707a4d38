"""Views of open approval requests in the store: encrypted with the hub's key, and deleted with the answer."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.store import Collection

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12


class SealedView(msgspec.Struct, frozen=True):
    """The encrypted view of one decision."""

    id: str
    sealed: str


VIEWS: Final = Collection("decision_views", SealedView, key="id")


class ViewSeal:
    """Encrypts views (AES-256-GCM). A view opens only for the decision that it was sealed for."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def close(self, id: str, view: str) -> SealedView:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher().encrypt(nonce, view.encode(), id.encode())
        return SealedView(id, base64.b64encode(sealed).decode())

    def open(self, view: SealedView) -> str | None:
        """The view, or None if it was sealed with another key or altered."""
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.b64decode(view.sealed)
            return self._cipher().decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], view.id.encode()).decode()
        except (InvalidTag, ValueError):
            return None

    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 6 MB, needed only where a person is asked

        return AESGCM(self._key)
