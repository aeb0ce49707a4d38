"""Bash runs the commands in values that it evaluates: both judges know where it does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.judge.readonly import judge_readonly_shell
from interlock.judge.shell import ShellRules, judge_shell

HIDDEN = "$(touch ran)"
LITERAL = [
    f"printf -v 'a[{HIDDEN}]' x",
    f"printf -v'a[{HIDDEN}]' x",
    f"test -v 'a[{HIDDEN}]'",
    f"[ -v 'a[{HIDDEN}]' ]",
    f"[[ -v 'a[{HIDDEN}]' ]]",
    f"[[ 'a[{HIDDEN}]' -eq 0 ]]",
    f"[[ 1 -lt 2 && 0 -ne 'a[{HIDDEN}]' ]]",
    f"read 'a[{HIDDEN}]' < in",
    f"let 'a[{HIDDEN}]'",
    f"true & wait -n -p 'a[{HIDDEN}]'",
    f"true & wait -np'a[{HIDDEN}]'",
    f"x='a[{HIDDEN}]'; echo $((x))",
    f"x='a[{HIDDEN}]'; echo $((1 + $x))",
    f"x='a[{HIDDEN}]'; ((x))",
    f"x='a[{HIDDEN}]'; [[ $x -eq 0 ]]",
    f"x='a[{HIDDEN}]'; [[ x -gt 0 ]]",
    f"x='a[{HIDDEN}]'; [ -v \"$x\" ]",
    f"x='a[{HIDDEN}]'; echo ${{b[x]}}",
    f"x='a[{HIDDEN}]'; y=abc; echo ${{y:x:1}}",
    f"x='a[{HIDDEN}]'; echo ${{!x}}",
    f"x='{HIDDEN}'; echo ${{x@P}}",
    f"for x in 'a[{HIDDEN}]'; do echo $((x)); done",
    f"x='a[{HIDDEN}]'; y=$((x)); [[ $y -eq 0 ]]",
]
"""The command stands in the text itself."""
FROM_ELSEWHERE = [
    f"echo 'a[{HIDDEN}]' | while read x; do echo $((x)); done",
    f"read x <<< 'a[{HIDDEN}]'; [[ $x -eq 0 ]]",
    "[[ $(cat in) -eq 0 ]]",
    "y=abc; read x < in; echo ${y:x}",
]
"""The value comes from a file, a pipe or a command."""
HARMLESS = [
    "echo $((2 + 3))",
    "n=5; echo $((n * 2))",
    "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done",
    "n=$(wc -l < in); [[ $n -gt 3 ]] && echo many",
    "[[ $(wc -l < in) -gt 3 ]] && echo many",
    "[ -v PATH ] && echo set",
    "[ $# -gt 0 ]",
    "[[ ${#x} -ge 3 ]]",
    "for ((i=0;i<3;i++)); do echo $i; done",
    'while read -r line; do echo "$line"; done < in',
    'echo "${a[@]}" "${a[0]}" ${x:0:3} ${x: -3} ${x:-none}',
]


@pytest.mark.parametrize("command", [*LITERAL, *FROM_ELSEWHERE])
def test_a_command_that_only_reads_evaluates_nothing_unknown(command: str) -> None:
    assert judge_readonly_shell(command), command


@pytest.mark.parametrize("command", LITERAL)
def test_a_command_hidden_in_the_text_is_questioned_where_it_is_inferred(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True)), command


@pytest.mark.parametrize("flags", ["-p ", "-n -p ", "-np ", "-p", "-n -p"])
def test_the_name_that_wait_sets_is_evaluated(flags: str) -> None:
    command = f"wait {flags}'a[{HIDDEN}]' 1"
    assert [finding.rule for finding in judge_readonly_shell(command)] == ["readonly.nested"]
    assert judge_readonly_shell(f'x="$(cat in)"; wait {flags}"$x" 1'), "the value comes from a file"
    assert judge_readonly_shell(f"wait {flags}done_first 1") == ()


@pytest.mark.parametrize("command", HARMLESS)
def test_expressions_that_run_nothing_pass(command: str) -> None:
    assert judge_readonly_shell(command) == ()
    assert judge_shell(command, ShellRules(everyday=True)) == ()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("command", [*LITERAL, *FROM_ELSEWHERE])
def test_bash_runs_each_of_them(command: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(f"a[{HIDDEN}]\n")
    subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (tmp_path / "ran").exists(), command
