"""Commands that arrive as the input of a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from interlock.judge.shell.flags import uses_flag
from interlock.judge.shell.programs import known, lists, program_name
from interlock.judge.shell.script import Command, Operator, Redirect, Script
from interlock.judge.shell.wrappers import inner_commands

READ_COMMANDS: Final = frozenset({"dc", "ed", "ex", "ftp", "sftp", "sqlite3"})
"""Programs that take commands from their input, a line each."""
RUN_LATER: Final = frozenset({"at", "batch"})
"""Programs that have a shell run their input later."""


def reader_of(redirect: Redirect, commands: Sequence[Command]) -> Command | None:
    """The command that a redirection belongs to: the innermost around it, or else the last before it."""
    around = [each for each in commands if each.start <= redirect.start < each.end]
    if around:
        return max(around, key=lambda each: each.start)
    return max((each for each in commands if each.end <= redirect.start), key=lambda each: each.end, default=None)


_MAX_WRAPPERS = 4
_OPENS_SHELL = frozenset({"console", "enter", "rsh", "shell", "ssh"})
"""Verbs that open a shell elsewhere where no command follows."""
_TELLING = _OPENS_SHELL | RUN_LATER | {"run"}
_NO_SHELL = frozenset({"-G", "-N", "-O", "-Q", "-V", "-W"})
"""Options with which `ssh` opens no shell."""
_FORMAT = re.compile(r"%s(?:\\n)?")


def runs_input(argv: Sequence[str], depth: int = 0) -> bool:
    """Whether a command has a shell run its input: elsewhere, in a container or later."""
    name, arguments = program_name(argv[0]), argv[1:]
    program = known(name)
    if name in RUN_LATER:
        return True
    if depth == 0 and not any(map(_may_run_input, argv)):
        return False
    inner, texts = inner_commands(name, arguments)
    if program.wrapper is not None and program.wrapper.joins:
        return not texts and uses_flag(arguments, _NO_SHELL, "bcDEeFIiJLlmopRSwB") is None
    opens = any(verb[-1] in _OPENS_SHELL and verb[-1] in arguments for verb in program.passes)
    if name in lists()["container-tools"] and "run" in arguments:
        return any("shell" in known(word).kinds for word in arguments)
    if opens and "--" not in arguments and all(len(command) < 2 for command in inner):
        return True
    return depth < _MAX_WRAPPERS and any(command and runs_input(command, depth + 1) for command in inner)


def _may_run_input(word: str) -> bool:
    name = program_name(word)
    wrapper = known(name).wrapper
    return name in _TELLING or (wrapper is not None and wrapper.joins)


def sources_of(
    command: Command, script: Script, pipes: Sequence[tuple[Command, Command]]
) -> list[Redirect | Command | None]:
    """The redirections and the command before the pipe that a command reads. None stands for several commands."""
    found: list[Redirect | Command | None] = [
        redirect
        for redirect in script.redirects
        if redirect.operator[:1] == "<" and reader_of(redirect, script.commands) is command
    ]
    for left, right in pipes:
        if right is command:
            found.append(None if any(_ends_between(each, left, right) for each in script.operators) else left)
    return found or _around(command, script)


def _ends_between(operator: Operator, left: Command, right: Command) -> bool:
    """Whether a group or a loop ends behind one command and before another."""
    return operator.kind in ("subshell", "control_flow") and left.end < operator.end <= right.start


def _around(command: Command, script: Script) -> list[Redirect | Command | None]:
    """Inputs of a group, a loop or a substitution that the command may be in."""
    piped = any(each.kind == "pipe" and each.end <= command.start for each in script.operators)
    inside = any(each.kind == "substitution" and each.start < command.start < each.end for each in script.operators)
    given = any(redirect.operator[:1] == "<" for redirect in script.redirects)
    return [None] if piped or inside or given else []


def printed(words: Sequence[str]) -> str | None:
    """The text that `echo` or `printf` prints; None where that takes more than putting words together."""
    name, arguments = words[0], list(words[1:])
    if name == "echo":
        arguments = arguments[1:] if arguments[:1] == ["-n"] else arguments
        plain = not any("\\" in word for word in arguments) and arguments[:1] not in (["-e"], ["-E"], ["-ne"], ["-en"])
        return " ".join(arguments) if plain else None
    if name != "printf" or not arguments:
        return None
    if _FORMAT.fullmatch(arguments[0]):
        return ("\n" if arguments[0] != "%s" else "").join(arguments[1:])
    text = arguments[0].replace("\\n", "\n")
    return text if len(arguments) == 1 and "%" not in text and "\\" not in text else None
