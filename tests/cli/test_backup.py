"""`interlock backup` and `restore` on real hubs and both databases: while one runs, and only while none does."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from interlock.cli.control.hub_link import HubLink

from .conftest import User


def configure(user: User, where: str) -> None:
    user.configure(f"store = {json.dumps(where)}\n")


def up(user: User) -> None:
    user.start_hub()


def ask(user: User, method: str, **params: object) -> dict[str, object]:
    with HubLink.open(user.home) as link:
        return link.ask(method, params)


def restored(user: User, file: Path) -> tuple[int, dict[str, object]]:
    code, out, err = user.finished("restore", str(file), "--yes", "--json")
    assert out, err
    return code, json.loads(out)


def test_a_backup_is_made_while_the_hub_runs_and_put_back_only_when_it_does_not(
    user: User, where: str, tmp_path: Path
) -> None:
    configure(user, where)
    up(user)
    file = tmp_path / "monday.backup"
    kept = str(ask(user, "hub/keys.create", agent="kept")["key"])
    revoked = str(ask(user, "hub/keys.create", agent="revoked")["key"])
    assert user.run("backup", str(file)).exit_code == 0
    ask(user, "hub/keys.revoke", agent="revoked")
    ask(user, "hub/keys.create", agent="later")
    refused = user.run("restore", str(file), "--yes")
    assert (refused.exit_code, "interlock down" in refused.output) == (5, True)
    assert user.run("down").exit_code == 0
    code, told = restored(user, file)
    assert (code, told["sound"], told["keys_back"], told["missing"]) == (0, True, 1, 0)
    assert Path(str(told["saved"])).exists()
    up(user)
    keys = ask(user, "hub/keys.list")["keys"]
    assert isinstance(keys, list)
    assert {key["principal"] for key in keys} == {"kept", "revoked"}
    assert ask(user, "hub/audit.verify")["sound"] is True
    entries = ask(user, "hub/audit.search", event="dev.interlock.audit_restored")["entries"]
    assert isinstance(entries, list)
    assert [entry["record"]["actor_kind"] for entry in entries] == ["person"]
    later = ask(user, "hub/audit.search", event="dev.interlock.key_revoked")["entries"]
    assert later, "records that came after the backup are not taken back"
    assert kept
    assert revoked


def test_into_an_empty_store_and_what_is_missing_is_told_and_recorded(user: User, tmp_path: Path) -> None:
    where = str(user.home / "hub.db")
    configure(user, where)
    up(user)
    file = tmp_path / "early.backup"
    assert user.run("backup", str(file)).exit_code == 0
    for number in range(5):
        ask(user, "hub/keys.create", agent=f"later-{number}")
    assert user.run("down").exit_code == 0
    for lost in user.home.glob("hub.db*"):
        lost.unlink()
    code, told = restored(user, file)
    assert (code, told["sound"], told["saved"]) == (0, True, "")
    assert isinstance(told["missing"], int)
    assert told["missing"] >= 5
    up(user)
    report = ask(user, "hub/audit.verify")
    assert report["sound"] is True
    findings = report["findings"]
    assert isinstance(findings, list)
    assert [finding["problem"] for finding in findings] == ["restored"]


def test_without_a_hub_a_backup_is_made_all_the_same(user: User, tmp_path: Path) -> None:
    configure(user, str(user.home / "hub.db"))
    for command in (("backup", str(tmp_path / "none.backup")), ("audit", "verify")):
        early = user.run(*command)
        assert (early.exit_code, "there is no database yet" in early.stderr) == (1, True)
        assert "start the hub once with `interlock up`" in early.stderr
    up(user)
    assert user.run("down").exit_code == 0
    file = tmp_path / "cold.backup"
    made = user.run("backup", str(file), "--json")
    assert json.loads(made.output)["running"] is False
    assert file.stat().st_mode & 0o777 == 0o600
    assert user.run("backup", str(file)).exit_code == 2, "it replaces no file"
    assert user.run("backup", str(tmp_path / "none" / "x.backup")).exit_code == 2
    assert not (tmp_path / "none").exists()
    assert user.run("backup", str(file), "--force").exit_code == 0
    assert sqlite3.connect(file).execute("SELECT count(*) FROM records").fetchone()[0] > 0


@pytest.mark.parametrize("what", ["garbage", "other"])
def test_a_file_that_is_no_backup_changes_nothing(user: User, tmp_path: Path, what: str) -> None:
    where = user.home / "hub.db"
    configure(user, str(where))
    up(user)
    ask(user, "hub/keys.create", agent="kept")
    assert user.run("down").exit_code == 0
    file = tmp_path / "file"
    if what == "garbage":
        file.write_bytes(b"not a database" * 1000)
    else:
        sqlite3.connect(file).execute("CREATE TABLE things (name TEXT)")
    before = sqlite3.connect(where).execute("SELECT count(*), max(seq) FROM records").fetchone()
    failed = user.run("restore", str(file), "--yes")
    assert failed.exit_code == 1
    assert "→" in failed.output
    assert sqlite3.connect(where).execute("SELECT count(*), max(seq) FROM records").fetchone() == before


def test_nobody_is_asked_where_there_is_no_terminal(user: User, tmp_path: Path) -> None:
    configure(user, str(user.home / "hub.db"))
    file = tmp_path / "file"
    file.write_bytes(b"")
    refused = user.run("restore", str(file))
    assert (refused.exit_code, "--yes" in refused.output) == (5, True)
