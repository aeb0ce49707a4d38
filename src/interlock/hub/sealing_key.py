"""Checks that a hub has the key that sealed the values of its store.

The first hub stores a check value, from which the key cannot be found. A hub with another key does not start: it could
neither read logins nor recognize keys, and others could not read what it seals.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from interlock.config.hub_secret import (
    FILE,
    REKEY,
    BadHubSecret,
    derived_key,
    existing_secret,
    has_secret,
    sealing_secret,
)
from interlock.config.next_secret import has_next
from interlock.config.settings import Config
from interlock.hub.approvals.sealed_views import VIEWS
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.sealed_with import ID, SEALED_WITH, check_of, sealed_with
from interlock.hub.conversation_documents import CONVERSATIONS, TURNS
from interlock.hub.live.server_states import STATE_TREES
from interlock.hub.room_documents import HISTORY_HEADS, HISTORY_SEGMENTS, history_key
from interlock.hub.upstreams.login_records import LOGINS, bound_to
from interlock.store import Collection, Conflict, Store, StoreError, documents
from interlock.store.connect import connect, is_shared, sqlite_path
from interlock.store.database import Database
from interlock.store.schema import check_schema
from interlock.wire.encryption import Encryption

_ATTEMPTS: Final = 3


class SealedElsewhere(StoreError):
    """Another key than the hub's sealed the values of the store, or the hub's is lost."""


class SealedCollection(NamedTuple):
    """The collection of sealed values: each row has the text in `sealed`, bound to what it belongs to."""

    collection: Collection[Any]
    purpose: bytes
    bound_to: Callable[[Any], str]

    def encryption(self, secret: bytes) -> Encryption:
        """The encryption of these values, with a key of the hub."""
        key = derived_key(secret, self.purpose)
        return Encryption(history_key(key) if self.collection is HISTORY_SEGMENTS else key)


SEALED: Final = (
    SealedCollection(LOGINS, b"logins", lambda row: bound_to(row.server, row.principal)),
    SealedCollection(VIEWS, b"approvals", lambda row: row.id),
    SealedCollection(CONVERSATIONS, b"conversations", lambda row: row.id),
    SealedCollection(TURNS, b"conversations", lambda row: row.id),
    SealedCollection(STATE_TREES, b"state_trees", lambda row: row.id),
    SealedCollection(HISTORY_SEGMENTS, b"rooms", lambda row: row.id),
)
"""Every sealed value of a store."""
USELESS: Final[tuple[Collection[Any], ...]] = (KEYS, LOGINS, CONVERSATIONS, HISTORY_HEADS)
"""Collections whose values are useless with another key."""


async def claim_store(store: Store, config: Config, home: Path) -> None:
    """Check the key, and store its check value. Raises StoreError for another key."""
    for _ in range(_ATTEMPTS):
        if await store.read(lambda database: check_key(database, config, home)):
            return
        try:
            async with store.transaction() as change:
                secret = sealing_secret(home, config.hub.sealing_key)
                change.insert(SEALED_WITH, sealed_with(secret, secret))
            return
        except Conflict:
            continue  # Another hub stored its check value first.


def check_key(database: Database, config: Config, home: Path) -> bool:
    """Whether nothing remains to be stored. Raises StoreError if another key sealed the values of this store."""
    configured = config.hub.sealing_key
    if configured is None and not has_secret(home):
        if is_sealed(database):
            hint = f"put the copy of {home / FILE} back, or run {REKEY}"
            if config.hub.store is not None and is_shared(config.hub.store):
                hint = f"if other hubs use this store, set the same `sealing_key` in [hub] of each; else {hint}"
            raise SealedElsewhere("the key of this hub is lost: its store has keys or logins that need it", hint)
        return False
    secret = sealing_secret(home, configured)
    known = documents.get(database, SEALED_WITH, ID)
    if known is None:
        if configured is not None and not _is_of_home(home, secret) and _is_used(database):
            hint = (
                f"set it to the key of the hub that made them: `base64 < {FILE}` in its home prints it; or run {REKEY}"
            )
            raise SealedElsewhere("the store has keys or logins that were made without this `sealing_key`", hint)
        if opens(database, secret):
            return False
    elif hmac.compare_digest(known.value.check.encode(), check_of(secret).encode()):
        return True
    if configured is None:
        which, hint = "its home's key", f"put the copy of {home / FILE} back, or run {REKEY}"
    else:
        which, hint = (
            "this `sealing_key`",
            f"set `sealing_key` in [hub] to that of the store's other hubs, or run {REKEY}",
        )
    raise SealedElsewhere(f"the values of the store are sealed with another key than {which}", hint)


def check_stored(where: str, config: Config, home: Path) -> None:
    """Check the key against a store that no hub need have open. Raises StoreError. Changes nothing."""
    if has_next(home) or not (is_shared(where) or sqlite_path(where).exists()):
        return  # The next start finishes, or undoes, an interrupted `rekey`.
    with closing(connect(where, read_only=True)) as database:
        if check_schema(database):
            check_key(database, config, home)


def is_sealed(database: Database) -> bool:
    """Whether a store needs the key of a hub: one sealed values there, or hashed keys."""
    return documents.get(database, SEALED_WITH, ID) is not None or _is_used(database)


def opens(database: Database, secret: bytes) -> bool:
    """Whether a key opens a sealed value of each kind, as far as there are any."""
    for kind in SEALED:
        encryption = kind.encryption(secret)
        page = next(documents.pages(database, kind.collection, 1), [])
        if any(
            row.value.sealed and encryption.open(row.value.sealed, kind.bound_to(row.value)) is None for row in page
        ):
            return False
    return True


def _is_used(database: Database) -> bool:
    return any(documents.keys(database, each.name) for each in USELESS)


def _is_of_home(home: Path, secret: bytes) -> bool:
    """Whether the configured key is the one in this home, which made the values before it was configured."""
    try:
        return has_secret(home) and hmac.compare_digest(existing_secret(home), secret)
    except BadHubSecret:
        return False
