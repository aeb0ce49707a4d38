"""What can go wrong with the store. Each error says how to fix it; nothing is left half written."""

from __future__ import annotations


class StoreError(Exception):
    """The store did not do what was asked. Nothing of it was kept, unless the message says that this is not known."""

    hint = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint


class Conflict(StoreError):
    """Somebody else changed it first. Read again and decide again."""

    hint = "read it again and repeat"


class StoreFull(StoreError):
    """No room left on the disk, or a quota is used up."""

    hint = "free some space on that disk; the hub goes on by itself"


class StoreReadOnly(StoreError):
    """The database cannot be written."""

    hint = "make the file and its folder writable for the user who runs the hub"


class StoreBusy(StoreError):
    """Another process held the database for too long, or too much is waiting to be written."""

    hint = "see which other program has the database open; repeat later"


class StoreDamaged(StoreError):
    """What is stored is not what was written."""

    hint = "restore the last backup with `interlock restore`"


class NotRecorded(StoreError):
    """What was to be changed could not be recorded, and so was not changed."""

    hint = "see that the audit record can be written; the hub goes on by itself"


class StoreTooNew(StoreError):
    """The database was written by a later version."""

    hint = "run the version of Interlock that wrote it, or a newer one"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or fails to read and write."""

    hint = "see that the database server runs and that its address is right"
