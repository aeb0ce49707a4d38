"""Whether the record is what was written: any edit, drop, reorder or cut is found and located. Needs no hub.

Where a gap was recorded by the hub itself after it was killed, or by a restore, that is told, and is not a fault of the
chain; records that were committed and are gone are one, recorded or not. A chain that was cut at the front by retention
begins with the record that its anchor names.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from interlock.hub.audit.anchors import anchor_of
from interlock.hub.audit.chain import follow, genesis, record_of
from interlock.hub.audit.head import Head
from interlock.hub.audit.record import GAP, PRUNED, RESTORED, Record
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import RecordRow, column

Problem: TypeAlias = Literal[
    "altered", "misplaced", "missing", "columns", "unreadable", "cut", "head", "lost", "restored"
]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    chain: str
    seq: int
    """Where it shows first."""
    problem: Problem
    message: str


class Report(msgspec.Struct, frozen=True):
    """What was looked at, and what was found."""

    records: int
    chains: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Nothing was changed. What was lost to a kill or a restore, and recorded so, does not count against it."""
        return all(finding.problem in ("lost", "restored") for finding in self.findings)


class Walk:
    """One chain, looked at record by record in the order of their places."""

    def __init__(self, chain: str, head: Head | None = None, most: int = 1000) -> None:
        self.chain = chain
        self.count = 0
        self.findings: list[Finding] = []
        self._head = head
        self._most = most
        self._hash = genesis(chain)
        self._seq = 0
        self._first: RecordRow | None = None
        """The first record of a chain whose beginning is gone, until the anchor that accounts for it is found."""
        self._first_follows = 0

    def step(self, row: RecordRow) -> None:
        """Look at the next record."""
        self.count += 1
        record = self._read(row)
        if self._seq == 0 and row.seq > 1 and not _tells_gap(record, 1):
            self._begin_cut(row, record)
            return
        if record is not None and record.event == PRUNED:
            self._anchor(record)
        if row.seq != self._seq + 1 and (record is None or not self._gap(record)):
            self._find(self._seq + 1, "missing", f"records {self._seq + 1} to {row.seq - 1} are missing")
        if follow(self._hash, row.body.encode()) != row.hash:
            # Whether its bytes, its hash or the hash before it was changed cannot be told apart from here.
            self._find(row.seq, "altered", f"record {row.seq} is not the one that was written after {self._seq}")
        if record is not None:
            self._compare(row, record)
        if self._head is not None and row.seq == self._head.seq and row.hash != self._head.hash:
            self._find(row.seq, "head", f"record {row.seq} is not the one whose hash stands in the second place")
        self._hash, self._seq = row.hash, row.seq

    def end(self) -> list[Finding]:
        """There is no further record."""
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
        except (msgspec.MsgspecError, UnicodeError) as cause:
            self._find(row.seq, "unreadable", f"record {row.seq} cannot be read: {cause}")
            return None

    def _begin_cut(self, row: RecordRow, record: Record | None) -> None:
        """The beginning is gone. Whether that is right is told by an anchor further on."""
        self._first = row
        self._first_follows = row.seq - 1
        if record is not None:
            told = record.details.get("from")
            if isinstance(told, int) and _tells_gap(record, told):
                self._first_follows = told - 1
            self._compare(row, record)
        self._hash, self._seq = row.hash, row.seq

    def _anchor(self, record: Record) -> None:
        """The hub's own word that it cut the chain, and behind which record."""
        first, told = self._first, record.details
        if first is None or told.get("through") != self._first_follows:
            return
        self._first = None
        if follow(_unhex(told.get("hash")), first.body.encode()) != first.hash:
            self._find(first.seq, "altered", f"record {first.seq} is not the one that was kept when the chain was cut")

    def _gap(self, record: Record) -> bool:
        """Whether this is the hub's own word on what is missing before it."""
        told = record.details
        if not _tells_gap(record, self._seq + 1):
            return False
        if record.event == RESTORED:
            missing = f"records {told['from']} to {told['to']} were not in the backup that was put back"
            self._find(self._seq + 1, "restored", missing)
            return True
        cut = told.get("cut", 0)
        if cut:
            self._find(self._seq + 1, "cut", f"{cut} committed records were gone when the hub started")
        if lost := told.get("lost", 0):
            self._find(self._seq + 1, "lost", f"{lost} records were lost when the hub was killed")
        return True

    def _compare(self, row: RecordRow, record: Record) -> None:
        if record.seq != row.seq:
            self._find(row.seq, "misplaced", f"record {record.seq} stands in place {row.seq}")
        if record.event == GAP and (record.details.get("head_differs_at") or record.details.get("head")):
            at = record.details.get("head_differs_at") or record.details.get("head")
            self._find(row.seq, "head", f"the second place did not agree when the hub started: {at}")
        copied = (record.at, record.event, record.actor, record.server, record.name, record.trace, record.result)
        said = (row.at, row.event, row.actor, row.server, row.name, row.trace, row.result)
        if tuple(column(value) if isinstance(value, str) else value for value in copied) != said:
            self._find(row.seq, "columns", f"what record {row.seq} is searched by is not what it says")

    def _find(self, seq: int, problem: Problem, message: str) -> None:
        if len(self.findings) < self._most:
            self.findings.append(Finding(self.chain, seq, problem, message))


