"""What is wrong with a configuration: always where, what, and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

KeyPath = tuple[str | int, ...]
"""Where a value stands in a document: `("servers", "db", "command", 0)`."""


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong in one file."""

    file: str
    line: int | None
    message: str
    hint: str = ""
    server: str | None = None
    """The server it concerns, if it concerns only that one."""
    fatal: bool = True
    """Whether the configuration as a whole must not be used; otherwise only `server` is held back."""

    @property
    def place(self) -> str:
        """File and line, as far as they are known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class Report:
    """Gathers the problems of one file; lines are looked up only when there is something to say."""

    def __init__(self, file: Path, lines: Callable[[], Mapping[KeyPath, int]], *, fatal: bool = True) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.places: dict[str, KeyPath] = {}
        """Where each server's table stands, for what is found out about it later."""
        self._find_lines = lines
        self._lines: Mapping[KeyPath, int] | None = None
        self._fatal = fatal

    def add(
        self, at: KeyPath, message: str, hint: str = "", *, server: str | None = None, fatal: bool | None = None
    ) -> Problem:
        problem = Problem(
            file=str(self.file),
            line=self.line(at),
            message=message,
            hint=hint,
            server=server,
            fatal=self._fatal if fatal is None else fatal,
        )
        self.problems.append(problem)
        return problem

    def line(self, at: KeyPath) -> int | None:
        """The line of `at`, or of the nearest thing around it."""
        if self._lines is None:
            self._lines = self._find_lines()
        for size in range(len(at), 0, -1):
            line = self._lines.get(at[:size])
            if line is not None:
                return line
        return None
