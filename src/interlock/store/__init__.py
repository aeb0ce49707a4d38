"""What survives: documents with versions, and the rows of the audit record. SQLite by default, PostgreSQL by URL.

One schema, one interface; whatever was acknowledged was committed.
"""

from __future__ import annotations

from .collection import Collection, Document
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
)
from .mirror import Mirror
from .store import Store, Transaction

__all__ = [
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
]
