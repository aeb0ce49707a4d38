"""Finds the traces of an unclean end of the last run: lost entries, a cut tail, and calls with an unknown outcome."""

from __future__ import annotations

from pathlib import Path

import msgspec

from interlock.hub.audit.chain import UnreadableRecord, genesis, record_of
from interlock.hub.audit.head import ChainHead, HeadDamaged, read_head
from interlock.hub.audit.record import CLOSED, EXECUTED, GAP, INTENDED, OPENED, OTHER_EXECUTED, UNKNOWN, Record
from interlock.store import records as rows
from interlock.store.database import Database


class Resumed(msgspec.Struct, frozen=True):
    """Where to continue, and what to record first."""

    seq: int
    """The last assigned sequence number."""
    hash: bytes
    """The hash of the last stored record."""
    entries: tuple[Record, ...]
    """The records to append, in order; the recorder sets their numbers and times."""
    lost: int = 0
    """Entries that were never written."""
    cut: int = 0
    """Entries that were written but are missing now."""
    unfinished: int = 0
    """Calls with an unknown outcome."""
    tampering: str = ""
    """Evidence that somebody changed the audit log or its head file while no hub ran; empty if there is none."""


def resume(chain: str, head_file: Path, database: Database) -> Resumed:
    """Compare the chain with its head file."""
    damage = ""
    head: ChainHead | None = None
    try:
        head = read_head(head_file)
    except HeadDamaged as cause:
        damage = str(cause)
    if head is not None and head.chain != chain:
        damage, head = f"it belongs to chain {head.chain}", None
    last = rows.last(database, chain)
    have = 0 if last is None else last.seq
    hash_ = genesis(chain) if last is None else last.hash
    if head is None and last is not None and not damage:
        damage = "it is missing"
    cut = 0 if head is None else max(0, head.seq - have)
    issued = have if head is None else max(have, head.seq, head.issued)
    lost = issued - have - cut
    differs = 0
    if head is not None and 0 < head.seq <= have:
        found = rows.get(database, chain, head.seq)
        differs = 0 if found is not None and found.hash == head.hash else head.seq
    opened = Record(0, 0, OPENED, details={"clean": last is None or last.event == CLOSED})
    entries = [opened]
    if issued > have or differs or damage:
        hole: dict[str, object] = {"from": have + 1, "to": issued} if issued > have else {}
        facts = {"lost": lost, "cut": cut, "head_differs_at": differs, "head": damage}
        details = {**hole, **{name: value for name, value in facts.items() if value}}
        # Directly after the gap, because `verify` looks for it there.
        entries = [Record(0, 0, GAP, details=details), opened]
    unfinished = [_unknown(intent) for intent in _open_intents(chain, head, have, database)]
    tampering = _tampering(cut, differs, damage)
    return Resumed(issued, hash_, (*entries, *unfinished), lost, cut, len(unfinished), tampering)


def _tampering(cut: int, differs: int, damage: str) -> str:
    if cut:
        return f"{cut} committed audit log entries were gone when the hub started"
    if differs:
        return f"audit log entry {differs} was not the one in the head file when the hub started"
    return f"the head file of the audit log could not be used when the hub started: {damage}" if damage else ""


def _open_intents(chain: str, head: ChainHead | None, have: int, database: Database) -> list[Record]:
    """The intents without an outcome. Without a head, only those of the last run are searched."""
    if head is not None:
        start = min(head.oldest_open, have + 1)
    else:
        found = rows.newest_first(database, rows.Search(event=OPENED, chain=chain), 1)
        start = found[0].seq if found else 1
    intents: dict[int, Record] = {}
    for row in rows.in_order(database, chain, start - 1):
        try:
            record = record_of(row.body)
        except UnreadableRecord:
            # `verify` reports the damage; it must not keep the hub from starting.
            continue
        if record.event == INTENDED:
            intents[row.seq] = record
        elif record.intent:
            intents.pop(record.intent, None)
    return list(intents.values())


def _unknown(intent: Record) -> Record:
    return msgspec.structs.replace(
        intent,
        event=EXECUTED.get(intent.kind, OTHER_EXECUTED),
        intent=intent.seq,
        outcome=UNKNOWN,
        reason="the hub ended before an answer came",
        details={},
    )
