"""Upgrades a database to the schema of this version: first a backup, then each missing step in its own transaction.

An interrupted step leaves no trace, and the next start repeats it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
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


class SchemaStep(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str


class SchemaUpgrade(msgspec.Struct, frozen=True):
    """An upgrade of a database, and the backup that was written before it."""

    before: int
    after: int
    backup: str


def steps() -> tuple[SchemaStep, ...]:
    """Every step, in order and without a gap."""
    named = ((entry, _FILE.match(entry.name)) for entry in Path(__file__).with_name("migrations").iterdir())
    found = [SchemaStep(int(name[1]), name[2], entry.read_text()) for entry, name in named if name is not None]
    found.sort(key=lambda step: step.number)
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError("the schema steps are not numbered without gaps")
    return tuple(found)


def schema_number(database: Database) -> int:
    """The last step applied to this database; 0 for a new one."""
    if "schema_steps" not in database.tables():
        return 0
    number = database.execute("SELECT max(number) FROM schema_steps")[0][0]
    return number if isinstance(number, int) else 0


def check_schema(database: Database, wanted: tuple[SchemaStep, ...] | None = None) -> int:
    """The number of a database's schema. Raises StoreTooNew for one that is ahead of this version."""
    known = steps() if wanted is None else wanted
    current = schema_number(database)
    if current > len(known):
        raise StoreTooNew(f"the database has schema {current}; this version knows {len(known)}")
    return current


def bring_up(
    database: Database, back_up: Callable[[int], None], wanted: tuple[SchemaStep, ...] | None = None
) -> tuple[int, ...]:
    """Apply the missing steps and return their numbers. Calls `back_up` with the old number before the first.

    Raises StoreTooNew for a database that is ahead of this version, and leaves it unchanged.
    """
    known = steps() if wanted is None else wanted
    current = check_schema(database, known)
    if 0 < current < len(known):
        back_up(current)
    return tuple(step.number for step in known[current:] if _apply(database, step))


def _apply(database: Database, step: SchemaStep) -> bool:
    """Apply one step, unless another node did meanwhile."""
    with transaction(database, exclusive=True):
        database.run_script(_STEPS_TABLE)
        if database.execute("SELECT 1 FROM schema_steps WHERE number = ?", (step.number,)):
            return False
        database.run_script(step.sql)
        now = int(time.time() * 1000)
        database.execute("INSERT INTO schema_steps VALUES (?, ?, ?)", (step.number, step.name, now))
    return True
