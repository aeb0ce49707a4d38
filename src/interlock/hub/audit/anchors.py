"""Where a chain begins that was cut at the front: behind the record that its newest anchor names."""

from __future__ import annotations

import msgspec

from interlock.hub.audit.chain import record_of
from interlock.hub.audit.record import PRUNED
from interlock.store import records as rows
from interlock.store.database import Database
from interlock.store.records import Search


def anchor_of(database: Database, chain: str) -> int:
    """Up to where a chain was cut off; 0 for one that is whole."""
    found = rows.newest_first(database, Search(event=PRUNED, chain=chain), 1)
    if not found:
        return 0
    try:
        through = record_of(found[0].body).details.get("through")
    except msgspec.MsgspecError:
        # Damage is for `verify` to name, from the beginning; so is an anchor that speaks of what comes after it.
        return 0
    return through if isinstance(through, int) and 0 < through < found[0].seq else 0
