"""One budget of work is handed on to all texts, readings and expansions of a command."""

from __future__ import annotations

from itertools import product

import pytest

from cases import each_case
from interlock.judge.findings import Finding
from interlock.judge.readonly import judge_readonly_shell
from interlock.judge.shell import ShellRules, judge_shell
from interlock.judge.shell.changes import MAX_CHARS, changed
from processor_work import calls_of, steps_of, work_of

EVERYDAY = ShellRules(everyday=True)
MAX_CALLS = 600_000
"""Three tenths of a second or so."""
TURNS = "; ".join(f"n={number}" for number in range(60))


def in_shells(body: str) -> str:
    """A text that two shells run, each with all values of a variable."""
    return f'{TURNS}; s=\'{body}\'; bash -c "$s; echo $n"; bash -c "$s; echo $n x"'


def longest(change: str, times: int) -> str:
    return f"export x={'a' * MAX_CHARS}; " + in_shells("; ".join([f"y=${{x{change}}}"] * times))


FAMILIES = {
    "a star and a long tail": longest(f"//*{'a' * 90}b/c", 2),
    "a long head and a tail": longest(f"/%{'?' * 40}*{'a' * 50}b/c", 2),
    "many changes": longest("//a*b/c", 12),
    "many commands": in_shells("; ".join(["cp a b"] * 190)),
    "many assignments": in_shells("; ".join(f"v{number}={number}" for number in range(190))),
    "many words": in_shells("; ".join(["cp a b c d e f g h"] * 100)),
    "braces": in_shells("; ".join(["echo {a,b}{c,d}{e,f}{g,h}{i,j}{k,l}"] * 40)),
    "code": in_shells("; ".join(['python3 -c "print(1)"'] * 60)),
    "patterns": f"{TURNS}; cat " + " ".join(f"a{number}/*.e$n" for number in range(60)),
    "names that are read": "; ".join(f"read a{number}" for number in range(180)) + "; echo " + "*.e " * 800,
    "tails of wrappers": f"{TURNS}; {'npm exec ' * 30} ls $n",
    "tails of wrappers, once each": "; ".join([f"{'docker exec ' * 20}x"] * 30),
    "texts of wrappers": f"{TURNS}; {'ssh h ' * 4} ls $n",
    "long readings": f"{TURNS}; " + "; ".join([f"nice xargs {'a ' * 200} $n"] * 9),
    "a list that grows": "a=(a b c); " + "; ".join(["a+=(${a[@]})"] * 28),
    "a value that grows": f"x={'a' * 100}; " + "; ".join(["x+=$x"] * 60),
    "a long list": f"a=({'abc ' * 1500}); " + "; ".join(['cp "${a[@]}" x'] * 20),
    "folders above each other": "; ".join(["cd .."] * 200),
}
UNCLOSED = {
    "awk": "awk '" + '"\\' * 4_000 + "'",
    "text beside a letter that is not ASCII": "echo é " + '"\\' * 4_000,
    "single and double quotes": "echo é " + "\"'\\" * 2_600,
    "code": "node -e '" + '"\\' * 4_000 + "'",
    "an address that is none": "echo " + "a" * 8_000 + "%20",
}
"""Quotes that open texts which nothing closes, and letters before which none makes an address."""


@each_case("family", FAMILIES)
def test_a_command_of_any_family_is_questioned_after_bounded_work(family: str) -> None:
    command = FAMILIES[family]
    judge_shell("ls", EVERYDAY)
    found: list[Finding] = []
    assert calls_of(lambda: found.extend(judge_shell(command, EVERYDAY))) < MAX_CALLS
    assert {finding.rule for finding in found} & {"shell.too_many", "shell.nested"}
    assert calls_of(lambda: judge_readonly_shell(command)) < MAX_CALLS


@each_case("family", UNCLOSED)
def test_no_part_of_a_text_is_read_again_for_each_quote_or_letter_that_may_open_something(family: str) -> None:
    command = UNCLOSED[family]
    for rules in (EVERYDAY, ShellRules()):
        judge_shell(command, rules)
        assert work_of(lambda rules=rules: judge_shell(command, rules)) < 5_000_000


def test_patterns_of_a_simple_command_cost_of_its_budget() -> None:
    assert judge_shell("cat " + "* " * 100) == ()
    command = "cat " + "* " * 3_990
    assert [finding.rule for finding in judge_shell(command)] == ["shell.too_many"]
    assert calls_of(lambda: judge_shell(command)) < 2 * MAX_CALLS


@pytest.mark.parametrize(("values", "expansions", "depth"), list(product([1, 64], [1, 16], [0, 1, 3])))
def test_assignments_expansions_and_shells_within_each_other_share_the_budget(
    values: int, expansions: int, depth: int
) -> None:
    given = "; ".join(f"x={'a' * (2_000 // values)}{number}" for number in range(values))
    body = "; ".join(["echo ${x%%?a*a1}"] * expansions)
    for level in range(depth):
        given, body = f"{given}; s{level}='{body}'", f'bash -c "$s{level}; echo $x"'
    command = f"{given}; {body}"
    judge_shell(command, EVERYDAY)
    assert calls_of(lambda: judge_shell(command, EVERYDAY)) < MAX_CALLS


@each_case("change", [f"//*{'a' * 90}b/c", f"//{'a' * 90}*b/c", f"/%{'?' * 40}*{'a' * 50}b/c", f"##*{'a' * 90}b"])
def test_a_change_takes_steps_for_its_letters_and_those_of_the_value(change: str) -> None:
    source = f"${{x{change}}}"
    changed(source, "a")
    assert changed(source, "a" * MAX_CHARS) == ["a" * MAX_CHARS]
    assert steps_of(lambda: changed(source, "a" * MAX_CHARS)) < 80 * (MAX_CHARS + len(change))


def test_a_command_within_the_budget_is_judged_to_its_end() -> None:
    turns = " ".join(f"f{number}" for number in range(40))
    command = f'for f in {turns}; do cp $f a; mv $f b; bash -c "ls $f"; done; rm -rf ~'
    assert {finding.rule for finding in judge_shell(command, EVERYDAY)} == {"shell.recursive_delete"}
    assert judge_shell(command.removesuffix("; rm -rf ~"), EVERYDAY) == ()


def test_the_end_of_the_budget_is_reported_once_for_a_list_of_words_too() -> None:
    found = judge_shell(["bash", "-c", FAMILIES["patterns"]], EVERYDAY)
    assert [finding.rule for finding in found] == ["shell.too_many"]


def test_loops_of_a_build_within_each_other_are_followed_to_their_end() -> None:
    build = 'docker build --build-arg ENV="$e" --label service="$s" -t reg.example.com/"$s":"$e" services/"$s" --step'
    steps = "; ".join(f"{build}{number}" for number in range(8))
    command = f"for e in dev staging production; do for s in a b c d e f g h; do {steps}; done; done"
    assert judge_shell(command, EVERYDAY) == ()
