"""Expansions that change a value are followed as bash makes them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.judge.shell import ShellRules, judge_shell
from interlock.judge.shell.changes import MAX_CHARS, changed, changed_name

BASH = shutil.which("bash")
TEXTS = ["", ".env", "a.b.c", "aXbXc", "/etc/sha/dow", "aaa", "Mixed Case.TXT", "x*y?z", "*.txt"]
CHANGES = [
    "/a/b", "//a/b", "/#a/b", "/%c/d", "/a", "//X", "/./_", "//?/-", "/b*/z", "/%b*/z", "/#*b/z",
    "/#/r", "/%/m", "//*/rm", "/*/z", "/%*/z", "/#*/z", "/", "//", "//b/", "/%?/_", "/#?/_",
    "#a", "##*.", "#*.", "%.*", "%%.*", "%c", "#?", "%?", "##*", ",", ",,", "^", "^^", ":1", ":1:2", ":0:99", ":9",
]  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_each_change_is_that_of_bash() -> None:
    assert BASH is not None
    lines = [f"x={text!r}; printf '%s\\n' \"${{x{change}}}\"" for change in CHANGES for text in TEXTS]
    said = subprocess.run([BASH, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    made = [changed(f"${{x{change}}}", text) for change in CHANGES for text in TEXTS]
    assert [texts[0] for texts in made] == said.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "source", ["${x}", "${x/$y/b}", "${x/[ab]/c}", "${!x}", "${x@P}", "${x/*a*b/d}", "${x/%x*x*y/}", "${x/a/&b}"]
)
def test_a_change_that_is_not_plain_is_not_followed(source: str) -> None:
    assert changed_name(source) is None


@settings(max_examples=200)
@given(st.text(max_size=40), st.text(max_size=2 * MAX_CHARS))
def test_no_text_breaks_it(change: str, text: str) -> None:
    source = f"${{x{change}}}"
    if changed_name(source) is not None:
        assert bool(changed(source, text)) == (len(text) <= MAX_CHARS)


@pytest.mark.parametrize(
    "command",
    [
        "x=m; ${x/#/r} -rf ~",
        "x=r; ${x/%/m} -rf ~",
        "x=a; ${x//*/rm} -rf ~",
        "shopt -s nocasematch; x=Z; ${x/z/rm} -rf ~",
        f"x=rm{'a' * MAX_CHARS}; ${{x%%a*}} -rf ~",
    ],
)
def test_a_program_that_a_change_hides_is_found(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True))
