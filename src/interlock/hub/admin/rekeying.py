"""Seals the values of a hub with another key, while no hub runs: all of them or none.

One transaction reseals the store, and decides whether the operation took place. Until then, a new key of the home is
kept beside the old one. After an interruption, the next start finishes or undoes the operation (`finish_rekeying`).
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from interlock.config.hub_secret import (
    FILE,
    LostHubSecret,
    existing_secret,
    has_secret,
    hub_secret,
    make_secret,
    sealing_secret,
)
from interlock.config.next_secret import NEXT, adopt_next, discard_next, next_secret, prepare_next
from interlock.config.secret_store import SecretStore
from interlock.config.settings import Config
from interlock.hub.admin.backups import back_up_before, refuse_while_used
from interlock.hub.audit.heads import head_path, node_name
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import Principal
from interlock.hub.auth.sealed_with import ID, SEALED_WITH, SealedWith, check_of, hash_secret, sealed_with
from interlock.hub.conversation_documents import CONVERSATIONS
from interlock.hub.foundation import COLLECTIONS, store_of
from interlock.hub.journal import Journal
from interlock.hub.live.channels import CHANNEL_CONVERSATIONS
from interlock.hub.sealing_key import SEALED, SealedElsewhere, check_stored, opens
from interlock.hub.upstreams.login_records import LOGINS
from interlock.judge.secrets import redact
from interlock.protocols.traces import new_trace_id
from interlock.store import Store, StoreError, documents
from interlock.store.connect import connect, is_missing, sqlite_path
from interlock.store.database import Database
from interlock.store.documents import Changes, Edit
from interlock.store.schema import check_schema

PAGE: Final = 16
"""Rows in memory at once. A row has up to 4 MB."""
R = TypeVar("R")


class Rekeyed(msgspec.Struct, frozen=True):
    """The result: what is sealed with the new key, and what cannot be opened any more."""

    sealed: int = 0
    """Values of the store."""
    secrets: int = 0
    """Values of `interlock secrets`."""
    lost_logins: tuple[tuple[str, str], ...] = ()
    """Server and principal of each."""
    lost_values: int = 0
    """Conversations, open approval requests and other values."""
    lost_secrets: tuple[str, ...] = ()
    lost_keys: tuple[str, ...] = ()
    """Principals whose keys are not recognized."""
    saved: str = ""
    """The backup of the store as it was before."""


def sealed_elsewhere(config: Config, home: Path) -> str:
    """Why the key of this hub does not open its values; empty if it does. Raises BadHubSecret and StoreError."""
    try:
        check_stored(store_of(config, home), config, home)
        if SecretStore(home).names():
            hub_secret(home)
    except (SealedElsewhere, LostHubSecret) as cause:
        return cause.message
    return ""


def home_key_of_store(config: Config, home: Path) -> bytes | None:
    """The home's key, if it sealed the store before `sealing_key` was set. Raises BadHubSecret and StoreError."""
    if config.hub.sealing_key is None or not has_secret(home):
        return None
    secret = existing_secret(home)
    return secret if _stored(store_of(config, home), lambda database: _is_key(database, secret)) else None


async def rotate(config: Config, home: Path, by: Principal) -> Rekeyed:
    """Make a new key for the home, and seal everything with it. Raises BadHubSecret and StoreError."""
    old = hub_secret(home)
    new = prepare_next(home)
    try:
        sealed = await _commit(config, home, by, "a new key", lambda database: _seal(database, old, new))
    except StoreError:
        # A failed commit may have succeeded. Ask the store.
        with suppress(StoreError):
            finish_rekeying(config, home)
        raise
    secrets = SecretStore(home).reseal(old, new)
    adopt_next(home)
    return Rekeyed(sealed=sealed, secrets=secrets)


async def reseal(config: Config, home: Path, by: Principal, old: bytes) -> Rekeyed:
    """Seal everything that the old key sealed with the present one. Raises StoreError for a key that is not the old."""
    where = store_of(config, home)
    known = await asyncio.to_thread(_stored, where, lambda database: _is_key(database, old))
    if not (SecretStore(home).opens_with(old) if known is None else known):
        raise StoreError("this is not the key that sealed the store", "nothing was changed; look for another copy")
    own = _own_key(home) if config.hub.sealing_key is None or SecretStore(home).names() else None
    # The store comes last, so that the same command with the same key continues after an interruption.
    secrets = 0 if own is None else SecretStore(home).reseal(old, own)
    new = sealing_secret(home, config.hub.sealing_key)
    sealed = await _commit(config, home, by, "the key that is configured", lambda database: _seal(database, old, new))
    return Rekeyed(sealed=sealed, secrets=secrets, lost_secrets=_unopened(home))


async def give_up(config: Config, home: Path, by: Principal) -> Rekeyed:
    """Delete what only the lost key opened, after a backup, and go on with the present key. Raises StoreError."""
    saved = await asyncio.to_thread(back_up_before, store_of(config, home), home, "rekey")
    if config.hub.sealing_key is None or SecretStore(home).names():
        _own_key(home)
    new = sealing_secret(home, config.hub.sealing_key)
    done = await _commit(config, home, by, "the old key is lost", lambda database: _give_up(database, new))
    return msgspec.structs.replace(done, lost_secrets=_unopened(home), saved="" if saved is None else str(saved))


