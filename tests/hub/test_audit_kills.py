"""F1: the process that records is killed again and again, and is held to what it had promised."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import forking
from interlock.hub.audit.chain import record_of
from interlock.hub.audit.head import read_head
from interlock.hub.audit.record import GAP, INTENDED
from interlock.hub.audit.verify import verify
from interlock.store import records
from interlock.store.connect import connect

KILLS = ((2, True), (300, False), (2, True), (40, False), (170, True), (90, False))
"""After how many lines, and by itself or by us. The second line is the first promise."""
HERE = Path(__file__).parent


def run_and_kill(where: str, head: Path, mode: str, lines: int, by_itself: bool) -> list[str]:
    """The output of a recording process until it was killed: by itself at that line, or by the test later."""
    last = lines if by_itself else 1_000_000
    command = forking.command(str(HERE / "recording.py"), where, str(head), mode, str(last))
    env = {"PYTHONPATH": str(HERE.parent.parent / "src")}
    said: list[str] = []
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stdout:
            said.append(line)
            if len(said) == lines:
                child.kill()
        complaint = child.stderr.read()
    assert len(said) >= lines, complaint
    return [line.strip() for line in said if line.endswith("\n")]


@pytest.mark.slow
def test_strict_every_executed_call_has_its_intent_whenever_it_is_killed(where: str, tmp_path: Path) -> None:
    head = tmp_path / "audit.head"
    executed: set[int] = set()
    for lines, by_itself in KILLS:
        said = run_and_kill(where, head, "strict", lines, by_itself)
        executed |= {int(line.split()[1]) for line in said if line.startswith("executed")}
    database = connect(where, read_only=True)
    rows = {row.seq: record_of(row.body) for row in records.in_order(database, "node")}
    assert executed
    assert {seq for seq in executed if seq not in rows or rows[seq].event != INTENDED} == set()
    found = read_head(head)
    assert found is not None
    report = verify(database, {"node": found})
    assert report.sound, report.findings
    last_run = max(seq for seq, record in rows.items() if record.event.endswith("audit_opened"))
    ended = {record.intent for record in rows.values()}
    earlier = {seq for seq, record in rows.items() if record.event == INTENDED and seq < last_run}
    assert earlier <= ended, "after a restart every intent has an outcome, if only `unknown`"
    database.close()


@pytest.mark.slow
def test_batched_what_was_lost_is_bounded_and_recorded_to_the_last_entry(where: str, tmp_path: Path) -> None:
    head = tmp_path / "audit.head"
    issued = [0]
    for lines, by_itself in KILLS:
        said = run_and_kill(where, head, "batched", min(lines, 60), by_itself)
        lost, cut, _ = map(int, said[0].split()[1:])
        assert cut == 0
        assert lost < 5000
        issued.append(max([int(line.split()[1]) for line in said if line.startswith("issued")], default=issued[-1]))
    run_and_kill(where, head, "batched", 2, True)
    database = connect(where, read_only=True)
    present: set[int] = set()
    told: set[int] = set()
    for row in records.in_order(database, "node"):
        record = record_of(row.body)
        present.add(record.seq)
        if record.event == GAP:
            first, last = record.details["from"], record.details["to"]
            assert isinstance(first, int)
            assert isinstance(last, int)
            told |= set(range(first, last + 1))
    assert present | told >= set(range(1, max(issued) + 1)), "what is not there was recorded as lost"
    assert not present & told
    found = read_head(head)
    assert found is not None
    report = verify(database, {"node": found})
    assert report.sound, report.findings
    database.close()
