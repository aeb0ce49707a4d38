"""A process that is killed in the middle of a schema upgrade. It says `done` if it was not.

Arguments: where the database is, where backups go, and under which operation on the database the process is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import cast

from interlock.store.connect import connect
from interlock.store.database import Database
from interlock.store.schema import SchemaStep, bring_up, steps
from interlock.store.store import back_up_before

NOW = len(steps())
NEXT = SchemaStep(
    NOW + 1,
    "notes",
    """
    CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL);
    INSERT INTO notes (id, body) SELECT key, body FROM documents WHERE collection = 'things';
    DROP INDEX documents_revision;
    CREATE INDEX documents_revision ON documents (revision, collection);
    """,
)


class KillingDatabase:
    """A database under whose n-th operation the process is killed."""

    def __init__(self, database: Database, step: int) -> None:
        self._database = database
        self._left = step

    def __getattr__(self, name: str) -> object:
        found = getattr(self._database, name)
        if callable(found):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return found


def main(where: str, backups: Path, step: int) -> None:
    database = connect(where)
    killing = cast(Database, KillingDatabase(database, step))
    bring_up(killing, lambda number: back_up_before(database, where, number, backups), (*steps(), NEXT))
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
