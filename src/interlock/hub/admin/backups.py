"""Makes backups without a running hub, and restores them.

No hub may run during a restore. It replaces the documents (keys, grants, rules, decisions, pins), voids approvals and
adds missing audit records, but never removes one. It is itself recorded, with what the chain has lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.settings import Config
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.states import DecisionEvent, DecisionState
from interlock.hub.audit.chain import genesis, row_of
from interlock.hub.audit.head import ChainHead, HeadFile, head_if_whole
from interlock.hub.audit.heads import head_path, heads_of, node_name
from interlock.hub.audit.record import OPENED, RESTORED, Record
from interlock.hub.audit.verify import VerificationReport, verify
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import Principal
from interlock.hub.foundation import COLLECTIONS, store_of
from interlock.store import Store, StoreBusy, documents
from interlock.store import records as rows
from interlock.store.backup import write_backup
from interlock.store.connect import connect, is_missing, is_shared
from interlock.store.database import Database
from interlock.store.documents import Change, Changes, Edit
from interlock.store.records import Search

_READ_BYTES: Final = 1024 * 1024


class Restored(msgspec.Struct, frozen=True):
    """The result of a restore."""

    store: str
    records: int
    """Records in the store now."""
    missing: int
    """Records written here that the backup does not have."""
    keys_back: int
    """Keys that are valid again although they were revoked or lost since the backup."""
    voided: int
    """Approvals that were voided: they may have been used since the backup."""
    saved: str
    """The backup of the store as it was before; empty if there was none."""
    sound: bool
    findings: tuple[str, ...]


def back_up(config: Config, home: Path, file: Path) -> None:
    """Back up a hub that does not run."""
    database = connect(store_of(config, home), read_only=True)
    try:
        write_backup(database, file)
    finally:
        database.close()


async def put_back(config: Config, home: Path, file: Path, by: Principal) -> Restored:
    """Restore a backup. The caller holds the lock of this user's hub. Raises StoreError, with nothing changed."""
    where = store_of(config, home)
    saved = await asyncio.to_thread(back_up_before, where, home, "restore")
    digest = await asyncio.to_thread(_digest, file)
    store = await Store.open(where, COLLECTIONS, backups=home / "backups")
    try:
        had = set(await store.keys(KEYS)) if saved else None
        restore = _RestoreWork(config, home, where, digest, by, had)
        await store.restore(file, restore.record)
        await asyncio.to_thread(lambda: HeadFile(head_path(home, restore.chain), restore.head).close())
        report = await store.read(lambda database: verify(database, heads_of(home)))
    finally:
        await store.close()
    return Restored(
        where,
        report.records,
        restore.missing,
        restore.keys_back,
        restore.voided,
        "" if saved is None else str(saved),
        report.sound,
        _findings(report),
    )


class _RestoreWork:
    """The changes in the transaction of a restore: voided approvals, and the audit record."""

    def __init__(
        self, config: Config, home: Path, where: str, digest: str, by: Principal, had: set[str] | None
    ) -> None:
        self.chain = node_name(config.hub.node, home, where)
        self.head: ChainHead
        self.missing = self.keys_back = self.voided = 0
        self._home = home
        self._digest = digest
        self._by = by
        self._had = had

    def record(self, database: Database) -> list[Change]:
        """Make the changes. Returns those of documents."""
        stale = [
            found.value
            for found in documents.find(database, DECISIONS, {})
            if found.value.state is DecisionState.APPROVED
        ]
        edits = [Edit(DECISIONS, old.id, DECISIONS.encode(old.after(DecisionEvent.CHANGE))) for old in stale]
        changes = documents.apply(database, Changes({}, edits)) if edits else []
        self.voided = len(stale)
        self.keys_back = 0 if self._had is None else len(set(documents.keys(database, KEYS.name)) - self._had)
        details: dict[str, object] = {"backup_sha256": self._digest, "keys_back": self.keys_back, "voided": self.voided}
        self.missing, self.head = _record(database, self._home, self.chain, self._by, details)
        return changes


def back_up_before(where: str, home: Path, doing: str) -> Path | None:
    """Back up the current store. Raises StoreBusy while another hub uses the database."""
    refuse_while_used(where)
    if is_missing(where):
        return None
    with closing(connect(where)) as database:
        if "records" not in database.tables():
            return None
        saved = home / "backups" / f"before-{doing}-{time.strftime('%Y%m%dT%H%M%S')}.backup.db"
        write_backup(database, saved)
        return saved


def refuse_while_used(where: str) -> None:
    """Raises StoreBusy while another hub uses the database. The hub's lock guards a SQLite file."""
    if not is_shared(where):
        return
    with closing(connect(where)) as database:
        if others := database.other_connections():
            message = f"other hubs have {others} connections to this database open"
            raise StoreBusy(message, "stop every hub that shares it with `interlock down`")


def _record(
    database: Database, home: Path, chain: str, by: Principal, details: dict[str, object]
) -> tuple[int, ChainHead]:
    """Record the restore at the end of this hub's chain, with the gap it leaves."""
    database.lock(chain)
    known = head_if_whole(head_path(home, chain))
    last = rows.last(database, chain)
    have = 0 if last is None else last.seq
    issued = have if known is None else max(have, known.seq, known.issued)
    gap: dict[str, object] = {"from": have + 1, "to": issued} if issued > have else {}
    record = Record(
        issued + 1, time.time_ns() // 1000, RESTORED, by.id, by.kind, details={**gap, **details, "records": have}
    )
    row = row_of(chain, record, genesis(chain) if last is None else last.hash)
    rows.append(database, [row])
    opened = rows.newest_first(database, Search(event=OPENED, chain=chain), 1)
    # The next start looks from there for calls without an outcome.
    oldest_open = opened[0].seq if opened else 1
    missing = 0 if known is None else max(0, known.seq - have)
    return missing, ChainHead(chain, record.seq, row.hash, oldest_open, record.seq)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as read:
        while part := read.read(_READ_BYTES):
            digest.update(part)
    return digest.hexdigest()


def _findings(report: VerificationReport) -> tuple[str, ...]:
    return tuple(f"{finding.problem} at {finding.seq}: {finding.message}" for finding in report.findings[:20])
