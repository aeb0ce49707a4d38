"""Keys: 256 random bits shown once, kept as a keyed hash. A key leads to a principal; a wrong one leads nowhere.

Keys live in the store and are looked up in memory. Nothing is known before the store is open: until then nobody enters.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.files import write_atomically
from interlock.config.settings import Rate
from interlock.hub.auth.principals import Kind, Principal
from interlock.store import Collection, Mirror, Store, StoreError
from interlock.wire.errors import Fault

PREFIX: Final = "ilk_"
SHOWN: Final = 12
"""Characters of a key that may be shown to recognise it by: the prefix and 8 of 43."""
MOST: Final = 100_000
LONGEST_NAME: Final = 200
SHORTEST_LIFE: Final = timedelta(minutes=1)
"""Of a key in place of one that has expired."""


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a key."""

    hash: str
    shown: str
    principal: str
    kind: Kind
    created: str
    profile: str | None = None
    expires_at: datetime | None = None
    permissions: tuple[str, ...] | None = None
    """None: what its kind permits."""
    rate: Rate = Rate()

    def expired(self, now: datetime) -> bool:
        """Whether it is worth nothing any more."""
        return self.expires_at is not None and now >= self.expires_at


class KeyUse(msgspec.Struct, frozen=True):
    """When a key was last used. Apart from the key, so that writing it can never bring back one that was revoked."""

    hash: str
    last_used: datetime


KEYS: Final = Collection("keys", Key, key="hash", columns=("principal",))
KEY_USES: Final = Collection("key_uses", KeyUse, key="hash")


