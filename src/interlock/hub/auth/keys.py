"""Keys: 256 random bits, shown once and stored as a keyed hash. A key identifies a principal.

Keys are stored, and looked up in memory. Until the store is open, every key is refused. A stored key that cannot be
read is refused, and the others are valid: a key only permits.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.hub_secret import BadHubSecret, derived_key, sealing_secret
from interlock.config.settings import Rate
from interlock.hub.auth.principals import PERSON, SERVER, Kind, Principal
from interlock.hub.auth.sealed_with import ID as SEALED_WITH_ID
from interlock.hub.auth.sealed_with import SEALED_WITH, hash_secret
from interlock.hub.cannot_start import CannotStart
from interlock.hub.repeated_commits import commit
from interlock.hub.store_faults import starting
from interlock.store import Collection, Mirror, Store, StoreError, Transaction
from interlock.wire.errors import Fault

PREFIX: Final = "ilk_"
SHOWN: Final = 12
"""Characters of a key that lists show: the prefix and 8 of 43."""
MAX_KEYS: Final = 100_000
MAX_NAME: Final = 200
MIN_LIFE: Final = timedelta(minutes=1)
"""The least lifetime of a key that replaces an expired one."""


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored key, without its text."""

    hash: str
    shown: str
    principal: str
    kind: Kind
    created: str
    profile: str | None = None
    expires_at: datetime | None = None
    permissions: tuple[str, ...] | None = None
    """None: everything that its kind permits."""
    rate: Rate = Rate()

    def expired(self, now: datetime) -> bool:
        return self.expires_at is not None and now >= self.expires_at


class KeyUse(msgspec.Struct, frozen=True):
    """When a key was last used. A document of its own, so that writing it can never bring back a revoked key."""

    hash: str
    last_used: datetime


KEYS: Final = Collection("keys", Key, key="hash", columns=("principal",))
KEY_USES: Final = Collection("key_uses", KeyUse, key="hash")


