"""The table of programs: every row can be read, and says what is wrong and what to write instead."""

from __future__ import annotations

from interlock.judge.shell.programs import known, verdicts
from interlock.judge.tables import read_table

PACKAGE = "interlock.judge.shell"
FIELDS = (
    "is runs wraps wrap-values wrap-texts wrap-pairs passes unpacks saves values harmless refuse else reads read-form "
    "read-writes read-needs read-most read-values read-verb write everyday language worst pass-texts "
    "free-values"
)


def test_every_row_can_be_read_and_names_a_known_verdict() -> None:
    rows = read_table(PACKAGE, "programs.txt")
    assert len(rows) > 400
    for row in rows:
        assert {key for key, _ in row.fields} <= set(FIELDS.split()), row.head
        assert [key for key, _ in row.fields if key in ("refuse", "else")][:1] != ["else"], row.head
        for name in row.head:
            program = known(name)
            assert {refusal.verdict_name for refusal in program.refusals} <= verdicts().keys(), name
            assert program.kinds or len(row.fields) > 0


def test_a_program_has_one_row() -> None:
    names = [name for row in read_table(PACKAGE, "programs.txt") for name in row.head]
    assert len(names) == len(set(names))


def test_every_verdict_says_what_is_wrong_and_what_to_do_instead() -> None:
    for rule, message, hint in verdicts().values():
        assert rule.startswith("shell.")
        assert message
        assert hint
