"""No input makes a judge raise, hesitate or change its mind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cases import each_case
from example_counts import example_count
from interlock.judge.code import CodeRules, judge_code
from interlock.judge.findings import Finding
from interlock.judge.readonly import judge_readonly_shell
from interlock.judge.shell import ShellRules, judge_shell
from interlock.judge.shell.flags import uses_flag
from interlock.judge.shell.walk import MAX_NESTED_LENGTH
from interlock.judge.shell.words import expanded
from interlock.judge.sql import judge_readonly_sql
from processor_work import is_little_work, speed, work_of

JUDGES: list[Callable[[str], tuple[Finding, ...]]] = [
    judge_shell,
    lambda text: judge_shell(text, ShellRules(everyday=True)),
    judge_readonly_shell,
    judge_readonly_sql,
    judge_code,
    lambda text: judge_code(text, CodeRules(level="readonly")),
    lambda text: judge_code(text, CodeRules(language="javascript")),
    lambda text: judge_code(text, CodeRules(language="bash")),
]
SHELL_PIECES = [
    "rm", "-rf", "ls", "cat", "git", "find", "-exec", "{}", "+", "\\;", ";", "&", "&&", "||", "|", ">", ">>",
    "<", "<<", "<<<", "$(", ")", "`", "$", "${", "}", "'", '"', "\\", "*", "?", "[", "]", "~", "#", "!", "=",
    "a=b", "env", "sudo", "xargs", "$IFS", "$'\\x41'", "\n", "\t", "\xa0", "\u200b", "%0a", "sh", "-c", "awk",
    "sed", "tar", "curl",
]  # fmt: skip
CODE_PIECES = [
    "import", "os", "from", "sys", "eval", "exec", "getattr", "(", ")", "[", "]", "{", "}", ":", ",", ".", "=",
    "==", "+", "*", "**", "lambda", "def", "class", "x", "'a'", '"__class__"', "f'{x}'", "b''", "\\x41",
    "__import__", ".system", ".__class__", "for", "in", "if", "else", "match", "case", "@", "async", "await",
    "yield", ":=", "#", "\n", "", "\t", ".environ", "print", "'.env'",
]  # fmt: skip
SQL_PIECES = [
    "SELECT", "FROM", "WHERE", "INSERT", "INTO", "DELETE", "DROP", "TABLE", "t", "a", "1", "'", '"', "`", ";",
    "--", "/*", "*/", "(", ")", ",", ".", "*", "=", "WITH", "AS", "CASE", "WHEN", "END", "UNION", "$$", "#",
    "\\", "PRAGMA", "EXPLAIN",
]  # fmt: skip
texts = st.one_of(
    st.text(max_size=80),
    st.lists(st.sampled_from(SHELL_PIECES), max_size=14).map(" ".join),
    st.lists(st.sampled_from(SHELL_PIECES), max_size=14).map("".join),
    st.lists(st.sampled_from(CODE_PIECES), max_size=14).map(" ".join),
    st.lists(st.sampled_from(SQL_PIECES), max_size=14).map(" ".join),
)
MAX_WORK = 14_000_000
SPEED = speed()
relaxed = settings(deadline=None, max_examples=example_count(30, 60), suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("judge", JUDGES)
@relaxed
@given(text=texts)
@example(text="\ud800")
@example(text="\x00")
@example(text="ls 'a" + "\u0301" * 40)
def test_any_text_gets_the_same_findings_twice_and_never_an_exception(
    judge: Callable[[str], tuple[Finding, ...]], text: str
) -> None:
    found = judge(text)
    assert found == judge(text)
    for finding in found:
        assert finding.rule
        assert finding.message
        if finding.span is not None:
            start, end = finding.span
            assert 0 <= start <= end


@relaxed
@given(argv=st.lists(st.text(max_size=12), max_size=6))
def test_any_argument_list_is_judged(argv: list[str]) -> None:
    assert judge_shell(argv) == judge_shell(argv)
    assert judge_readonly_shell(argv) == judge_readonly_shell(argv)


@each_case(
    "unit",
    [
        "a ",
        "(",
        "$(",
        '"',
        "'",
        "{",
        "`",
        "<<a ",
        "a;",
        "a|",
        "if ",
        "[[",
        "$((",
        "${",
        "case x in ",
        "x()",
        "$[",
        ">",
        "a\n",
        "*",
        "\\",
        "env -S ",
        "find -exec ",
        "docker exec ",
        "function a ",
        "{a,b}",
        "\ud800",
        "\u00e9",
        "%0a",
        "sudo ",
        "-r ",
        "lambda:",
        "import a ",
        "import {a, ",
        "print >",
        "`a ",
        "a.",
        "not ",
        "a=[a]\nb=a[0]\n",
        "x=x+x\n",
        "a=b or c\nb=a or c\nc=a or b\n",
        "a=$a$b;b=$b$a;",
        "for a in $a $b; do $a; done;",
        "python -c 'x' | ",
        "f(a)\n",
        "- ",
        "select 1;",
        "(select ",
        "case when ",
        "a and ",
    ],
)
@each_case("judge", JUDGES)
def test_piles_of_anything_are_judged_within_the_time_bound(
    judge: Callable[[str], tuple[Finding, ...]], unit: str
) -> None:
    judge("warm")
    # The bound is 100 ms of work; a neighbour on the machine is given some slack, and the judge more than one try.
    for length in (4_000, 64_000):
        # A sixteenth of the work for a quarter of the text is enough, unless work grows faster than the square.
        if not is_little_work(partial(judge, pile(unit, length // 4)), MAX_WORK / 16, SPEED):
            text = pile(unit, length)
            assert any(work_of(partial(judge, text), tries=1) < MAX_WORK for _ in range(4))


def pile(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


@given(letters=st.text("abcdefr", max_size=6), other=st.text("abcdef", max_size=6))
def test_a_short_option_is_found_wherever_it_stands_in_a_cluster(letters: str, other: str) -> None:
    flags = frozenset({"-r", "--recursive"})
    assert (uses_flag([f"-{other}{letters}"], flags) is not None) == ("r" in letters)


@given(words=st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=5))
def test_braces_expand_to_each_of_their_words(words: list[str]) -> None:
    assert expanded("x{" + ",".join(words) + "}y").words == [f"x{word}y" for word in words]


def test_importing_the_judges_loads_no_parser() -> None:
    code = (
        "import sys, interlock.judge.shell, interlock.judge.readonly, interlock.judge.sql, interlock.judge.code;"
        "print([name for name in ('tree_sitter', 'sqlglot') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("length", [MAX_NESTED_LENGTH - 10, MAX_NESTED_LENGTH + 1])
def test_a_text_inside_a_command_has_a_bound_of_its_own(length: int) -> None:
    text = "a" * length
    too_long = length > MAX_NESTED_LENGTH
    everyday = judge_shell(f"bash -c 'echo {text}'", ShellRules(everyday=True))
    assert ("shell.too_long" in {finding.rule for finding in everyday}) is too_long
    readonly = judge_readonly_shell(f"env -S 'echo {text}'")
    assert ("readonly.too_long" in {finding.rule for finding in readonly}) is too_long


def test_values_that_are_texts_for_shells_within_each_other_are_judged_within_a_bound() -> None:
    """Each value is a text in which each of them is read again: 40 of them, six deep, would be four billion."""
    values = "; ".join(f"""x='bash -c "$x" {number}'""" for number in range(40))
    command, found = f'{values}; bash -c "$x"', list[Finding]()
    rules = ShellRules(everyday=True)
    assert work_of(lambda: found.extend(judge_shell(command, rules)), tries=1) < 10 * MAX_WORK
    assert "shell.too_many" in {finding.rule for finding in found}
