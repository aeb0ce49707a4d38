"""The ordinary ways to start a server with a package launcher, as the table `launchers.txt` has them.

The table lists what is allowed: the launcher's subcommands, its harmless flags, the values that they may have, and a
plain package, script, module or image. The words after that belong to the server. Every other command is unusual.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.judge.tables import Row


class CodeKind(Enum):
    """The kind of code that a command runs."""

    PACKAGE = "a plain package name with an optional version"
    SCRIPT = "the path of a script"
    REGISTERED_SCRIPT = "the path of a script, or a package of npm or JSR"
    PROJECT = "the path of a script, or a program of the project"
    MODULE = "a module that is a server"
    IMAGE = "an image of a public registry"
    NOTHING = "no argument"


class LaunchVariant(NamedTuple):
    """One way to start a server."""

    target: CodeKind
    words: tuple[str, ...] = ()
    """The subcommands, in order."""
    alone: frozenset[str] = frozenset()
    """Harmless flags without a value."""
    valued: Mapping[str, re.Pattern[str]] = {}
    """Harmless flags with a value, and the values that they may have."""
    packages: frozenset[str] = frozenset()
    """Flags that name the package. The target is then a program of that package."""
    reads_on: bool = False
    """Whether the launcher takes flags behind the target for its own, unless `--` stands before them."""


def launcher_name(program: str) -> str:
    """The name of a program in `launchers.txt`: without the ending of Windows and without Python's version."""
    name = program.removesuffix(".exe").removesuffix(".cmd")
    return "python" if _PYTHON.fullmatch(name) else name


def why_unusual(launcher: str, arguments: Sequence[str]) -> str:
    """Why the command is none of the launcher's ordinary ways to start a server. Empty if it is one."""
    nearest = (-1, "")
    for way in launchers()[launcher]:
        matched, reason = _compare(launcher, way, arguments)
        if not reason:
            return ""
        if matched > nearest[0]:
            nearest = (matched, reason)
    return nearest[1]


def _compare(launcher: str, way: LaunchVariant, arguments: Sequence[str]) -> tuple[int, str]:
    """How many subcommands of `way` were found, and why the arguments differ from it. Empty if they fit."""
    matched = 0
    has_package = False
    words = iter(enumerate(arguments))
    for position, word in words:
        flag, equals, value = word.partition("=")
        if matched < len(way.words) and word == way.words[matched]:
            matched += 1
        elif not word.startswith("-"):
            if matched < len(way.words):
                break
            rest = arguments[position + 1 :]
            if way.reads_on and "--" not in arguments[:position]:
                for later in itertools.takewhile(lambda word: word != "--", rest):
                    if later.startswith("-"):
                        return matched, f"passes `{later}` to {launcher}, which reads flags behind the package, too"
            return matched, _check_target(way.target, word, rest, has_package=has_package)
        elif equals or flag not in way.alone:
            pattern = _PACKAGE if flag in way.packages else way.valued.get(flag)
            if pattern is None:
                return matched, f"passes `{flag}` to {launcher}, a flag that the hub does not know to be harmless"
            if not equals:
                value = next(words, (0, ""))[1]
            if not pattern.fullmatch(value) or (pattern is _PACKAGE and _ARCHIVE.search(value)):
                return matched, f"passes `{flag} {value}` to {launcher}, a value that the hub does not know"
            has_package = has_package or flag in way.packages
    if matched < len(way.words) or way.target is not CodeKind.NOTHING:
        return matched, f"uses `{launcher}` for something else than running a server"
    return matched, ""


def _check_target(target: CodeKind, word: str, rest: Sequence[str], *, has_package: bool) -> str:
    if target is CodeKind.PACKAGE and not has_package:
        return _check_package(word, rest)
    if target is CodeKind.PACKAGE:
        return _check_program(word, "its package")
    if target is CodeKind.MODULE:
        return _check_module(word)
    if target is CodeKind.PROJECT and not _SCRIPT.fullmatch(word):
        if launcher_name(word) == "python":
            return why_unusual("python", rest)
        return "" if word in _SERVER_RUNNERS else _check_program(word, "its project")
    registered = word.partition(":")
    if target is CodeKind.REGISTERED_SCRIPT and registered[0] in ("npm", "jsr"):
        return _check_package(registered[2].removeprefix("/"), rest)
    pattern = {
        CodeKind.SCRIPT: _SCRIPT,
        CodeKind.REGISTERED_SCRIPT: _SCRIPT,
        CodeKind.PROJECT: _SCRIPT,
        CodeKind.IMAGE: _IMAGE,
    }
    if target not in pattern or not pattern[target].fullmatch(word):
        return f"runs `{word}`, which is not {target.value}"
    return ""


def _check_package(word: str, rest: Sequence[str]) -> str:
    found = _PACKAGE.fullmatch(word)
    if found is None or _ARCHIVE.search(word):
        return "fetches code from another place than a registry: its package is not a plain name and version"
    if found["name"] in _SCRIPT_PACKAGES:
        return "" if rest and _SCRIPT.fullmatch(rest[0]) else f"uses `{word}` for something else than running a script"
    return f"runs `{word}`, which runs other code" if _runs_code(found["name"]) else ""


def _check_program(word: str, home: str) -> str:
    """Refuse a program of this machine: launchers find it as well, and it may run any code that its arguments name."""
    if not _PROGRAM.fullmatch(word) or _runs_code(word) or shutil.which(word) is not None:
        return f"runs `{word}`, which may be another program than one of {home}"
    return ""