def finish_rekeying(config: Config, home: Path) -> None:
    """Finish `rotate` after its process ended in the middle, or undo it. Raises BadHubSecret and StoreError."""
    new = next_secret(home)
    if new is None:
        return
    where = store_of(config, home)
    if is_missing(where):
        # The store may be missing only for now, and be sealed with the next key. Keep that key.
        hint = f"put the store back; if there never was one, delete {home / FILE}{NEXT}"
        message = "the database is missing, and a `rekey` of it was interrupted"
        raise StoreError(message, hint, operator_text=str(sqlite_path(where)))
    if _stored(where, lambda database: _check(database) == check_of(new)):
        SecretStore(home).reseal(existing_secret(home), new)
        adopt_next(home)
    else:
        discard_next(home)


def _own_key(home: Path) -> bytes:
    """The key of the home; a new one where it is lost."""
    with suppress(LostHubSecret):
        if has_secret(home):
            return existing_secret(home)
    return make_secret(home)


def _unopened(home: Path) -> tuple[str, ...]:
    store = SecretStore(home)
    return tuple(store.unopened()) if store.names() else ()


def _stored(where: str, read: Callable[[Database], R]) -> R | None:
    """Read from a store that no hub need have open; None where there is none."""
    if is_missing(where):
        return None
    with closing(connect(where, read_only=True)) as database:
        return read(database) if check_schema(database) else None


async def _commit(config: Config, home: Path, by: Principal, because: str, work: Callable[[Database], R]) -> R:
    """Record the operation, then run the work in one transaction."""
    where = store_of(config, home)
    await asyncio.to_thread(refuse_while_used, where)
    store = await Store.open(where, COLLECTIONS, backups=home / "backups")
    try:
        node = node_name(config.hub.node, home, where)
        recorder = await Recorder.open(store, node, head_path(home, node), redact=redact)
        journal = Journal(lambda: recorder)
        journal.operated(by, "secrets.rekey", "", because, new_trace_id())
        await journal.flushed()
        try:
            return await store.commit(work)
        finally:
            await recorder.close()
    finally:
        await store.close()


def _known(database: Database) -> SealedWith | None:
    found = documents.get(database, SEALED_WITH, ID)
    return None if found is None else found.value


def _check(database: Database) -> str:
    known = _known(database)
    return "" if known is None else known.check


def _is_key(database: Database, secret: bytes) -> bool:
    """Whether a key sealed this store."""
    check = _check(database)
    return hmac.compare_digest(check, check_of(secret)) if check else opens(database, secret)


def _seal(database: Database, old: bytes, new: bytes) -> int:
    """Seal every value anew. Returns how many. A value that was altered opens with no key, and stays as it is."""
    count = 0
    for kind in SEALED:
        before, after = kind.encryption(old), kind.encryption(new)
        for page in documents.pages(database, kind.collection, PAGE):
            edits = []
            for row in page:
                bound_to = kind.bound_to(row.value)
                text = before.open(row.value.sealed, bound_to) if row.value.sealed else None
                if text is not None:
                    value = msgspec.structs.replace(row.value, sealed=after.seal(text, bound_to))
                    edits.append(Edit(kind.collection, row.key, kind.collection.encode(value)))
            if edits:
                documents.apply(database, Changes({}, edits))
            count += len(edits)
    _put(database, sealed_with(new, hash_secret(old, _known(database))))
    return count


def _give_up(database: Database, new: bytes) -> Rekeyed:
    """Delete every value that the key does not open."""
    logins: list[tuple[str, str]] = []
    lost = 0
    for kind in SEALED:
        encryption = kind.encryption(new)
        for page in documents.pages(database, kind.collection, PAGE):
            gone = [
                row
                for row in page
                if row.value.sealed and encryption.open(row.value.sealed, kind.bound_to(row.value)) is None
            ]
            edits = [Edit(kind.collection, row.key, None) for row in gone]
            if kind.collection is LOGINS:
                logins += [(row.value.server, row.value.principal) for row in gone if row.value.logged_in]
            else:
                lost += len(gone)
            if kind.collection is CONVERSATIONS:
                edits += [edit for row in gone for edit in _of_conversation(database, row.key)]
            if edits:
                documents.apply(database, Changes({}, edits))
    keys: set[str] = set()
    if not hmac.compare_digest(_check(database), check_of(new)):
        keys = {row.value.principal for row in documents.find(database, KEYS, {})}
        _put(database, sealed_with(new, new))
    return Rekeyed(lost_logins=tuple(sorted(logins)), lost_values=lost, lost_keys=tuple(sorted(keys)))


def _of_conversation(database: Database, conversation: str) -> list[Edit]:
    found = documents.find(database, CHANNEL_CONVERSATIONS, {"conversation": conversation})
    return [Edit(CHANNEL_CONVERSATIONS, row.key, None) for row in found]


def _put(database: Database, row: SealedWith) -> None:
    documents.apply(database, Changes({}, [Edit(SEALED_WITH, ID, SEALED_WITH.encode(row))]))
