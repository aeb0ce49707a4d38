"""Checks that a hub has the key that sealed the values of its store.

The first hub with a `sealing_key` stores a check value, from which the key cannot be found. A hub with another key does
not start: it could neither read logins nor recognize keys, and others could not read what it seals.
"""

from __future__ import annotations

import hmac
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from interlock.config.hub_secret import FILE, BadHubSecret, derived_key, existing_secret, has_secret, sealing_secret
from interlock.config.settings import Config
from interlock.hub.auth.keys import KEYS
from interlock.hub.stored_documents import CONVERSATIONS, HISTORY_HEADS
from interlock.hub.upstreams.login_records import LOGINS
from interlock.store import Collection, Conflict, Store, StoreError, documents
from interlock.store.connect import connect, is_shared, sqlite_path
from interlock.store.database import Database
from interlock.store.schema import check_schema

_ID: Final = "sealing_key"
_ATTEMPTS: Final = 3


class SealedWith(msgspec.Struct, frozen=True):
    """The check value of the key that all hubs of a store take from their configurations."""

    id: str
    check: str


SEALED_WITH: Final = Collection("sealed_with", SealedWith, key="id")
SEALED: Final[tuple[Collection[Any], ...]] = (KEYS, LOGINS, CONVERSATIONS, HISTORY_HEADS)
"""Collections whose values are useless with another key."""


async def claim_store(store: Store, config: Config, home: Path) -> None:
    """Check the key, and store its check value if it is configured. Raises StoreError for another key."""
    for _ in range(_ATTEMPTS):
        if await store.read(lambda database: check_key(database, config, home)):
            return
        try:
            async with store.transaction() as change:
                check = _check(sealing_secret(home, config.hub.sealing_key))
                change.insert(SEALED_WITH, SealedWith(_ID, check))
            return
        except Conflict:
            continue  # Another hub stored its check value first.


def check_key(database: Database, config: Config, home: Path) -> bool:
    """Whether nothing remains to be stored. Raises StoreError if another key sealed the values of this store."""
    known = documents.get(database, SEALED_WITH, _ID)
    configured = config.hub.sealing_key
    if known is None:
        if configured is None:
            return True
        if not _is_of_home(home, configured) and any(documents.keys(database, each.name) for each in SEALED):
            hint = f"set it to the key of the hub that made them: `base64 < {FILE}` in its home prints it"
            raise StoreError("the store has keys or logins that were made without this `sealing_key`", hint)
        return False
    makes_new = configured is None and not has_secret(home)
    secret = b"" if makes_new else sealing_secret(home, configured)
    if hmac.compare_digest(known.value.check.encode(), _check(secret).encode()):
        return True
    which = "its home's key" if configured is None else "this `sealing_key`"
    hint = "set `sealing_key` in [hub] to the key that the other hubs of this store have"
    raise StoreError(f"the values of the store are sealed with another key than {which}", hint)


def check_stored(where: str, config: Config, home: Path) -> None:
    """Check the key against a store that no hub need have open. Raises StoreError. Changes nothing."""
    if not is_shared(where) and not sqlite_path(where).exists():
        return
    with closing(connect(where, read_only=True)) as database:
        if check_schema(database):
            check_key(database, config, home)


def _is_of_home(home: Path, configured: str) -> bool:
    """Whether the configured key is the one in this home, which made the values before it was configured."""
    try:
        return has_secret(home) and hmac.compare_digest(existing_secret(home), sealing_secret(home, configured))
    except BadHubSecret:
        return False


def _check(secret: bytes) -> str:
    return derived_key(secret, b"sealing key").hex()