class Keys:
    """The keys of one hub. A lookup is one dictionary access; a change holds once it is stored."""

    def __init__(
        self,
        home: Path,
        token_key: Callable[[str], Key | None] = lambda hash_: None,
        sealing_key: str | None = None,
    ) -> None:
        self._old_file = home / "keys.json"
        self._secret = self._hash_secret = _secret(home, sealing_key)
        self._store: Store
        self._keys: Mirror[Key] | None = None
        self._uses: Mirror[KeyUse]
        self._used: set[str] = set()
        self._token_key = token_key
        """Finds an accepted access token by its hash, as a key."""

    def derived(self, purpose: bytes) -> bytes:
        """A key of this hub for one purpose."""
        return derived_key(self._secret, purpose)

    async def start(self, store: Store) -> None:
        """Load the stored keys, and import the file of earlier versions once."""
        self._store = store
        known = await store.get(SEALED_WITH, SEALED_WITH_ID)
        self._hash_secret = hash_secret(self._secret, None if known is None else known.value)
        if self._old_file.exists():
            async with store.transaction() as change:
                for key in msgspec.json.decode(self._old_file.read_bytes(), type=list[Key]):
                    change.put(KEYS, key)
            self._old_file.rename(self._old_file.with_suffix(".json.taken-over"))
        self._uses = await store.mirror(KEY_USES)
        self._keys = await store.mirror(KEYS)

    @property
    def mirror(self) -> Mirror[Key]:
        """The keys in memory. Raises SERVER_NOT_READY until the store is open."""
        if self._keys is None:
            raise starting()
        return self._keys

    @property
    def generation(self) -> int:
        """Grows with every change, so that caches made from the keys notice it."""
        return -1 if self._keys is None else self._keys.generation

    def make(self, name: str, kind: Kind, *, profile: str | None = None) -> tuple[str, Key]:
        """A new key: its text, which is shown only now, and what is stored of it."""
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise Fault("INVALID_PARAMS", f"a name has 1 to {MAX_NAME} printable characters")
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
        """Store a new key for a principal and return its text. Old keys stay valid."""
        if "\\" in name or not {".", ".."}.isdisjoint(name.split("/")):
            message = "a name has no backslash, and no part of it between slashes is `.` or `..`"
            raise Fault("INVALID_PARAMS", message, hint="choose a name that can be part of a URL")
        if name.startswith((SERVER, "system:", PERSON)):
            message = "names that begin with `server:`, `system:` or `person:` belong to servers, the hub and its user"
            raise Fault("INVALID_PARAMS", message, hint="choose another name")
        if name.startswith(("https://", "http://")) and "#" in name:
            message = "names of the form issuer#subject belong to access tokens"
            raise Fault("INVALID_PARAMS", message, hint="choose a name without https:// and #")
        if name != name.strip() or not name.isprintable():
            message = "a name has only characters that are seen, and no space before or after it"
            raise Fault("INVALID_PARAMS", message, hint="choose another name")
        if len(self.mirror) >= MAX_KEYS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_KEYS} keys exist", hint="revoke some first")
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
        """Delete every key of a principal. Returns how many there were."""

        async def write(change: Transaction) -> int:
            # Where another hub changed these keys meanwhile, the new ones are to be revoked, too.
            revoked = await self._take_all(change, name)
            if revoked and record is not None:
                change.record(record(revoked))
            return len(revoked)

        return await commit(self._store, write)

    async def rotate(
        self, name: str, record: Callable[[Key, list[Key]], object] | None = None, *, profile: str | None = None
    ) -> str:
        """Replace all keys of a principal by one with the rights of the newest, or with `profile`. Returns its text.

        It expires when the newest would have; if that has expired, it gets the same lifetime from now. Raises Conflict
        if another hub changed these keys meanwhile: of two rotations at once, one fails and leaves no key.
        """
        async with self._store.transaction() as change:
            old = await self._take_all(change, name)
            if not old:
                raise without_key(name)
            text, fresh = self.make(name, old[-1].kind, profile=profile or old[-1].profile)
            fresh = msgspec.structs.replace(
                fresh, expires_at=_next_end(old[-1]), permissions=old[-1].permissions, rate=old[-1].rate
            )
            change.insert(KEYS, fresh)
            if record is not None:
                change.record(record(fresh, old))
        return text

    async def _take_all(self, change: Transaction, name: str) -> list[Key]:
        """Delete all keys of a principal, as the store has them now and still has them at the commit; oldest first.

        The store finds those that another hub has just made. The mirror finds those whose place in the store's index
        was damaged: the index has no checksums.
        """
        found = await self._store.find(KEYS, principal=name)
        indexed = {document.key for document in found}
        for key in [key for key in self.mirror.readable() if key.principal == name and key.hash not in indexed]:
            if (document := await change.get(KEYS, key.hash)) is not None:
                found.append(document)
        for document in found:
            change.expect(KEYS, document.key, document.version)
            change.delete(KEYS, document.key)
            change.delete(KEY_USES, document.key)
        return sorted((document.value for document in found), key=lambda key: key.created)

    def principal(self, text: str) -> Principal | None:
        """The principal of a key. Raises AUTH_EXPIRED."""
        key = self.mirror.lookup(self._hash(text))
        if key is None or (key.principal.startswith(PERSON) and key.kind != "person"):
            return None  # an older hub may have stored a key of an agent with the name of a person
        if key.expired(datetime.now(UTC)):
            raise expired()
        self._used.add(key.hash)
        return Principal(key.principal, key.kind, key.profile, key.hash)

    def of(self, text: str) -> Key | None:
        """The stored key of a text."""
        return self.mirror.lookup(self._hash(text))

    def get(self, hash: str) -> Key | None:
        """The stored key with a hash, or the accepted access token."""
        return self.mirror.lookup(hash) or self._token_key(hash)

    def used(self, hash: str) -> None:
        """Note that a key was used; `write_uses` stores it."""
        self._used.add(hash)

    def list(self) -> list[Key]:
        """Every key. Raises StoreDamaged where one cannot be read: it may be of any principal and kind."""
        return list(self.mirror.values())

    def readable(self) -> Iterator[Key]:
        """The keys that can be read, to show them."""
        return self.mirror.readable()

    def last_used(self, hash: str) -> datetime | None:
        """When a key was last used, to about a minute."""
        use = self._uses.lookup(hash)
        return None if use is None else use.last_used

    async def write_uses(self) -> None:
        """Store, in one transaction, which keys were used since the last time."""
        used, self._used = self._used, set()
        now = datetime.now(UTC)
        try:
            async with self._store.transaction() as change:
                for hash_ in used:
                    if self.mirror.lookup(hash_) is not None:
                        change.put(KEY_USES, KeyUse(hash_, now))
        except StoreError:
            # Only for display: the next run stores it.
            self._used |= used

    def _hash(self, text: str) -> str:
        return hmac.new(self._hash_secret, text.encode(), hashlib.sha256).hexdigest()


def _next_end(old: Key) -> datetime | None:
    now = datetime.now(UTC)
    if old.expires_at is None or old.expires_at > now:
        return old.expires_at
    return now + max(old.expires_at - datetime.fromisoformat(old.created), MIN_LIFE)


def without_key(name: str) -> Fault:
    return Fault("NOT_FOUND", f"{name[:MAX_NAME]} has no key", hint="`interlock keys list` shows all keys")


def expired() -> Fault:
    return Fault("AUTH_EXPIRED", "this key has expired", hint="`interlock keys rotate NAME` makes a new one")


def _secret(home: Path, sealing_key: str | None) -> bytes:
    """The secret of the keyed hashes, made if there is none. Raises CannotStart for one that cannot be used."""
    try:
        return sealing_secret(home, sealing_key)
    except BadHubSecret as cause:
        raise CannotStart(cause.message, cause.hint) from None
