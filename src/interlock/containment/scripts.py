"""Finds the interpreter of a script by its first line.

A script may belong to an untrusted package, so its first line must not make other paths readable. An interpreter counts
only if it is beside the script, as in a virtual environment, or where the server may read anyway.
"""

from __future__ import annotations

import os
import shlex
import shutil
from typing import Final

MAX_LINE: Final = 4096
_SHELLS: Final = frozenset({"/bin/sh", "/usr/bin/sh"})
_SHELL_LINE: Final = "'''exec' "
"""The beginning of the second line that installers write if the interpreter's path is too long for the first."""


def interpreter_of(program: str, path: str) -> tuple[str, ...]:
    """The command that runs a script, without the script itself; empty for a program that is not a script."""
    try:
        with open(program, "rb") as file:
            if file.read(2) != b"#!":
                return ()
            first, second = (os.fsdecode(file.readline(MAX_LINE)).strip() for _ in range(2))
    except OSError:
        return ()
    words = first.split(maxsplit=1)
    if not words:
        return ()
    if os.path.basename(words[0]) == "env" and len(words) == 2:
        return _found_by_env(words[1], os.path.dirname(program), path)
    if words[0] in _SHELLS and second.startswith(_SHELL_LINE):
        return tuple(_split(second.removeprefix(_SHELL_LINE))[:1])
    return tuple(words)


def _found_by_env(arguments: str, beside: str, path: str) -> tuple[str, ...]:
    """The command that `env` would run. A program beside the script comes first."""
    words = _split(arguments.removeprefix("-S"))
    if not words or words[0].startswith("-") or "=" in words[0]:
        return ()
    found = shutil.which(words[0], path=f"{beside}:{path}")
    return () if found is None else (found, *words[1:])


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