def _check_module(word: str) -> str:
    if not _MODULE.fullmatch(word):
        return f"runs `{word}`, which is not a module"
    top = word.partition(".")[0]
    if top in sys.stdlib_module_names or _runs_code(top):
        return f"runs Python's `{word}`, which is not a tool server"
    return ""


def _runs_code(name: str) -> bool:
    return launcher_name(name.lower()) in launchers() or name.lower() in _INTERPRETERS


_PYTHON = re.compile(r"pythonw?3?(?:\.\d+)?", re.ASCII)
_PACKAGE = re.compile(
    r"(?P<name>(?:@\w[\w.~-]*/)?\w[\w.~-]*)"  # npm's scope, and the name
    r"(?:\[[\w., -]*\])?"  # Python's extras
    r"(?:\s*(?:@|[=<>~!]=?=?)\s*[\w.^~<>=|*+! ,-]+)?",
    re.ASCII,
)
_ARCHIVE = re.compile(r"\.(?:tgz|tar|gz|whl|zip)", re.IGNORECASE)
"""Launchers take these for local files."""
_PROGRAM = re.compile(r"\w[\w.-]*", re.ASCII)
_MODULE = re.compile(r"\w+(?:\.\w+)*")
_PATH = re.compile(r"(?!//|\\\\|-)(?:[A-Za-z]:[\\/])?[^:\0\n]+")
"""A path of this machine: no address, and no folder of another machine (`\\\\host\\share`)."""
_SCRIPT = re.compile(_PATH.pattern + r"\.(?:py|[cm]?[jt]s|[jt]sx)")
_IMAGE = re.compile(
    r"(?:(?:docker\.io|ghcr\.io|quay\.io|gcr\.io|mcr\.microsoft\.com|public\.ecr\.aws|registry\.gitlab\.com)/)?"
    r"(?![^/]*[.:][^/]*/)(?!localhost/)\w[\w.-]*(?:/\w[\w.-]*)*(?::\w[\w.-]*)?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)

_INTERPRETERS = frozenset(
    {"sh", "bash", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "busybox", "cmd", "powershell", "pwsh", "env", "sudo"}
    | {"awk", "gawk", "perl", "php", "ruby", "lua", "java", "osascript", "xargs", "make", "ssh", "tsx", "ts-node"}
    | {"pip", "pip3", "setuptools", "poetry", "pdm", "hatch", "rye", "conda", "tox", "nox", "invoke", "ipython"}
    | {"jupyter", "bpython", "ptpython", "xonsh", "pytest", "corepack", "npm-run-all", "concurrently", "nodemon"}
    | {"zx", "shx", "cross-env", "dotenv", "dotenv-cli", "execa-cli", "ts-node-esm", "vite-node", "babel-node", "esno"}
)
"""Packages and programs that run the code, or the command, that their arguments name."""
_SCRIPT_PACKAGES = frozenset({"tsx", "ts-node"})
_SERVER_RUNNERS = frozenset({"mcp", "fastmcp"})
"""Programs of Python's MCP libraries, which `uv run` starts with the script of a server."""

_VALUES: Final = {
    "any": re.compile(r"[^\0]*"),
    "named_volume": re.compile(r"\w[\w.-]+:/[\w./-]*(?::r[ow])?", re.ASCII),
    "network": re.compile(r"(?!host$)\w[\w.-]*", re.ASCII),
    "package": _PACKAGE,
    "path": _PATH,
    "platform": re.compile(r"[\w/]+", re.ASCII),
    "published_port": re.compile(r"(?:(?:127\.0\.0\.1:)?\d+:)?\d+", re.ASCII),
    "version": re.compile(r"(?:(?:c?python|pypy)@?)?\d+(?:\.\d+){0,2}t?", re.ASCII),
    "volume_mount": re.compile(r"type=volume,(?:src|source)=\w[\w.-]+,(?:dst|target|destination)=/[\w./-]*", re.ASCII),
    "word": re.compile(r"\w[\w.,-]*", re.ASCII),
}
"""The patterns of values, as `launchers.txt` names them."""


@lru_cache(maxsize=1)
def launchers() -> dict[str, tuple[LaunchVariant, ...]]:
    """The programs that another program's file may name, besides those of the project, and how each starts a server."""
    from interlock.judge.tables import read_table  # few files of other programs have commands to check

    found: dict[str, tuple[LaunchVariant, ...]] = {}
    for row in read_table("interlock.config", "launchers.txt"):
        for spelling in " ".join(row.head).split(" or "):
            launcher, *words = spelling.split()
            found[launcher] = (*found.get(launcher, ()), _way(row, words))
    return found


def _way(row: Row, words: list[str]) -> LaunchVariant:
    valued = [text.split() for key, text in row.fields if key == "valued"]
    return LaunchVariant(
        CodeKind[row.one("target").upper()],
        tuple(words),
        alone=_flags(row, "alone"),
        valued={flag: _VALUES[pattern] for pattern, *flags in valued for flag in flags},
        packages=_flags(row, "package"),
        reads_on=any(key == "reads-on" for key, _ in row.fields),
    )


def _flags(row: Row, key: str) -> frozenset[str]:
    return frozenset(flag for name, flags in row.fields if name == key for flag in flags.split())
