"""Verifies the audit log: finds and locates any edit, drop, reorder or cut. Needs no hub.

A gap that the hub itself recorded after a kill or a restore is reported, but is not a fault; committed records that are
gone always are. A pruned chain begins after the record that its anchor names.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from interlock.hub.audit.anchors import anchor_of
from interlock.hub.audit.chain import UnreadableRecord, follow, genesis, record_of
from interlock.hub.audit.head import ChainHead
from interlock.hub.audit.record import GAP, PRUNED, RESTORED, Record
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import RecordRow, column

Problem: TypeAlias = Literal[
    "altered", "misplaced", "missing", "columns", "unreadable", "cut", "head", "lost", "restored"
]

MAX_FINDINGS: Final = 1000
"""Findings that are reported of one chain."""


class Finding(msgspec.Struct, frozen=True):
    """A difference from what was written."""

    chain: str
    seq: int
    """The first record that shows it."""
    problem: Problem
    message: str


class VerificationReport(msgspec.Struct, frozen=True):
    """The result of a verification."""

    records: int
    chains: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether no record was changed. Records lost to a kill or a restore, and recorded as lost, do not count."""
        return all(finding.problem in ("lost", "restored") for finding in self.findings)


class ChainVerification:
    """The verification of one chain, record by record in order."""

    def __init__(self, chain: str, head: ChainHead | None = None, max_findings: int = MAX_FINDINGS) -> None:
        self.chain = chain
        self.count = 0
        self.findings: list[Finding] = []
        self._head = head
        self._max_findings = max_findings
        self._hash = genesis(chain)
        self._seq = 0
        self._first: RecordRow | None = None
        """The first record of a chain without its beginning, until the anchor of the cut is found."""
        self._first_follows = 0

    def step(self, row: RecordRow) -> None:
        """Check the next record."""
        self.count += 1
        if row.damage:
            self._find(row.seq, "altered", f"record {row.seq} was altered: {row.damage}")
        record = self._read(row)
        if self._seq == 0 and row.seq > 1 and not _explains_gap(record, 1):
            self._begin_cut(row, record)
            return
        if record is not None and record.event == PRUNED:
            self._anchor(record)
        if row.seq != self._seq + 1 and (record is None or not self._gap(record)):
            self._find(self._seq + 1, "missing", f"records {self._seq + 1} to {row.seq - 1} are missing")
        if follow(self._hash, _bytes(row)) != row.hash:
            # Its bytes, its hash or the hash before it was changed: the chain cannot tell which.
            self._find(row.seq, "altered", f"record {row.seq} is not the one that was written after {self._seq}")
        if record is not None:
            self._compare(row, record)
        if self._head is not None and row.seq == self._head.seq and row.hash != self._head.hash:
            self._find(row.seq, "head", f"record {row.seq} does not have the hash in the head file")
        self._hash, self._seq = row.hash, row.seq

    def end(self) -> list[Finding]:
        """Finish after the last record."""
        head = self._head
        if self._first is not None:
            seq = self._first.seq
            self.findings.insert(0, Finding(self.chain, 1, "missing", f"records 1 to {seq - 1} are missing"))
        if head is not None and head.seq > self._seq:
            self._find(self._seq + 1, "cut", f"records {self._seq + 1} to {head.seq} were cut off the end")
        return self.findings

    def _read(self, row: RecordRow) -> Record | None:
        try:
            return record_of(row.body)
        except UnreadableRecord as cause:
            self._find(row.seq, "unreadable", f"record {row.seq} cannot be read: {cause}")
            return None

    def _begin_cut(self, row: RecordRow, record: Record | None) -> None:
        """Start a chain whose beginning is gone; an anchor further on must account for it."""
        self._first = row
        self._first_follows = row.seq - 1
        if record is not None:
            start = record.details.get("from")
            if isinstance(start, int) and _explains_gap(record, start):
                self._first_follows = start - 1
            self._compare(row, record)
        self._hash, self._seq = row.hash, row.seq

    def _anchor(self, record: Record) -> None:
        """Check the hub's own record that it pruned the chain."""
        first, details = self._first, record.details
        if first is None or details.get("through") != self._first_follows:
            return
        self._first = None
        if follow(_unhex(details.get("hash")), _bytes(first)) != first.hash:
            self._find(first.seq, "altered", f"record {first.seq} is not the one that followed the pruned records")

    def _gap(self, record: Record) -> bool:
        """Whether a record explains the records that are missing before it."""
        details = record.details
        if not _explains_gap(record, self._seq + 1):
            return False
        if record.event == RESTORED:
            missing = f"records {details['from']} to {details['to']} were not in the restored backup"
            self._find(self._seq + 1, "restored", missing)
            return True
        if cut := details.get("cut", 0):
            self._find(self._seq + 1, "cut", f"{cut} committed records were gone when the hub started")
        if lost := details.get("lost", 0):
            unwritten = f"{lost} entries of the last second before the hub was killed were not on the disk yet"
            self._find(self._seq + 1, "lost", f"{unwritten}; this is no sign of tampering")
        return True

    def _compare(self, row: RecordRow, record: Record) -> None:
        if record.seq != row.seq:
            self._find(row.seq, "misplaced", f"record {record.seq} is stored as number {row.seq}")
        at = record.details.get("head_differs_at") or record.details.get("head")
        if record.event == GAP and at:
            self._find(row.seq, "head", f"the head file did not match when the hub started: {at}")
        copied = (record.at, record.event, record.actor, record.server, record.name, record.trace, record.result)
        stored = (row.at, row.event, row.actor, row.server, row.name, row.trace, row.result)
        if tuple(column(value) if isinstance(value, str) else value for value in copied) != stored:
            self._find(row.seq, "columns", f"the search columns of record {row.seq} differ from its content")

    def _find(self, seq: int, problem: Problem, message: str) -> None:
        if len(self.findings) < self._max_findings:
            self.findings.append(Finding(self.chain, seq, problem, message))


