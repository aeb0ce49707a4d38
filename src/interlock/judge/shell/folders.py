"""The folder that each command of a text runs in, as far as the text says: `cd /etc && rm -rf build`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from posixpath import join, normpath

from interlock.judge.shell.budget import WorkBudget
from interlock.judge.shell.flags import operands

PROJECT = ""
"""The folder of the project, or one that the text does not tell."""


def folder_after(folder: str, argv: Sequence[str]) -> str:
    """The folder that the next command runs in."""
    if argv[:1] not in (["cd"], ["pushd"]):
        return folder
    words = operands(argv[1:])
    target = words[0] if words else "~" if argv[0] == "cd" else "-"
    if target[:1] in ("-", "_", "$", "+"):
        return PROJECT  # the text does not tell where that is
    moved = normpath(target if target[:1] in "/~" else join(folder, target))
    return PROJECT if moved == "." else moved


def placed(folder: str, word: str) -> str:
    """A word as a path from the project, if it may be a path and the folder lies outside the project."""
    if not is_outside(folder) or not _RELATIVE.fullmatch(word):
        return word
    path = join(folder, word)
    return normpath(path) if word[0] == "." or "/." in word else path


def from_project(folder: str, word: str) -> str:
    """A path that leaves its folder, as it is from the project: `../b` in `a` is `b`."""
    leaves = folder and ".." in word.split("/") and _RELATIVE.fullmatch(word)
    return normpath(join(folder, word)) if leaves else word


def from_root(folder: str, path: str) -> str:
    """A path in a folder for temporary files, from the root."""
    return normpath(join(folder, path)) if _TEMPORARY.match(folder) and _RELATIVE.fullmatch(path) else path


def moved(argv: Sequence[str], move: Callable[[str, str], str], folder: str, budget: WorkBudget) -> list[str]:
    """A command with its words as paths from elsewhere. The letters of the folder that they get are paid for."""
    words = list(argv[:1])
    for word in argv[1:]:
        path = move(folder, word) if budget.left >= 0 else word
        budget.spend(max(len(path) - len(word), 0))
        words.append(path)
    return words


def is_inside(path: str) -> bool:
    """Whether a path, as it is written, lies inside the project or among temporary files."""
    if path.startswith(("/tmp/", "/var/tmp/")):  # noqa: S108 - a place to write, not a file made here
        return ".." not in path.split("/")
    return not path.startswith(("/", "~", "-")) and ".." not in path.split("/") and ":" not in path[:3]


def is_outside(folder: str) -> bool:
    """Whether a folder is known to be none of a project: above it, a home as such, or one of the system."""
    return _OUTSIDE.match(folder) is not None


_RELATIVE = re.compile(r"(?!-)[\w.@+*?-][\w./@+*?-]*")
_TEMPORARY = re.compile(r"/tmp(?:/|$)")  # noqa: S108 - a place, not a file made here
_OUTSIDE = re.compile(
    r"\.\.(?:/|$)"
    r"|/$|~(?:/\..*)?$"
    r"|/(?:home|Users)(?:/[^/]+)?(?:/\..*)?$"
    r"|/(?:opt|srv|mnt|media|root|usr|var|Library|System|Applications|Volumes)$|/root/\."
    r"|/(?:etc|boot|bin|sbin|lib\w*|dev|proc|sys|run|Library|System)(?:/|$)|/usr/(?!src/)|/var/(?!www/|tmp(?:/|$))"
)
