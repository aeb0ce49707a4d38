"""A variable has a value, and a `cd` holds, only where the shell has surely come past it."""

from __future__ import annotations

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell

EVERYDAY = ShellRules(everyday=True)

MAY_BE_EMPTY = [
    "rm -rf $x/*; x=build",
    "if test -d a; then x=build; fi; rm -rf $x/*",
    "if test -d a; then x=build; else rm -rf $x/*; fi",
    "case $a in b) x=build;; *) rm -rf $x/*;; esac",
    "test -d a && x=build; rm -rf $x/*",
    "test -d a || x=build; rm -rf $x/*",
    "test -d a && x=build || rm -rf $x/*",
    "(x=build); rm -rf $x/*",
    "x=build | rm -rf $x/*",
    "echo $(x=build); rm -rf $x/*",
    "for x in build; do :; done; rm -rf $x/*",
    "while test -d a; do rm -rf $x/*; x=build; done",
    "x=build; unset x; rm -rf $x/*",
    "x=build; builtin unset -v x; rm -rf $x/*",
    "x=build; bash -c 'rm -rf $x/*'",
    "echo é; rm -rf ${x%s}/*; x=builds",
]
"""With no value, each of them deletes everything below the root."""
MAY_BE_HERE = [
    "(cd /tmp/x); rm -rf src",
    "cd /tmp/x || exitnow; rm -rf src",
    "cd /tmp/x || exit 1 | cat; rm -rf src",
    "cd /tmp/x || return 0; rm -rf src",
    "cd /tmp/x | rm -rf src",
    "cd /tmp/x; rm -rf src",
    "cd /tmp/x\nrm -rf src",
    "test -d /tmp/x && cd /tmp/x; rm -rf src",
    "echo $(cd /tmp/x); rm -rf src",
    "{ cd /tmp/x; } && rm -rf src",
]
"""Each may delete a folder of the project."""
HOLDS = [
    "x=build; rm -rf $x/*",
    "x=build && rm -rf $x/*",
    "cd web && x=build && rm -rf $x/* && npm run build > log.txt",
    "(x=build; rm -rf $x/*)",
    "for x in build dist; do rm -rf $x; done",
    "x=dist; if test -d build; then x=build; fi; rm -rf $x",
    "export x=build; bash -c 'rm -rf $x'",
    "x=build; export x; bash -c 'rm -rf $x'",
    "set -a; x=build; set +a; bash -c 'rm -rf $x'",
    'd=$(mktemp -d); trap \'rm -rf "$d"\' EXIT; cp a "$d"',
    "cd /tmp/x && rm -rf src",
    "cd /tmp/x || exit 1\nrm -rf src",
    "(cd /tmp/x && rm -rf src); npm test",
    "cd web; rm -rf node_modules",
    "for d in a b; do (cd $d && rm -rf node_modules); done",
]


@each_case("command", [*MAY_BE_EMPTY, *MAY_BE_HERE])
def test_a_setting_that_may_not_hold_excuses_no_delete(command: str) -> None:
    assert "shell.recursive_delete" in {finding.rule for finding in judge_shell(command, EVERYDAY)}


@each_case("command", HOLDS)
def test_a_setting_that_surely_holds_is_followed(command: str) -> None:
    assert judge_shell(command, EVERYDAY) == ()
