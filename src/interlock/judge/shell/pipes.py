"""Commands that a pipe joins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from interlock.judge.shell.script import Command, Script


def find_pipes(script: Script) -> list[tuple[Command, Command]]:
    """The commands on both sides of each pipe, in their order."""
    commands = [command for command in script.commands if command.words]
    starts, ends = sorted(commands, key=_start), sorted(commands, key=_end)
    found = []
    for operator in sorted([each for each in script.operators if each.kind == "pipe"], key=lambda each: each.start):
        left = bisect_right(ends, operator.start, key=_end) - 1
        right = bisect_left(starts, operator.end, key=_start)
        if left >= 0 and right < len(starts):
            found.append((ends[left], starts[right]))
    return found


def _start(command: Command) -> int:
    return command.start


def _end(command: Command) -> int:
    return command.end
