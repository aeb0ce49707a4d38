"""Here-documents end where a shell ends them, and cost no more than their length."""

from __future__ import annotations

from itertools import product

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell
from processor_work import work_of

EVERYDAY = ShellRules(everyday=True)
OPENINGS = ("'A'", '"A"', "A", "\\A")
NOT_THE_END = ["\tA", "  A", "A ", "A\r", "A;true", "A&&true", "A #"]
MORE_THAN_A_TEXT = [
    *("cat <<<'A'", "cat <<Q\n<<'A'\nQ", ") <<'A'", "if <<'A'", "cat <<'A' <<Q", "cat <<'A'\nAx", "cat <<'A' |"),
    "cat <<'A'\n\\\nA\n<<'B'\nA",
]


@each_case("opening, line", product(OPENINGS, NOT_THE_END))
def test_a_line_that_only_begins_with_the_delimiter_ends_no_document(opening: str, line: str) -> None:
    assert judge_shell(f"cat <<{opening}\n{line}\necho '\nA\nsudo reboot\n'", EVERYDAY)


@each_case("opening, before", product(OPENINGS, ["\\", "x\n\\\\\\", "\n\\"]))
def test_a_backslash_before_the_delimiter_hides_no_command(opening: str, before: str) -> None:
    assert judge_shell(f"cat <<{opening}\n{before}\nA\nsudo reboot\nA", EVERYDAY)


def test_a_document_with_tabs_before_its_end_is_read() -> None:
    assert judge_shell("cat <<-'A'\n\ttext\n\tA\nls", EVERYDAY) == ()
    assert judge_shell("cat <<-A\n\t\tA\nls", EVERYDAY) == ()
    assert judge_shell("cat <<-A\n  A\necho '\nA\nsudo reboot\n'", EVERYDAY)
    assert judge_shell("git commit -m \"$(cat <<'EOF'\nText\n\n  More\nEOF\n)\"", EVERYDAY) == ()


@each_case("before, piece", product(MORE_THAN_A_TEXT, ["a;", "<<'E'\nE\n", "${a", "<"]))
def test_t38_a_text_that_only_seems_to_be_a_document_costs_no_more_than_its_length(before: str, piece: str) -> None:
    text = f"{before}\n{piece * (7_900 // len(piece))}\nA\nB\n"
    assert work_of(lambda: judge_shell(text, EVERYDAY)) < 5_000_000
