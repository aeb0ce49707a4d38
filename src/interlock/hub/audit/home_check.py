"""Verifies the audit log of a home, whether its hub runs or not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from interlock.hub.audit.head import ChainHead, HeadDamaged, read_head
from interlock.hub.audit.verify import Finding, VerificationReport, verify
from interlock.store import records as rows
from interlock.store.connect import connect
from interlock.store.database import Database, transaction


def verify_store(where: str, home: Path) -> VerificationReport:
    """Verify every record of a store against the head files of a home. Raises StoreError."""
    with closing(connect(where, read_only=True)) as database, transaction(database, read_only=True):
        return verify_home(database, home)


def verify_home(database: Database, home: Path) -> VerificationReport:
    """Verify every record against the head files of a home. A head file that cannot be read is a finding."""
    heads, damaged = _heads(home)
    report = verify(database, heads)
    return VerificationReport(report.records, report.chains, (*damaged, *report.findings))


def missing_ends(where: str, home: Path) -> list[str]:
    """The faults at the ends of the chains, one sentence each. Reads two records of each chain."""
    heads, damaged = _heads(home)
    found = [finding.message for finding in damaged]
    with closing(connect(where, read_only=True)) as database, transaction(database, read_only=True):
        for chain, head in heads.items():
            last = rows.last(database, chain)
            have = 0 if last is None else last.seq
            if head.seq > have:
                found.append(f"records {have + 1} to {head.seq} of chain {chain} were cut off the end")
                continue
            named = rows.get(database, chain, head.seq)
            if head.seq and (named is None or named.hash != head.hash):
                found.append(f"record {head.seq} of chain {chain} does not have the hash in the head file")
    return found


def _heads(home: Path) -> tuple[dict[str, ChainHead], list[Finding]]:
    """The heads of a home by chain, and the head files that cannot be read."""
    heads: dict[str, ChainHead] = {}
    damaged: list[Finding] = []
    for path in sorted(home.glob("audit*.head")):
        try:
            head = read_head(path)
        except HeadDamaged as cause:
            damaged.append(Finding("", 0, "head", str(cause)))
        else:
            if head is not None:
                heads[head.chain] = head
    return heads, damaged
