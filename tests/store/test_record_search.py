"""Searches of the audit log: by any columns, from any page on, within one index."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.store import records
from interlock.store.connect import connect
from interlock.store.database import Database, Row, Value, script_for, transaction
from interlock.store.records import RecordRow, Search
from interlock.store.schema import bring_up
from interlock.store.sqlite import Sqlite


def row(seq: int, **columns: str) -> RecordRow:
    given = {"event": "E", "actor": f"agent{seq % 3}", "server": "s", "name": "t", "trace": f"{seq:032x}", **columns}
    return RecordRow("n", seq, 1_000 + seq // 2, **given, result="SUCCESS", body="{}", hash=b"h")


def opened(where: str) -> Database:
    database = connect(where)
    bring_up(database, lambda _: None)
    return database


def test_rows_with_the_longest_columns_are_kept_and_found(where: str) -> None:
    database, long = opened(where), "\U0001f600" * 300
    with transaction(database):
        records.append(database, [row(n, event=long, actor=long, server=long, name=long, trace=long) for n in (1, 2)])
        records.append(database, [row(n) for n in range(3, 9)])
    found = records.newest_first(database, Search(actor=long, name=long, trace=long), 10)
    assert [one.seq for one in found] == [2, 1]
    assert [one.seq for one in records.newest_first(database, Search(actor="agent0"), 10)] == [6, 3]
    page = records.newest_first(database, Search(), 3)
    assert [one.seq for one in page] == [8, 7, 6]
    assert [one.seq for one in records.newest_first(database, Search(), 3, page[-1])] == [5, 4, 3]
    database.close()


def test_a_search_looks_at_no_more_rows_than_it_is_told(where: str) -> None:
    database = opened(where)
    with transaction(database):
        records.append(database, [row(n, actor="rare" if n == 2 else "often") for n in range(1, 12)])
    before, looked_at = None, []
    while (last := records.last_of_next(database, 4, before)) is not None:
        looked_at.append([one.seq for one in records.newest_first(database, Search(actor="often"), 9, before, last)])
        assert records.newest_first(database, Search(actor="rare"), 9, before, last) == []
        before = last
    assert looked_at == [[11, 10, 9, 8], [7, 6, 5, 4]]
    assert [one.seq for one in records.newest_first(database, Search(actor="rare"), 9, before)] == [2]
    assert records.last_of_next(database, 3, before) is None, "no row follows the last three"
    database.close()


def test_a_trace_is_looked_for_on_either_side_of_a_row_alone(where: str) -> None:
    database = opened(where)
    with transaction(database):
        records.append(database, [row(n, trace="t" if n % 5 == 0 else "") for n in range(1, 61)])
    middle = records.get(database, "n", 30)
    assert middle is not None
    found, complete = records.around(database, Search(trace="t"), middle, 10)
    assert ([one.seq for one in found], complete) == ([40, 35, 30, 25, 20], False)
    found, complete = records.around(database, Search(trace="t"), middle, 30)
    assert ([one.seq for one in found], complete) == ([*range(60, 0, -5)], True)
    database.close()


class ExplainingSqlite(Sqlite):
    """Says how SQLite reads each search."""

    plans: list[str]

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        if sql.startswith(("SELECT chain, seq", "SELECT at, chain")):
            self.plans += [str(step[3]) for step in super().execute(f"EXPLAIN QUERY PLAN {sql}", values)]
        return super().execute(sql, values)


@pytest.mark.parametrize(
    "search",
    [
        Search(),
        Search(actor="a"),
        Search(trace="t"),
        Search(server="s", name="n", result="FAILURE"),
        Search(event="e", chain="n", since=5, until=9),
    ],
)
def test_sqlite_compares_a_search_within_the_index_and_sorts_nothing(tmp_path: Path, search: Search) -> None:
    database = ExplainingSqlite(tmp_path / "store.db")
    database.plans = []
    bring_up(database, lambda _: None)
    for before in (None, row(1)):
        records.newest_first(database, search, 50, before)
        records.newest_first(database, search, 50, before, row(1))
        records.last_of_next(database, 50, before)
    assert len(database.plans) == 6
    for plan in database.plans:
        assert "records_search" in plan, plan
    assert all("COVERING" in plan for plan in database.plans[2::3])
    database.close()


def test_a_script_has_sections_for_one_database() -> None:
    script = "A;\n-- only: sqlite\nB;\n-- only: postgres\nC;\n"
    assert "C;" not in script_for("sqlite", script)
    assert "B;" not in script_for("postgres", script)
    assert all("A;" in script_for(name, script) for name in ("sqlite", "postgres"))
    assert sqlite3.complete_statement(script_for("sqlite", script))
