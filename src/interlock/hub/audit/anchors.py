"""Finds the beginning of a pruned chain: the record after the one that its newest anchor names."""

from __future__ import annotations

from interlock.hub.audit.chain import UnreadableRecord, record_of
from interlock.hub.audit.record import PRUNED
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import Search


def anchor_of(database: Database, chain: str) -> int:
    """The last record that was pruned; 0 for a whole chain."""
    found = rows.newest_first(database, Search(event=PRUNED, chain=chain), 1)
    if not found:
        return 0
    try:
        through = record_of(found[0].body).details.get("through")
    except UnreadableRecord:
        # `verify` reports the damage, and an anchor that names records after itself: it reads from the beginning.
        return 0
    return through if isinstance(through, int) and 0 < through < found[0].seq else 0
