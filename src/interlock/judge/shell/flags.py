"""Options as programs read them: long, abbreviated, short, clustered, with or without `=`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache


def uses_flag(
    arguments: Iterable[str], flags: frozenset[str], with_values: str = "", *, abbreviated: bool = True
) -> str | None:
    """The first argument that is one of `flags` in any spelling.

    A long option matches its own abbreviations (`--checkpoint-act=`). A short one matches inside a cluster (`-xvI`),
    up to a letter in `with_values`, after which the rest of the word is that option's value; `*` there means that the
    program has no clusters but long options with one dash. `--` ends the options.
    """
    short, long = _short_and_long(flags)
    for argument in arguments:
        if argument == "--":
            return None
        if len(argument) < 2 or argument[0] not in "-+":
            continue
        name = argument.partition("=")[0]
        if name in flags:
            return argument
        if name.startswith("--"):
            if abbreviated and len(name) > 4 and any(flag.startswith(name) for flag in long):
                return argument
        elif argument[0] == "-" and with_values != "*" and _in_cluster(argument[1:], short, with_values):
            return argument
    return None


@lru_cache(maxsize=1024)
def _short_and_long(flags: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The letters of short options, and the long ones. The sets of options are those of the tables."""
    short = frozenset(flag[1] for flag in flags if len(flag) == 2 and flag[0] == "-")
    return short, tuple(flag for flag in flags if len(flag) > 2)


def _in_cluster(letters: str, wanted: frozenset[str], with_values: str) -> bool:
    for letter in letters:
        if letter in wanted:
            return True
        if letter in with_values or not letter.isalnum():
            return False
    return False


def operands(arguments: Sequence[str], with_values: frozenset[str] = frozenset()) -> list[str]:
    """The arguments that are not options, skipping the values of the options named."""
    found: list[str] = []
    skip = False
    for index, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument == "--":
            found.extend(arguments[index + 1 :])
            break
        elif argument.startswith("-") and len(argument) > 1:
            skip = argument in with_values
        else:
            found.append(argument)
    return found


SHELL_OPTIONS = frozenset({"errexit", "errtrace", "noclobber", "nounset", "pipefail", "posix", "verbose", "xtrace"})
"""Values of `-o` with which a shell still takes the next word for its script."""
_PLAIN_FLAGS = {
    "python": re.compile(r"-[uBIsESOvqbd]+"),
    "javascript": re.compile(r"--(?:no-warnings|trace-warnings|enable-source-maps|experimental-vm-modules)"),
    "perl": re.compile(r"-[wT]+"),
    "ruby": re.compile(r"-w"),
    "php": re.compile(r"-[nq]"),
}
"""Options of interpreters that take no value from the next word."""
_NO_CODE = re.compile(r"[\w./:=,@%+~-]*")


def own_options(arguments: Sequence[str], language: str) -> Sequence[str]:
    """The arguments of an interpreter up to its script or module: those behind it are the program's own.

    A module or a script may be an interpreter, too (`python -m memray run -c CODE`), so none of them may be code.
    """
    for at, argument in enumerate(arguments):
        program = argument == "-m" or argument[:1] != "-"
        console = argument.endswith("manage.py") and arguments[at + 1 : at + 2] == ["shell"]  # its code is judged
        if program and not console and not all(map(_NO_CODE.fullmatch, arguments[at:])):
            break
        if language == "python" and argument == "-m":
            return arguments[: at + 2]
        if not argument.startswith("-"):
            return arguments[:at]
        if not _PLAIN_FLAGS[language].fullmatch(argument):
            break  # the next word may be the value of this option
    return arguments


def option_values(arguments: Sequence[str], short: str, long: str, with_values: str = "") -> Iterator[str]:
    """Every value given to one option, in any spelling: `-o v`, `-ov`, `-so v`, `--output v`, `--output=v`."""
    for index, word in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if word in (long, short):
            yield following
        elif word.startswith(long + "="):
            yield word[len(long) + 1 :]
        elif word.startswith("-") and not word.startswith("--") and short[1] in word[1:]:
            at = word.index(short[1], 1)
            if not any(letter in with_values for letter in word[1:at]):
                yield word[at + 1 :] or following
