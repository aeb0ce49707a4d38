"""The row of a store that says which key sealed its values, and keeps the secret of its keys' hashes.

A hash cannot be made again without the text of its key. So when another key seals the store, the secret of the hashes
stays the same, sealed with the new key.
"""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from interlock.config.hub_secret import derived_key
from interlock.store import Collection, StoreDamaged
from interlock.wire.encryption import Encryption

ID: Final = "sealing_key"


class SealedWith(msgspec.Struct, frozen=True, omit_defaults=True):
    """The check value of the key that sealed the store's values, from which the key cannot be found."""

    id: str
    check: str
    hashes: str = ""
    """The secret of the hashes of keys, sealed. Empty: the key itself."""


SEALED_WITH: Final = Collection("sealed_with", SealedWith, key="id")


def check_of(secret: bytes) -> str:
    """The check value of a key."""
    return derived_key(secret, b"sealing key").hex()


def hash_secret(secret: bytes, known: SealedWith | None) -> bytes:
    """The secret of the hashes of keys. Raises StoreDamaged if the key does not open it."""
    if known is None or not known.hashes:
        return secret
    text = _encryption(secret).open(known.hashes, ID)
    if text is None:
        raise StoreDamaged("the secret of the keys' hashes cannot be opened with this hub's key")
    return base64.b64decode(text)


def sealed_with(secret: bytes, hashes: bytes) -> SealedWith:
    """The row of a store that `secret` sealed, whose keys are hashed with `hashes`."""
    kept = "" if hashes == secret else _encryption(secret).seal(base64.b64encode(hashes).decode(), ID)
    return SealedWith(ID, check_of(secret), kept)


def _encryption(secret: bytes) -> Encryption:
    return Encryption(derived_key(secret, b"hashes"))
