"""The errors of the store. Each has a hint that says how to fix it. A failed operation leaves nothing half written."""

from __future__ import annotations

import errno
import os


class StoreError(Exception):
    """The operation failed and changed nothing, unless the message says that this is not known."""

    hint = ""

    def __init__(self, message: str, hint: str = "", *, operator_text: str = "") -> None:
        super().__init__(message)
        self.message = message
        """The message for the caller, which is also the text of the exception."""
        self.operator_text = operator_text
        """Text for operators alone, such as the place of the database or the text of its driver."""
        if hint:
            self.hint = hint

    @property
    def for_operators(self) -> str:
        """The message with the text for operators."""
        return f"{self.message}: {self.operator_text}" if self.operator_text else self.message


class Conflict(StoreError):
    """Another transaction changed the document first."""

    hint = "read it again and repeat"


class StoreFull(StoreError):
    """The disk is full, or a quota is used up."""

    hint = "free some space on that disk; the hub then continues by itself"


class StoreReadOnly(StoreError):
    """The database cannot be written."""

    hint = "make the file and its folder writable for the user who runs the hub"


class StoreBusy(StoreError):
    """Another process held the database for too long, or too much is waiting to be written."""

    hint = "check which other program has the database open, and try again later"


class StoreDamaged(StoreError):
    """The stored data differs from the data that was written."""

    hint = "restore the last backup with `interlock restore`"


class WrongChecksum(StoreDamaged):
    """A stored document does not match its checksum. Any part of its row may be wrong, its key too."""

    def __init__(self, collection: str, key: str) -> None:
        super().__init__(f"an entry of {collection} does not match its checksum", operator_text=repr(key))
        self.collection = collection
        self.key = key


class NotRecorded(StoreError):
    """The audit log could not be written, so the change was not made."""

    hint = "check that the audit log can be written; the hub then continues by itself"


class StoreTooNew(StoreError):
    """A later version of Interlock wrote the database."""

    hint = "run the version of Interlock that wrote it, or a newer one"


class StoreUnavailable(StoreError):
    """The database cannot be reached, or it fails to read and write."""

    hint = "check that the database server runs and that its address is right"


def no_descriptor_left() -> StoreUnavailable | None:
    """The error of a process that can open no further file. Databases report it as a file that cannot be opened."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as cause:
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            hint = "raise the limit (`ulimit -n`), or close connections and servers; the hub then continues by itself"
            return StoreUnavailable(f"no file descriptor is left: {cause.strerror}", hint)
    return None
