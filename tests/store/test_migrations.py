"""Schema upgrades: a backup first, and each step whole or not at all, wherever the process is killed."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

import forking
from interlock.store import Store, StoreError
from interlock.store.connect import connect
from interlock.store.schema import bring_up, schema_number, steps
from interlock.store.sqlite import Sqlite, statements
from interlock.store.store import back_up_before

from .migrating import NEXT, NOW
from .things import THINGS, Thing

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_migration_that_is_killed_at_any_step_is_completed_by_the_next_start(
    where: str, tmp_path: Path
) -> None:
    store = await Store.open(where, [THINGS])
    async with store.transaction() as change:
        change.put(THINGS, Thing("a"))
    await store.close()
    backups = tmp_path / "backups"
    finished = False
    kills = 0
    while not finished:
        kills += 1
        command = forking.command(str(HERE / "migrating.py"), where, str(backups), str(kills))
        path = f"{HERE.parent}:{HERE.parents[1] / 'src'}"
        child = await asyncio.to_thread(
            subprocess.run, command, env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=120
        )
        finished = child.stdout.strip() == "done"
        assert finished or child.returncode == -9, child.stderr
        database = connect(where)
        number = schema_number(database)
        assert ("notes" in database.tables()) == (number == NEXT.number)
        if number == NEXT.number:
            assert database.execute("SELECT id FROM notes") == [("a",)]
            break
        database.close()
    assert kills >= 6
    assert bring_up(database, lambda _: None, (*steps(), NEXT)) == ()
    database.close()
    assert not [left for left in backups.iterdir() if left.name.startswith(".")]
    for backup in backups.iterdir():
        copy = Sqlite(backup)
        assert copy.problems() == []
        assert schema_number(copy) == NOW
        assert copy.execute("SELECT key FROM documents") == [("a",)]
        copy.close()


def test_a_new_database_needs_no_backup(where: str) -> None:
    database = connect(where)
    asked: list[int] = []
    assert bring_up(database, asked.append) == tuple(step.number for step in steps())
    assert bring_up(database, asked.append) == ()
    assert asked == []
    database.close()


def test_without_a_place_for_the_backup_a_shared_schema_is_not_changed(postgres: str) -> None:
    database = connect(postgres)
    bring_up(database, lambda _: None)
    with pytest.raises(StoreError, match="older"):
        bring_up(database, lambda number: back_up_before(database, postgres, number, None), (*steps(), NEXT))
    assert schema_number(database) == NOW
    database.close()


def test_a_statement_may_hold_a_semicolon_in_a_text_and_a_comment() -> None:
    script = "-- one; two\nINSERT INTO a VALUES (';');\n\nDELETE FROM b;"
    assert [statement.strip() for statement in statements(script)] == [
        "-- one; two\nINSERT INTO a VALUES (';');",
        "DELETE FROM b;",
    ]
    with pytest.raises(ValueError, match="not complete"):
        list(statements("DELETE FROM b"))
