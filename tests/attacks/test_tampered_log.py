"""T34: an altered audit log is reported by every command that reads it, whatever was written into it."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import User, user  # noqa: F401 - a fixture
from interlock.config.home import info_path
from interlock.hub.audit.search import export, search
from interlock.hub.audit.verify import verify, verify_export
from interlock.store import Store
from interlock.store.connect import connect
from interlock.store.records import RecordRow, Search, append

DEEP = '{"seq":3,"at":1,"event":"x","details":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}"
HARM: dict[str, tuple[str, Any]] = {
    "a body of bytes": ("body", b'{"seq":3}'),
    "a body that is no UTF-8": ("CAST(body AS TEXT)", b"\xff\xfe"),
    "a body that is a number": ("body", 7),
    "a body that is no JSON": ("body", "["),
    "a body that is too deep": ("body", DEEP),
    "a body with a huge number": ("body", '{"seq":3,"at":' + "9" * 6000 + ',"event":"x"}'),
    "a body of several lines": ("body", '{"seq":3,\n"at":1,"event":"x"}'),
    "an event of bytes": ("event", b"\xff"),
    "an actor that is no UTF-8": ("CAST(actor AS TEXT)", b"\xc3("),
    "a time of text": ("at", "yesterday"),
    "a number of text": ("seq", "third"),
    "a number of bytes": ("seq", b"\x03"),
    "a number between two": ("seq", 3.5),
    "a hash of text": ("hash", "abc"),
    "a chain of bytes": ("chain", b"\xffhub"),
    "a chain of another name": ("chain", "other"),
}


def harm(path: Path, column: str, value: Any) -> None:
    with sqlite3.connect(path) as database:
        if column.startswith("CAST"):
            name = column.removeprefix("CAST(").partition(" ")[0]
            database.execute(f"UPDATE records SET {name} = CAST(? AS TEXT) WHERE seq = 3", (value,))
        else:
            database.execute(f"UPDATE records SET {column} = ? WHERE seq = 3", (value,))
    database.close()


@pytest.fixture
def used(user: User) -> User:  # noqa: F811
    """A user whose hub has recorded something and runs no more."""
    user.configure()
    user.start_hub()
    for name in ("one", "two", "three"):
        assert user.run("keys", "create", name).exit_code == 0
    assert user.run("down").exit_code == 0
    return user


@pytest.fixture
def running(used: User) -> Iterator[User]:
    used.start_hub()
    yield used
    used.run("down")


def test_t34_an_intact_log_is_verified_without_a_hub(used: User) -> None:
    assert not info_path(used.home).exists()
    result = used.run("audit", "verify", "--json")
    assert (result.exit_code, json.loads(result.output)["sound"]) == (0, True)
    assert "No stored entry was changed" in used.run("audit", "verify").output


def test_t34_every_command_reports_every_harm_and_goes_on(running: User, tmp_path: Path) -> None:
    file = running.home / "hub.db"
    with sqlite3.connect(file) as database:
        before = database.execute("SELECT * FROM records WHERE seq = 3").fetchone()
    database.close()
    for number, (name, (column, value)) in enumerate(HARM.items()):
        harm(file, column, value)
        verified = running.run("audit", "verify", "--json")
        assert verified.exit_code == 1, name
        assert "sound" in verified.output, (name, verified.output)
        shown = running.run("audit", "tail", "-n", "1000", "--json")
        assert shown.exit_code == 0, (name, shown.output)
        assert running.run("audit", "tail", "-n", "1000").exit_code == 0, name
        exported = tmp_path / f"{number}.jsonl"
        assert running.run("audit", "export", str(exported)).exit_code == 0, name
        assert running.run("audit", "verify", "--file", str(exported)).exit_code == 1, name
        with sqlite3.connect(file) as database:
            database.execute("DELETE FROM records WHERE seq = 3 OR typeof(seq) <> 'integer' OR hash = ?", before[-1:])
            database.execute(f"INSERT INTO records VALUES ({', '.join('?' * len(before))})", before)
        database.close()
        assert running.run("audit", "verify").exit_code == 0, name


def test_t34_a_hub_starts_and_records_on_every_harm(used: User) -> None:
    for column, value in HARM.values():
        harm(used.home / "hub.db", column, value)
    used.start_hub()
    try:
        assert used.run("keys", "create", "four").exit_code == 0
        assert used.run("audit", "verify").exit_code == 1
    finally:
        used.run("down")


def test_t34_a_hub_that_finds_its_log_cut_says_so(used: User) -> None:
    with sqlite3.connect(used.home / "hub.db") as database:
        database.execute("DELETE FROM records WHERE seq > (SELECT max(seq) - 2 FROM records)")
    database.close()
    checked = used.run("doctor")
    assert (checked.exit_code, "cut off the end" in checked.output) == (1, True)
    status, said, _ = used.finished("up", "-d")
    try:
        assert (status, "2 committed audit log entries were gone" in said) == (0, True)
        assert "2 committed audit log entries were gone" in used.run("status").output
        checked = used.run("doctor")
        assert (checked.exit_code, "2 committed audit log entries" in checked.output) == (1, True)
        found = json.loads(used.run("audit", "search", "--event", "dev.interlock.audit_gap", "--json").output)
        assert [entry["record"]["details"]["cut"] for entry in found["entries"]] == [2]
    finally:
        used.run("down")


def test_t34_a_damaged_head_file_is_a_finding(used: User) -> None:
    (used.home / "audit.head").write_bytes(b"nonsense")
    result = used.run("audit", "verify", "--json")
    assert (result.exit_code, "head file" in result.output) == (1, True)


@pytest.fixture
def ascii_database(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database that stores any bytes as text."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        yield postgres_server.replace("/postgres?", f"/{name}?")
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.mark.anyio
@pytest.mark.parametrize("column", ["body", "event", "actor", "chain", "name"])
async def test_t34_bytes_that_are_no_text_in_postgresql_are_reported(ascii_database: str, column: str) -> None:
    await (await Store.open(ascii_database)).close()
    database = connect(ascii_database)
    bodies = {seq: json.dumps({"seq": seq, "at": seq, "event": "e", "actor": "ä"}) for seq in range(1, 4)}
    database.begin()
    append(
        database,
        [RecordRow("hub", seq, seq, "e", "ä", "", "", "", "RECORDED", body, b"h") for seq, body in bodies.items()],
    )
    database.execute(f"UPDATE records SET {column} = E'\\xff\\xfe' WHERE seq = 2")
    database.commit()
    assert [entry.record.actor for entry in search(database, Search(), 10) if entry.seq == 3] == ["ä"]
    found = verify(database, {}).findings
    assert any(finding.seq in (0, 2) and finding.problem in ("altered", "misplaced") for finding in found)
    assert len(search(database, Search(), 10)) == 3
    assert not verify_export(export(database), {}).sound
    database.close()
