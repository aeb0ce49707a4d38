"""The effects of a sed script besides printing. It is read command by command, since `s/w/e/` writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.judge.shell.flags import operands, option_values

_TO_LINE_END = frozenset("aicrRwW:#")
_LABELS = frozenset("btT")
_MAX_COMMANDS = 500


def sed_effects(script: str) -> frozenset[str]:
    """`writes`, `runs` and `unknown`, as far as they apply."""
    return frozenset(_effects(script))


def sed_scripts(arguments: Sequence[str]) -> list[str]:
    """The scripts given to sed: by `-e`, or else its first operand."""
    given = list(option_values(arguments, "-e", "--expression", "lfi"))
    return given or operands(arguments, frozenset({"-l", "--line-length", "-f", "--file"}))[:1]


def _effects(script: str) -> Iterator[str]:
    at = 0
    for _ in range(_MAX_COMMANDS):
        at = _skip_address(script, _skip(script, at, " \t\n;{}"))
        while 0 <= at < len(script) and script[at] in "{}":  # a block after its address
            at = _skip_address(script, _skip(script, at, " \t\n;{}"))
        if at < 0:
            yield "unknown"
            return
        if at >= len(script):
            return
        command, at = script[at], at + 1
        if command in "sy":
            end = _skip_parts(script, at)
            if end < 0:
                yield "unknown"
                return
            flags = script[end : _line_or_command_end(script, end)]
            if command == "s" and "w" in flags:
                yield "writes"
            if command == "s" and "e" in flags.partition("w")[0]:
                yield "runs"
            at = end + len(flags)
        elif command in _TO_LINE_END:
            if command in "wW":
                yield "writes"
            at = _find(script, "\n", at)
        elif command == "e":
            yield "runs"
            at = _find(script, "\n", at)
        elif command in _LABELS:
            at = _line_or_command_end(script, at)
        elif command not in "=dDgGhHlLnNpPqQvxFz":
            yield "unknown"
            return
        else:
            at = _skip(script, at, " \t0123456789")
    yield "unknown"


def _skip(script: str, at: int, blanks: str) -> int:
    while at < len(script) and script[at] in blanks:
        at += 1
    return at


def _find(script: str, mark: str, at: int) -> int:
    found = script.find(mark, at)
    return len(script) if found < 0 else found


def _line_or_command_end(script: str, at: int) -> int:
    return min(_find(script, mark, at) for mark in "\n;}")


def _skip_address(script: str, at: int) -> int:
    """Past `1,5!`, `/a/I,$`, `0~3`: to the command, or -1 when an address does not end."""
    while at < len(script):
        letter = script[at]
        if letter.isdigit() or letter in "$,!~+ \t":
            at += 1
        elif letter == "/" or (letter == "\\" and at + 1 < len(script)):
            delimiter = letter if letter == "/" else script[at + 1]
            at = _skip_part(script, at + (1 if letter == "/" else 2), delimiter)
            if at < 0:
                return -1
            at = _skip(script, at, "IM")
        else:
            break
    return at


def _skip_parts(script: str, at: int) -> int:
    """Past the two parts of `s/a/b/`."""
    if at >= len(script) or script[at] in "\\\n":
        return -1
    middle = _skip_part(script, at + 1, script[at])
    return -1 if middle < 0 else _skip_part(script, middle, script[at])


def _skip_part(script: str, at: int, delimiter: str) -> int:
    in_class = False
    while at < len(script):
        letter = script[at]
        if letter == "\\":
            at += 1
        elif letter == "[" and not in_class and script.find("]", at + 2) > 0:
            in_class = True
        elif letter == "]" and in_class:
            in_class = False
        elif letter == delimiter and not in_class:
            return at + 1
        at += 1
    return -1