def _tells_gap(record: Record | None, start: int) -> bool:
    """Whether a record says that what is missing before it, from a number on, is known to be."""
    if record is None or record.event not in (GAP, RESTORED):
        return False
    return record.details.get("from") == start and record.details.get("to") == record.seq - 1


def _unhex(value: object) -> bytes:
    try:
        return binascii.unhexlify(value) if isinstance(value, str) else b""
    except binascii.Error:
        return b""


def verify(database: Database, heads: Mapping[str, Head]) -> Report:
    """Look at every record of every chain, and at the heads that were kept in the second place."""
    count, findings = 0, list[Finding]()
    chains = sorted({*rows.chains(database), *heads})
    for chain in chains:
        walk = Walk(chain, heads.get(chain))
        # What an anchor accounts for may be on its way out: it is not part of what is kept.
        for row in rows.in_order(database, chain, anchor_of(database, chain)):
            walk.step(row)
        findings += walk.end()
        count += walk.count
    return Report(count, tuple(chains), tuple(findings))


def verify_export(lines: Iterable[bytes], heads: Mapping[str, Head]) -> Report:
    """The same for a whole export: its order is part of what is checked."""
    walks: dict[str, Walk] = {}
    for chain, row in _exported(lines):
        walk = walks.get(chain)
        if walk is None:
            walk = walks[chain] = Walk(chain, heads.get(chain))
        walk.step(row)
    for chain in heads.keys() - walks.keys():
        walks[chain] = Walk(chain, heads[chain])
    findings = [finding for walk in walks.values() for finding in walk.end()]
    return Report(sum(walk.count for walk in walks.values()), tuple(sorted(walks)), tuple(findings))


class Line(msgspec.Struct, frozen=True):
    """One line of an export. `record` holds the very bytes that were hashed."""

    chain: str
    seq: int
    hash: str
    record: msgspec.Raw


_LINE = msgspec.json.Decoder(Line)


def _exported(lines: Iterable[bytes]) -> Iterator[tuple[str, RecordRow]]:
    for text in lines:
        if not text.strip():
            continue
        line = _LINE.decode(text)
        body = bytes(line.record).decode()
        try:
            record = record_of(body)
        except msgspec.MsgspecError:
            record = Record(line.seq, 0, "")
        yield (
            line.chain,
            RecordRow(
                line.chain,
                line.seq,
                record.at,
                column(record.event),
                column(record.actor),
                column(record.server),
                column(record.name),
                column(record.trace),
                record.result,
                body,
                binascii.unhexlify(line.hash),
            ),
        )
