"""Brings a database to the schema of this version: a backup first, then each missing step in a transaction of its own.

A step that was killed half way never happened, and is done again at the next start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Final

import msgspec

from .database import Database, transaction
from .errors import StoreTooNew

_STEPS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS schema_steps (
    number BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    done BIGINT NOT NULL
);
"""
_FILE: Final = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")


class Step(msgspec.Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    sql: str


def steps() -> tuple[Step, ...]:
    """Every step there is, in order and without a gap."""
    named = ((entry, _FILE.match(entry.name)) for entry in files("interlock.store.migrations").iterdir())
    found = [Step(int(name[1]), name[2], entry.read_text()) for entry, name in named if name is not None]
    found.sort(key=lambda step: step.number)
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError("the steps of the schema are not numbered one by one")
    return tuple(found)


def schema_number(database: Database) -> int:
    """The last step this database has taken; 0 for a new one."""
    if "schema_steps" not in database.tables():
        return 0
    number = database.execute("SELECT max(number) FROM schema_steps")[0][0]
    return number if isinstance(number, int) else 0


def bring_up(
    database: Database, back_up: Callable[[int], None], wanted: tuple[Step, ...] | None = None
) -> tuple[int, ...]:
    """Take the steps that are missing; gives their numbers. `back_up` is called with the old number before the first.

    Raises StoreTooNew for a database that is ahead of this version, and leaves it as it is.
    """
    known = steps() if wanted is None else wanted
    had = schema_number(database)
    if had > len(known):
        raise StoreTooNew(f"the database has schema {had}; this version knows {len(known)}")
    if 0 < had < len(known):
        back_up(had)
    taken = [step.number for step in known[had:] if _take(database, step)]
    return tuple(taken)


def _take(database: Database, step: Step) -> bool:
    """Take one step, unless another node did meanwhile."""
    with transaction(database, alone=True):
        database.run_script(_STEPS_TABLE)
        if database.execute("SELECT 1 FROM schema_steps WHERE number = ?", (step.number,)):
            return False
        database.run_script(step.sql)
        now = int(time.time() * 1000)
        database.execute("INSERT INTO schema_steps VALUES (?, ?, ?)", (step.number, step.name, now))
    return True
