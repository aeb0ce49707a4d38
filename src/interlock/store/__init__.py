"""Persistent storage: versioned documents and the rows of the audit log, in SQLite or PostgreSQL.

Both databases have one schema and one interface. An acknowledged change is committed.
"""

from __future__ import annotations

from .collection import Collection, Document
from .connect import check_store, unreadable_entries
from .errors import (
    Conflict,
    NotRecorded,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    WrongChecksum,
)
from .mirror import Mirror
from .store import TAKEN, Store, Transaction

__all__ = [
    "TAKEN",
    "Collection",
    "Conflict",
    "Document",
    "Mirror",
    "NotRecorded",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnavailable",
    "Transaction",
    "WrongChecksum",
    "check_store",
    "unreadable_entries",
]
