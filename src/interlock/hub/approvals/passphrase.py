"""The passphrase for approvals. It proves that a person answers, and not a program that runs as the same user.

The store keeps only its scrypt hash. Attempts run one at a time and are stored before they are checked, so neither
concurrent attempts nor a restart add to their number. Each caller has its own limit: guessing locks out the guesser
alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.config.value_types import PassphraseUse
from interlock.hub.auth.principals import Principal
from interlock.hub.store_faults import whole
from interlock.store import Collection, Mirror, Store
from interlock.wire.errors import Fault
from interlock.wire.unicode_forms import normalize

SHORTEST: Final = 8
MAX_WRONG: Final = 5
"""Wrong attempts of one caller in `WINDOW_S`."""
MAX_WRONG_OF_ALL: Final = 25
"""Wrong attempts of all keys together, so that more keys allow no more guesses. The hub's own user needs no key, and
so is never locked out by them."""
WINDOW_S: Final = 15 * 60.0
MAX_WAITING: Final = 8
COST: Final = 2**15
"""The scrypt cost of a new passphrase, and so of each guess. A stored passphrase keeps the cost it was made with."""
_ID: Final = "approvals"
_BLOCK: Final = 8


class StoredPassphrase(msgspec.Struct, frozen=True):
    """The hash of a passphrase, with its salt and cost."""

    id: str
    salt: str
    hash: str
    cost: int
    block: int
    set_at: datetime


class PassphraseAttempt(msgspec.Struct, frozen=True):
    """An attempt that was wrong, or is being checked."""

    id: str
    caller: str
    at: float
    """In seconds since 1970: it outlives the process."""
    keyed: bool = False
    """Whether the caller has a key, and so could make others."""


PASSPHRASES: Final = Collection("passphrases", StoredPassphrase, key="id")
ATTEMPTS: Final = Collection("passphrase_attempts", PassphraseAttempt, key="id")


class Passphrase:
    """The passphrase of one hub. `use` returns the setting `passphrase`."""

    def __init__(self, use: Callable[[], PassphraseUse], clock: Callable[[], float] = time.time) -> None:
        self._use = use
        self.clock = clock
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._store: Store
        self._mirror: Mirror[StoredPassphrase] | None = None
        self._attempts: Mirror[PassphraseAttempt]

    async def start(self, store: Store) -> None:
        """Load the stored passphrase, and follow changes by other nodes."""
        self._store = store
        self._mirror = await store.mirror(PASSPHRASES)
        self._attempts = await store.mirror(ATTEMPTS)

    @property
    def needed(self) -> bool:
        """Whether an approval needs a passphrase."""
        use = self._use()
        return use == "required" or (use == "if-set" and self._is_set)

    async def demand(self, by: Principal, given: str) -> None:
        """Return if no passphrase is needed, or if this one is right.

        Raises PASSPHRASE_REQUIRED for none, ACCESS_DENIED for a wrong one, and RATE_LIMITED after several.
        Only a person has a passphrase: another caller's attempts are neither checked nor counted.
        """
        if not self.needed:
            return
        if by.kind != "person":
            raise Fault("ACCESS_DENIED", f"only a person can do this, and {by.id} is a {by.kind}")
        await self._check(by, given)

    async def set(self, by: Principal, new: str, current: str) -> None:
        """Set or replace the passphrase."""
        if len(new) < SHORTEST:
            raise Fault("INVALID_PARAMS", f"a passphrase has at least {SHORTEST} characters")
        if self._is_set:
            await self.demand(by, current)
        salt = secrets.token_bytes(16)
        hashed = await asyncio.to_thread(slow_hash, new, salt, COST, _BLOCK)
        value = StoredPassphrase(_ID, salt.hex(), hashed.hex(), COST, _BLOCK, datetime.now(UTC))
        async with self._store.transaction() as change:
            change.put(PASSPHRASES, value)

    async def remove(self, by: Principal, current: str) -> None:
        """Remove the passphrase."""
        if not self._is_set:
            raise Fault("NOT_FOUND", "no passphrase is set")
        await self.demand(by, current)
        async with self._store.transaction() as change:
            change.delete(PASSPHRASES, _ID)

    @property
    def _is_set(self) -> bool:
        """Whether there is one. One that cannot be read is set, and no text is right."""
        return self._mirror is not None and len(self._mirror) > 0

    @property
    def _stored(self) -> StoredPassphrase | None:
        """Raises a `Fault` while it cannot be read."""
        return None if self._mirror is None else whole(self._mirror, "passphrase").lookup(_ID)

    async def _check(self, by: Principal, given: str) -> None:
        if not given:
            hint = "type it at a terminal, or give it as `passphrase` to the admin API"
            raise Fault("PASSPHRASE_REQUIRED", "this needs the passphrase of the hub", hint=hint)
        if self._waiting >= MAX_WAITING:
            raise Fault("RATE_LIMITED", "too many attempts at once", retry_after_ms=1000)
        self._waiting += 1
        try:
            async with self._turn:
                await self._check_in_turn(f"{by.kind}:{by.id}", bool(by.key), given)
        finally:
            self._waiting -= 1

    async def _check_in_turn(self, caller: str, keyed: bool, given: str) -> None:
        now, attempts = self.clock(), [*self._attempts.readable()]
        unreadable = len(self._attempts.problems)  # each may be of this caller, and of now
        # An attempt with a future time was made before the clock was set back. It counts until that time is over.
        recent = [attempt for attempt in attempts if now - attempt.at < WINDOW_S]
        own = [attempt for attempt in recent if attempt.caller == caller]
        with_keys = [attempt for attempt in recent if keyed and attempt.keyed]
        is_own = len(own) + unreadable >= MAX_WRONG
        if is_own or len(with_keys) + (unreadable if keyed else 0) >= MAX_WRONG_OF_ALL:
            first = min((attempt.at for attempt in (own if is_own else with_keys)), default=now)
            message = f"{MAX_WRONG} wrong passphrases; nothing is approved for a while"
            raise Fault("RATE_LIMITED", message, retry_after_ms=int((first + WINDOW_S - now) * 1000) + 1)
        stored = self._stored
        if stored is None:
            hint = "set it: `interlock approvals passphrase`"
            raise Fault("PASSPHRASE_REQUIRED", "this hub needs a passphrase, and none is set", hint=hint)
        # Stored before it is checked, so that cancelling the check or ending the hub does not undo the attempt.
        attempt = PassphraseAttempt(secrets.token_hex(8), caller, now, keyed)
        async with self._store.transaction() as change:
            change.put(ATTEMPTS, attempt)
            for old in attempts:
                if old not in recent:
                    change.delete(ATTEMPTS, old.id)
        hashed = await asyncio.to_thread(slow_hash, given, bytes.fromhex(stored.salt), stored.cost, stored.block)
        if not hmac.compare_digest(hashed, bytes.fromhex(stored.hash)):
            raise Fault("ACCESS_DENIED", "the passphrase is wrong")
        async with self._store.transaction() as change:
            change.delete(ATTEMPTS, attempt.id)


def slow_hash(text: str, salt: bytes, cost: int, block: int) -> bytes:
    """The scrypt hash of a text. It takes a tenth of a second and 32 MB, so callers run it in a thread."""
    plain = normalize("NFC", text).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(plain, salt=salt, n=cost, r=block, p=1, maxmem=256 * cost * block, dklen=32)
