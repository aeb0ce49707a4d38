"""Files that a text fetches from another machine and runs: the two commands together are `curl … | sh`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.judge.findings import Finding
from interlock.judge.shell.flags import SHELL_OPTIONS, operands, option_values, uses_flag
from interlock.judge.shell.hosts import stays_here
from interlock.judge.shell.inputs import reader_of
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.script import Command, Script

_FETCHERS = frozenset({"aria2c", "curl", "wget"})
_MOVERS = frozenset({"cp", "install", "ln", "mv"})
_RUN_FILES = frozenset({"shell", "bare", "evaluator"})
_MAX_WORDS = 8


def judge_downloads(script: Script) -> Iterator[Finding]:
    """`curl -o x.sh https://… && bash x.sh`."""
    fetched: set[str] = set()
    for command in sorted(script.commands, key=lambda each: each.start) if len(script.commands) > 1 else ():
        words = [word.template or word.text for word in command.words]
        if not words:
            continue
        if fetched and not fetched.isdisjoint(_run_files(words)):
            message = "runs a file that this command fetches from another machine"
            hint = "fetch it, look at it, and run it in a command of its own"
            yield Finding("shell.runs_code", message, hint, (command.start, command.end))
        name = program_name(words[0])
        if name in _MOVERS and not fetched.isdisjoint(map(_plain, words[1:-1])):
            target = _plain(words[-1])
            fetched |= {target, *(f"{target.rstrip('/')}/{file.rpartition('/')[2]}" for file in fetched)}
        if name in _FETCHERS and not stays_here(words[1:]):
            fetched |= {_plain(file) for file in (*_saved(name, words[1:]), *_redirected(command, script)) if file}


def _run_files(words: Sequence[str]) -> Iterator[str]:
    yield _plain(words[0])
    program = known(program_name(words[0]))
    if program.kinds & _RUN_FILES or program.language:
        yield from map(_plain, [word for word in operands(words[1:]) if word not in SHELL_OPTIONS][:1])
    elif program.wrapper is not None or program.passes:
        yield from map(_plain, words[1:_MAX_WORDS])


def _saved(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """The files that a fetching program writes."""
    short, long = ("-O", "--output-document") if name == "wget" else ("-o", "--out" if name == "aria2c" else "--output")
    named = list(option_values(arguments, short, long))
    yield from named
    keeps_name = (
        name != "curl" or uses_flag(arguments, frozenset({"-O", "--remote-name", "-J"}), "oHdAbeumXT") is not None
    )
    if keeps_name and not (named and name == "wget"):
        ends = [word.partition("?")[0].rpartition("/")[2] for word in operands(arguments) if "/" in word]
        folders = [f"{folder.rstrip('/')}/" for folder in option_values(arguments, "-P", "--directory-prefix")]
        yield from (f"{folder}{end}" for folder in folders or [""] for end in ends)


def _redirected(command: Command, script: Script) -> Iterator[str]:
    for redirect in script.redirects:
        if ">" in redirect.operator and redirect.target is not None and reader_of(redirect, script.commands) is command:
            yield redirect.target.template or redirect.target.text


def _plain(path: str) -> str:
    return path.removeprefix("./")
