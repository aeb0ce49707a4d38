"""Problems of a configuration. Each names its file and line, the fault, and the fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

KeyPath = tuple[str | int, ...]
"""The path of a value in a document: `("servers", "db", "command", 0)`."""


class Problem(msgspec.Struct, frozen=True):
    file: str
    line: int | None
    message: str
    hint: str = ""
    server: str | None = None
    """The server with the problem, if it concerns only one."""
    fatal: bool = True
    """Whether the whole configuration must not be used. Otherwise only `server` is not started."""

    @property
    def place(self) -> str:
        """The file, and the line if it is known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class ProblemReport:
    """Collects the problems of one file. It looks up lines only when there is a problem."""

    def __init__(self, file: Path, lines: Callable[[], Mapping[KeyPath, int]], *, fatal: bool = True) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.sections: dict[str, Section] = {}
        """The section of each server, for problems that are found later."""
        self._find_lines = lines
        self._lines: Mapping[KeyPath, int] | None = None
        self._fatal = fatal

    def add(
        self, at: KeyPath, message: str, hint: str = "", *, server: str | None = None, fatal: bool | None = None
    ) -> Problem:
        fatal = self._fatal if fatal is None else fatal
        problem = Problem(str(self.file), self.line(at), message, hint, server, fatal)
        self.problems.append(problem)
        return problem

    def line(self, at: KeyPath) -> int | None:
        """The line of `at`, or of its nearest parent."""
        if self._lines is None:
            self._lines = self._find_lines()
        return next((self._lines[at[:size]] for size in range(len(at), 0, -1) if at[:size] in self._lines), None)


class Section(NamedTuple):
    """A section of the configuration, such as `[servers.files]`. Its problems are reported with its path and server.

    The parsed content of a section is a `table`, as TOML calls it.
    """

    report: ProblemReport
    path: KeyPath = ()
    server: str | None = None

    @property
    def dotted(self) -> str:
        """The path as a header of TOML writes it, without the brackets."""
        return ".".join(str(part) for part in self.path)

    def inside(self, *keys: str | int) -> Section:
        return self._replace(path=(*self.path, *keys))

    def add(self, key: str | KeyPath, message: str, hint: str = "", *, fatal: bool | None = None) -> Problem:
        """Report a problem of a setting. `()` is the section itself."""
        keys = (key,) if isinstance(key, str) else key
        return self.report.add((*self.path, *keys), message, hint, server=self.server, fatal=fatal)

    def line(self, key: KeyPath) -> int | None:
        """The line of a setting, or of its nearest parent."""
        return self.report.line((*self.path, *key))
