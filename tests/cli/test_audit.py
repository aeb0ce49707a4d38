"""`interlock audit` on a real hub: what people and servers did is shown, found, exported and verified."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from .conftest import User
from .fake_hub import FakeHub
from .on_terminal import on_terminal


@pytest.fixture
def busy(user: User) -> User:
    """A hub where something has happened."""
    user.configure()
    user.start_hub()
    created = user.run("keys", "create", "ci")
    assert created.exit_code == 0, created.output + (user.root / "hub.out").read_text()
    assert "ci: allow demo" in on_terminal(user, "grants", "allow", "ci", "demo", "--because", "the nightly run")
    assert user.run("grants", "revoke", "ci", "demo").exit_code == 0
    assert user.run("keys", "revoke", "ci").exit_code == 0
    return user


def found(user: User, *arguments: str) -> list[dict[str, Any]]:
    result = user.run("audit", *arguments, "--json")
    assert result.exit_code == 0, result.output
    entries = json.loads(result.output)["entries"]
    assert isinstance(entries, list)
    return entries


def test_tail_and_search_show_what_was_granted_and_which_keys_were_made(busy: User) -> None:
    events = {entry["record"]["event"] for entry in found(busy, "tail", "-n", "100")}
    assert {"ACCESS_GRANTED", "ACCESS_REVOKED", "dev.interlock.key_created", "dev.interlock.key_revoked"} <= events
    assert "key_revoked" in busy.run("audit").output, "without a command, the newest entries are shown"
    (granted,) = found(busy, "search", "--event", "ACCESS_GRANTED")
    record = granted["record"]
    assert (record["actor_kind"], record["server"], record["reason"]) == ("person", "demo", "the nightly run")
    assert record["details"]["agent_id"] == "ci"
    assert len(record["trace"]) == 32
    shown = busy.run("audit", "search", "--event", "dev.interlock.key_created").output
    assert "key_created" in shown
    assert found(busy, "search", "--chain", "elsewhere") == []


def test_entries_of_several_hubs_name_theirs(user: User, hub: FakeHub) -> None:
    record = {"at": 0, "event": "SERVER_CONNECTED"}
    entries = [{"chain": chain, "seq": 3, "result": "RECORDED", "record": record} for chain in ("north", "south")]
    hub.answers["hub/audit.search"] = {"entries": entries}
    shown = user.run("audit", "search", "--calls").output.splitlines()
    assert [line.partition("--chain ")[2] for line in shown] == ["north", "south"]
    assert hub.params_of("hub/audit.search") == [{"calls": True, "most": 100}]
    hub.answers["hub/audit.show"] = {"entry": entries[1], "related": entries[1:]}
    assert "--chain" not in user.run("audit", "show", "3", "--chain", "south").output, "of one hub"
    assert hub.params_of("hub/audit.show") == [{"seq": 3, "chain": "south"}]


def test_a_search_that_stopped_says_how_to_continue(user: User, hub: FakeHub) -> None:
    hub.answers["hub/audit.search"] = {"entries": [], "searched_to": {"chain": "north", "seq": 7}}
    assert "`--before 7 --before-chain north`" in user.run("audit", "search", "--agent", "ann").output
    hub.answers["hub/audit.search"] = {"entries": []}
    again = user.run("audit", "search", "--agent", "ann", "--before", "7", "--before-chain", "north")
    assert (again.exit_code, again.output) == (0, "No entry matches.\n")
    assert hub.params_of("hub/audit.search")[1] == {"agent": "ann", "before": 7, "before_chain": "north", "most": 100}


def test_show_has_everything_of_one(busy: User) -> None:
    assert "key_revoked" in busy.run("audit").output, "without a command, the newest entries are shown"
    (granted,) = found(busy, "search", "--event", "ACCESS_GRANTED")
    shown = busy.run("audit", "show", str(granted["seq"])).output
    assert "the nightly run" in shown
    assert "server_grant" in shown
    at = datetime.fromtimestamp(granted["record"]["at"] / 1_000_000).astimezone()
    assert f"at: {at.isoformat(' ', 'milliseconds')}\n" in shown
    assert '"agent_id": "ci"' in shown, "details as JSON"
    assert "no entry 999999" in busy.run("audit", "show", "999999").output


def test_an_export_is_verified_without_a_hub_and_a_changed_one_is_found_out(busy: User, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert busy.run("audit", "export", str(file)).exit_code == 0
    assert busy.run("audit", "verify").exit_code == 0
    assert busy.run("down").exit_code == 0
    assert busy.run("audit", "verify", "--file", str(file)).exit_code == 0
    file.write_text(file.read_text().replace("the nightly run", "a good reason"))
    changed = busy.run("audit", "verify", "--file", str(file))
    assert (changed.exit_code, "altered" in changed.output) == (1, True)
    file.write_text("nonsense\n")
    assert busy.run("audit", "verify", "--file", str(file)).exit_code == 1


def test_show_has_the_arguments_of_a_call(busy: User) -> None:
    assert busy.run("call", "demo__convert", "value=1", "source=km", "target=m").exit_code == 0
    (called,) = found(busy, "search", "--event", "TOOL_EXECUTED")
    shown = busy.run("audit", "show", str(called["seq"])).output
    assert '"source": "km"' in shown
    assert "sha256 of the arguments" in shown


@pytest.mark.parametrize("lines", [1, 3])
def test_tail_prints_the_newest_entries_and_then_new_ones_alone(busy: User, lines: int) -> None:
    def newest() -> int:
        return int(found(busy, "tail", "-n", "1")[-1]["seq"])

    before = newest()
    with busy.process("audit", "tail", "-f", "--json", "-n", str(lines)) as following:
        try:
            assert following.stdout is not None
            first = [json.loads(following.stdout.readline())["seq"] for _ in range(lines)]
            # The server of the hub may have come up meanwhile, which is an entry, too.
            assert before <= first[-1] <= newest()
            assert first == list(range(first[-1] + 1 - lines, first[-1] + 1))
            assert busy.run("keys", "create", "later").exit_code == 0
            entries = []
            while "dev.interlock.key_created" not in [entry["record"]["event"] for entry in entries]:
                line = following.stdout.readline()
                assert line, "it ended"
                entries.append(json.loads(line))
            assert [entry["seq"] for entry in entries] == list(range(first[-1] + 1, first[-1] + 1 + len(entries)))
        finally:
            following.terminate()


def test_a_hub_whose_log_is_gone_says_so_in_a_sentence_when_it_stops_and_starts(user: User) -> None:
    user.configure()
    user.start_hub()
    with sqlite3.connect(user.home / "hub.db") as database:
        database.execute("DROP TABLE records")
    database.close()
    user.run("down")
    code, out, err = user.finished("up")
    stopped = (user.root / "hub.out").read_text()
    assert "could not write its last entries" in stopped
    assert "Traceback" not in stopped + out + err
    assert code == 1
    assert "interlock restore" in err
