"""Views of open approval requests in the store: encrypted with the hub's key, and deleted with the answer."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.store import Collection
from interlock.wire.encryption import Encryption


class SealedView(msgspec.Struct, frozen=True):
    """The encrypted view of one decision."""

    id: str
    sealed: str


VIEWS: Final = Collection("decision_views", SealedView, key="id")


class ViewSeal:
    """Encrypts views. A view opens only for the decision that it was sealed for."""

    def __init__(self, key: bytes) -> None:
        self._encryption = Encryption(key)

    def close(self, id: str, view: str) -> SealedView:
        return SealedView(id, self._encryption.seal(view, id))

    def open(self, view: SealedView) -> str | None:
        """The view, or None if it was sealed with another key or altered."""
        return self._encryption.open(view.sealed, view.id)
