"""Backups without a hub, and putting one back: only while no hub runs, recorded, and without giving back what was used.

Putting a backup back makes the documents (keys, grants, rules, decisions, pins) those of the backup; records are added
where they are missing and never removed. What the chain has lost by it is recorded in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.settings import Config
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.states import DecisionEvent, DecisionState
from interlock.hub.audit.chain import genesis, row_of
from interlock.hub.audit.head import Head, HeadDamaged, HeadFile, read_head
from interlock.hub.audit.heads import head_path, heads_of, node_name
from interlock.hub.audit.record import OPENED, RESTORED, Record
from interlock.hub.audit.verify import Report, verify
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import Principal
from interlock.hub.foundation import COLLECTIONS, store_of
from interlock.store import Store, StoreBusy, documents
from interlock.store import records as rows
from interlock.store.backup import write_backup
from interlock.store.connect import connect, is_shared, sqlite_path
from interlock.store.database import Database
from interlock.store.documents import Change, Changes, Edit
from interlock.store.records import Search

_HASHED_AT_ONCE: Final = 1024 * 1024


class Restored(msgspec.Struct, frozen=True):
    """What came of it."""

    store: str
    records: int
    """Records that the store holds now."""
    missing: int
    """Records that had been written here and were not in the backup."""
    keys_back: int
    """Keys that hold again, having been revoked or lost since the backup."""
    voided: int
    """Approvals that hold no longer: whether they were used since the backup cannot be known."""
    saved: str
    """The backup of what was there before; empty where there was nothing."""
    sound: bool
    findings: tuple[str, ...]


def back_up(config: Config, home: Path, file: Path) -> None:
    """A backup of a hub that does not run."""
    database = connect(store_of(config, home), read_only=True)
    try:
        write_backup(database, file)
    finally:
        database.close()


async def put_back(config: Config, home: Path, file: Path, by: Principal) -> Restored:
    """Put a backup back. The caller holds the lock of this user's hub. Raises StoreError, with nothing changed."""
    where = store_of(config, home)
    saved = await asyncio.to_thread(_save, where, home)
    digest = await asyncio.to_thread(_digest, file)
    store = await Store.open(where, COLLECTIONS, backups=home / "backups")
    try:
        had = {found.key for found in await store.find(KEYS)} if saved else None
        told = _Told(config, home, where, digest, by, had)
        await store.restore(file, told.record)
        await asyncio.to_thread(lambda: HeadFile(head_path(home, told.chain), told.head).close())
        report = await store.read(lambda database: verify(database, heads_of(home)))
    finally:
        await store.close()
    return Restored(
        where,
        report.records,
        told.missing,
        told.keys_back,
        told.voided,
        "" if saved is None else str(saved),
        report.sound,
        _told(report),
    )


class _Told:
    """What goes into the store together with a backup: its approvals are void, and it is recorded that it came."""

    def __init__(
        self, config: Config, home: Path, where: str, digest: str, by: Principal, had: set[str] | None
    ) -> None:
        self.chain = node_name(config.hub.node, home, where)
        self.head: Head
        self.missing = self.keys_back = self.voided = 0
        self._home = home
        self._digest = digest
        self._by = by
        self._had = had

    def record(self, database: Database) -> list[Change]:
        """Do it, in the transaction that made the documents those of the backup."""
        stale = [
            found.value
            for found in documents.find(database, DECISIONS, {})
            if found.value.state is DecisionState.APPROVED
        ]
        edits = [Edit(DECISIONS, old.id, DECISIONS.encode(old.after(DecisionEvent.CHANGE))) for old in stale]
        changes = documents.apply(database, Changes({}, edits)) if edits else []
        self.voided = len(stale)
        self.keys_back = 0 if self._had is None else len(set(documents.keys(database, KEYS.name)) - self._had)
        told = {"backup_sha256": self._digest, "keys_back": self.keys_back, "voided": self.voided}
        self.missing, self.head = _record(database, self._home, self.chain, self._by, told)
        return changes


def _save(where: str, home: Path) -> Path | None:
    """A backup of what is there now. Refuses while another hub uses the same database."""
    if not is_shared(where) and not sqlite_path(where).exists():
        return None
    database = connect(where)
    try:
        if others := database.other_connections():
            said = f"{others} connections of hubs to this database are open"
            raise StoreBusy(said, "stop every hub that shares it with `interlock down`")
        if "records" not in database.tables():
            return None
        saved = home / "backups" / f"before-restore-{time.strftime('%Y%m%dT%H%M%S')}.backup.db"
        write_backup(database, saved)
        return saved
    finally:
        database.close()


def _record(database: Database, home: Path, chain: str, by: Principal, told: dict[str, object]) -> tuple[int, Head]:
    """Record the restore at the end of this hub's own chain, with what the chain has lost by it."""
    database.lock(chain)
    try:
        known = read_head(head_path(home, chain))
    except HeadDamaged:
        known = None
    last = rows.last(database, chain)
    have = 0 if last is None else last.seq
    issued = have if known is None else max(have, known.seq, known.issued)
    gap: dict[str, object] = {"from": have + 1, "to": issued} if issued > have else {}
    record = Record(
        issued + 1, time.time_ns() // 1000, RESTORED, by.id, by.kind, details={**gap, **told, "records": have}
    )
    row = row_of(chain, record, genesis(chain) if last is None else last.hash)
    rows.append(database, [row])
    opened = rows.newest_first(database, Search(event=OPENED, chain=chain), 1)
    # From there on, the next start looks for calls whose end is not known.
    oldest_open = opened[0].seq if opened else 1
    missing = 0 if known is None else max(0, known.seq - have)
    return missing, Head(chain, record.seq, row.hash, oldest_open, record.seq)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as read:
        while part := read.read(_HASHED_AT_ONCE):
            digest.update(part)
    return digest.hexdigest()


def _told(report: Report) -> tuple[str, ...]:
    return tuple(f"{finding.problem} at {finding.seq}: {finding.message}" for finding in report.findings[:20])
