"""How the recorder gathers and writes entries, as one table of transitions.

Three rules hold here. One batch at most is at the database. A batch that failed is sent again, unchanged, before any
other. While a batch has failed and is not yet committed, the recorder lets no new call through.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class RecorderState(enum.Enum):
    """The six states."""

    IDLE = "idle"
    """Every entry is committed."""
    GATHERING = "gathering"
    """Entries wait for others to share their commit; a timer ends the wait."""
    DUE = "due"
    """The batch leaves at the next turn of the loop."""
    WRITING = "writing"
    """A batch is at the database."""
    FAILED = "failed"
    """The batch may or may not have been written; a timer sends it again."""
    RETRYING = "retrying"
    """The batch that failed is at the database again."""


class RecorderEvent(enum.Enum):
    """The events of the recorder."""

    WAIT = "wait"
    """An entry came, or all entries in the queue may still be joined by their outcomes."""
    HURRY = "hurry"
    """Many entries wait, or a call waits for the commit of its intent."""
    SEND = "send"
    """A batch goes to the database."""
    COMMIT = "commit"
    """The database has committed the batch."""
    FAIL = "fail"
    """The database has not, or the connection broke before it said so."""


TRANSITIONS: Final[Mapping[RecorderState, Mapping[RecorderEvent, RecorderState]]] = {
    RecorderState.IDLE: {
        RecorderEvent.WAIT: RecorderState.GATHERING,
        RecorderEvent.HURRY: RecorderState.DUE,
        RecorderEvent.SEND: RecorderState.WRITING,
    },
    RecorderState.GATHERING: {
        RecorderEvent.WAIT: RecorderState.GATHERING,
        RecorderEvent.HURRY: RecorderState.DUE,
        RecorderEvent.SEND: RecorderState.WRITING,
    },
    RecorderState.DUE: {
        RecorderEvent.WAIT: RecorderState.GATHERING,
        RecorderEvent.SEND: RecorderState.WRITING,
    },
    RecorderState.WRITING: {
        RecorderEvent.COMMIT: RecorderState.IDLE,
        RecorderEvent.FAIL: RecorderState.FAILED,
    },
    RecorderState.FAILED: {
        RecorderEvent.SEND: RecorderState.RETRYING,
    },
    RecorderState.RETRYING: {
        RecorderEvent.COMMIT: RecorderState.IDLE,
        RecorderEvent.FAIL: RecorderState.FAILED,
    },
}