class Keys:
    """The keys of one hub. Lookups are one dictionary access; every change is written before it counts."""

    def __init__(self, home: Path) -> None:
        self._old_file = home / "keys.json"
        self._secret = _secret(home / "keys.secret")
        self._store: Store
        self._keys: Mirror[Key] | None = None
        self._uses: Mirror[KeyUse]
        self._used: set[str] = set()
        self.beside: Callable[[str], Key | None] = lambda hash_: None
        """Where credentials are found that are no keys of ours, by the hash that their principals carry."""

    async def begin(self, store: Store) -> None:
        """Take over what the store holds, and once what was kept in a file of its own before there was one."""
        self._store = store
        if self._old_file.exists():
            async with store.transaction() as change:
                for key in msgspec.json.decode(self._old_file.read_bytes(), type=list[Key]):
                    change.put(KEYS, key)
            self._old_file.rename(self._old_file.with_suffix(".json.taken-over"))
        self._uses = await store.mirror(KEY_USES)
        self._keys = await store.mirror(KEYS)

    @property
    def mirror(self) -> Mirror[Key]:
        """The keys in memory. Raises SERVER_NOT_READY while the store is not open."""
        if self._keys is None:
            raise Fault("SERVER_NOT_READY", "the hub is starting", retry_after_ms=500)
        return self._keys

    @property
    def generation(self) -> int:
        """Grows with every change, so that what was made from the keys can tell that it is old."""
        return -1 if self._keys is None else self._keys.generation

    def make(self, name: str, kind: Kind, *, profile: str | None = None) -> tuple[str, Key]:
        """A new key and what is kept of it. This is the only time it can be seen."""
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise Fault("INVALID_PARAMS", f"a name has 1 to {LONGEST_NAME} characters that can be seen")
        text = PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return text, Key(self._hash(text), text[:SHOWN], name, kind, created, profile)

    async def create(
        self,
        name: str,
        kind: Kind = "agent",
        *,
        profile: str | None = None,
        expires_at: datetime | None = None,
        permissions: tuple[str, ...] | None = None,
        rate: Rate | None = None,
        record: Callable[[Key], object] | None = None,
    ) -> str:
        """A new key for a principal, old ones staying valid."""
        if "\\" in name or not {".", ".."}.isdisjoint(name.split("/")):
            said = "a name holds no backslash, and no part of it between slashes is `.` or `..`"
            raise Fault("INVALID_PARAMS", said, hint="choose a name that can stand in an address")
        if name.startswith(("https://", "http://")) and "#" in name:
            said = "subjects of access tokens are called so: issuer, # and subject"
            raise Fault("INVALID_PARAMS", said, hint="choose a name that no issuer can give")
        if len(self.mirror) >= MOST:
            raise Fault("RESOURCE_EXHAUSTED", f"{MOST} keys exist", hint="revoke some first")
        if any(key.principal == name and key.kind != kind for key in self.mirror.values()):
            hint = "choose another name, or revoke those keys first"
            raise Fault("INVALID_PARAMS", f"{name} has keys of another kind: a name is one principal", hint=hint)
        text, key = self.make(name, kind, profile=profile)
        key = msgspec.structs.replace(key, expires_at=expires_at, permissions=permissions, rate=rate or Rate())
        async with self._store.transaction() as change:
            change.insert(KEYS, key)
            if record is not None:
                change.record(record(key))
        return text

    async def revoke(self, name: str, record: Callable[[list[Key]], object] | None = None) -> int:
        """Make every key of a principal worthless at once. Says how many there were."""
        gone = [key for key in self.mirror.values() if key.principal == name]
        async with self._store.transaction() as change:
            for key in gone:
                change.delete(KEYS, key.hash)
                change.delete(KEY_USES, key.hash)
            if gone and record is not None:
                change.record(record(gone))
        return len(gone)

    async def rotate(self, name: str, record: Callable[[Key, list[Key]], object] | None = None) -> str:
        """One new key in place of all those of a principal, permitting what the newest of them did.

        It ends when that would have ended, and for one that has ended already, after as long a time from now.
        """
        old = sorted((key for key in self.mirror.values() if key.principal == name), key=lambda key: key.created)
        if not old:
            raise without_key(name)
        text, fresh = self.make(name, old[-1].kind, profile=old[-1].profile)
        fresh = msgspec.structs.replace(
            fresh, expires_at=_next_end(old[-1]), permissions=old[-1].permissions, rate=old[-1].rate
        )
        async with self._store.transaction() as change:
            change.insert(KEYS, fresh)
            for key in old:
                change.delete(KEYS, key.hash)
                change.delete(KEY_USES, key.hash)
            if record is not None:
                change.record(record(fresh, old))
        return text

    def principal(self, text: str) -> Principal | None:
        """Whose key this is. Raises AUTH_EXPIRED for one whose time is over."""
        key = self.mirror.get(self._hash(text))
        if key is None:
            return None
        if key.expired(datetime.now(UTC)):
            raise expired()
        self._used.add(key.hash)
        return Principal(key.principal, key.kind, key.profile, key.hash)

    def of(self, text: str) -> Key | None:
        """What is kept of a key that is at hand."""
        return self.mirror.get(self._hash(text))

    def get(self, hash: str) -> Key | None:
        """What is kept of a key, or of another credential that is worth as much."""
        return self.mirror.get(hash) or self.beside(hash)

    def used(self, hash: str) -> None:
        """Remember that a key was used; `write_uses` writes it down."""
        self._used.add(hash)

    def list(self) -> list[Key]:
        """Every key, as far as it may be shown."""
        return list(self.mirror.values())

    def last_used(self, hash: str) -> datetime | None:
        """When a key was last used, to a minute or so."""
        use = self._uses.get(hash)
        return None if use is None else use.last_used

    async def write_uses(self) -> None:
        """Write down, in one go, which keys were used since the last time."""
        used, self._used = self._used, set()
        now = datetime.now(UTC)
        try:
            async with self._store.transaction() as change:
                for hash_ in used:
                    if self.mirror.get(hash_) is not None:
                        change.put(KEY_USES, KeyUse(hash_, now))
        except StoreError:
            # It is only for display: what could not be written is written next time.
            self._used |= used

    def _hash(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def _next_end(old: Key) -> datetime | None:
    now = datetime.now(UTC)
    if old.expires_at is None or old.expires_at > now:
        return old.expires_at
    return now + max(old.expires_at - datetime.fromisoformat(old.created), SHORTEST_LIFE)


def without_key(name: str) -> Fault:
    """A principal that has no key."""
    return Fault("NOT_FOUND", f"{name[:LONGEST_NAME]} has no key", hint="`interlock keys list` names those who have")


def expired() -> Fault:
    """A credential whose time is over."""
    return Fault("AUTH_EXPIRED", "this key has expired", hint="`interlock keys rotate NAME` makes a new one")


def _secret(path: Path) -> bytes:
    if path.exists():
        secret = path.read_bytes()
        # Random bytes repeat few values; a word that someone typed in, or one byte written over and over, does.
        if len(secret) < 32 or len(set(secret)) < 16 or secret.isalpha():
            raise ValueError(f"{path} is too short or too plain to be a secret; remove it and make the keys anew")
        return secret
    secret = secrets.token_bytes(32)
    write_atomically(path, secret)
    return secret