def _explains_gap(record: Record | None, start: int) -> bool:
    """Whether a record explains that the records from `start` to itself are missing."""
    if record is None or record.event not in (GAP, RESTORED):
        return False
    return record.details.get("from") == start and record.details.get("to") == record.seq - 1


def _bytes(row: RecordRow) -> bytes:
    """The hashed bytes."""
    return row.body.encode(errors="backslashreplace")


def _unhex(value: object) -> bytes:
    try:
        return binascii.unhexlify(value) if isinstance(value, str) else b""
    except ValueError:
        return b""


def verify(database: Database, heads: Mapping[str, ChainHead]) -> VerificationReport:
    """Verify every record of every chain against the chain and its head file."""
    count, findings = 0, list[Finding]()
    chains = sorted({*rows.chains(database), *heads})
    for chain in chains:
        walk = ChainVerification(chain, heads.get(chain))
        # Retention may still be deleting the records before the anchor.
        for row in rows.in_order(database, chain, anchor_of(database, chain)):
            walk.step(row)
        findings += walk.end()
        count += walk.count
    for name, stray in rows.misnamed(database).items():
        findings.append(Finding(name, 0, "misplaced", f"{stray} records belong to a chain whose name is not text"))
        count += stray
    return VerificationReport(count, tuple(chains), tuple(findings))


def verify_export(lines: Iterable[bytes], heads: Mapping[str, ChainHead]) -> VerificationReport:
    """Verify a whole export, its order included."""
    walks: dict[str, ChainVerification] = {}
    broken: list[Finding] = []
    for chain, row in _exported(lines, broken):
        walk = walks.get(chain)
        if walk is None:
            walk = walks[chain] = ChainVerification(chain, heads.get(chain))
        walk.step(row)
    for chain in heads.keys() - walks.keys():
        walks[chain] = ChainVerification(chain, heads[chain])
    if broken and not walks:
        raise ValueError(broken[0].message)
    findings = [*broken, *(finding for walk in walks.values() for finding in walk.end())]
    return VerificationReport(sum(walk.count for walk in walks.values()), tuple(sorted(walks)), tuple(findings))


class ExportLine(msgspec.Struct, frozen=True):
    """One line of an export. `record` holds the hashed bytes."""

    chain: str
    seq: int
    hash: str
    record: msgspec.Raw
    damage: str | msgspec.UnsetType = msgspec.UNSET
    """Why the stored record cannot be read. Then `record` is null, and `stored` shows what is stored instead."""
    stored: str | msgspec.UnsetType = msgspec.UNSET


_LINE = msgspec.json.Decoder(ExportLine)


def _exported(lines: Iterable[bytes], broken: list[Finding]) -> Iterator[tuple[str, RecordRow]]:
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = _LINE.decode(text)
            body, hash_ = bytes(line.record).decode(), binascii.unhexlify(line.hash)
        except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
            if len(broken) < MAX_FINDINGS:
                broken.append(Finding("", 0, "unreadable", f"line {number} cannot be read: {cause}"))
            continue
        damage = line.damage or ""
        try:
            record = record_of(body)
        except UnreadableRecord:
            record = Record(line.seq, 0, "")
        names = [column(name) for name in (record.event, record.actor, record.server, record.name, record.trace)]
        row: Any = (line.chain, line.seq, record.at, *names, record.result, body, hash_, damage)
        yield line.chain, RecordRow(*row)
