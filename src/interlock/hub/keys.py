"""Keys: 256 random bits shown once, kept as a keyed hash. A key leads to a principal; a wrong one leads nowhere."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.files import write_whole
from interlock.hub.principals import Kind, Principal

PREFIX: Final = "ilk_"
SHOWN: Final = 12
"""Characters of a key that may be shown to recognise it by: the prefix and 8 of 43."""
MOST: Final = 10_000


class Key(msgspec.Struct, frozen=True):
    """What is kept of a key."""

    hash: str
    shown: str
    principal: str
    kind: Kind
    created: str
    profile: str | None = None


class Keys:
    """The key file of one hub. Lookups are one dictionary access; every change is written before it counts."""

    def __init__(self, home: Path) -> None:
        self._file = home / "keys.json"
        self._secret = _secret(home / "keys.secret")
        self._keys: dict[str, Key] = {}
        if self._file.exists():
            for key in msgspec.json.decode(self._file.read_bytes(), type=list[Key]):
                self._keys[key.hash] = key
        self.generation = 0
        """Grows with every change, so that what was made from the keys can tell that it is old."""

    def create(self, name: str, kind: Kind, profile: str | None, now: str) -> str:
        """A new key for a principal, old ones staying valid. This is the only time it can be seen."""
        if len(self._keys) >= MOST:
            raise ValueError(f"{MOST} keys exist; revoke some first")
        text = PREFIX + secrets.token_urlsafe(32)
        key = Key(self._hash(text), text[:SHOWN], name, kind, now, profile)
        self._save({**self._keys, key.hash: key})
        return text

    def revoke(self, name: str) -> int:
        """Make every key of a principal worthless at once. Says how many there were."""
        kept = {hash_: key for hash_, key in self._keys.items() if key.principal != name}
        gone = len(self._keys) - len(kept)
        if gone:
            self._save(kept)
        return gone

    def principal(self, text: str) -> Principal | None:
        """Whose key this is."""
        key = self._keys.get(self._hash(text))
        return None if key is None else Principal(key.principal, key.kind, key.profile)

    def list(self) -> list[Key]:
        """Every key, as far as it may be shown."""
        return list(self._keys.values())

    def _hash(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def _save(self, keys: dict[str, Key]) -> None:
        write_whole(self._file, msgspec.json.format(msgspec.json.encode(list(keys.values()))))
        self._keys = keys
        self.generation += 1


def _secret(path: Path) -> bytes:
    if path.exists():
        secret = path.read_bytes()
        if len(secret) < 32:
            raise ValueError(f"{path} is too short to be a secret; remove it and make the keys anew")
        return secret
    secret = secrets.token_bytes(32)
    write_whole(path, secret)
    return secret
