"""Finds the line of each key in a TOML or JSON document, which the parsers of the standard library do not report.

The text must have been accepted by its parser: this module only walks over it and checks nothing.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .problems import KeyPath


def toml_lines(text: str) -> Mapping[KeyPath, int]:
    """The line of every table header, key and list element."""
    walk = _Walk(text, _toml_keys)
    walk.tables()
    return walk.lines


class TableSpan(NamedTuple):
    """The lines of a TOML table: from its header to the end of its last value."""

    path: KeyPath
    first: int
    last: int


def toml_table_spans(text: str) -> list[TableSpan]:
    """Every table that has a header, in order."""
    return _Walk(text, _toml_keys).tables()


def json_lines(text: str) -> Mapping[KeyPath, int]:
    """The line of every key and list element of a plain JSON document."""
    walk = _Walk(text, lambda key: [json.loads(key)])
    walk.skip(_GAP)
    walk.value(())
    return walk.lines


class _Walk:
    """A cursor over the text. It never moves back, so each line break is counted once."""

    def __init__(self, text: str, keys: Callable[[str], list[str]]) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text.replace("\r\n", "\n")
        self._keys = keys
        self._at = 0
        self._counted = 0
        self._line = 1
        self._list_sizes: dict[KeyPath, int] = {}

    def tables(self) -> list[TableSpan]:
        """Walk over a TOML document."""
        spans: list[TableSpan] = []
        table: KeyPath = ()
        while self.skip(_GAP) is not None and self._at < len(self._text):
            if self._peek() == "[":
                line = self._current_line()
                table = self._header(line)
                spans.append(TableSpan(table, line, line))
            else:
                self._pair(table)
                if spans:
                    spans[-1] = spans[-1]._replace(last=self._current_line())
        return spans

    def value(self, path: KeyPath) -> None:
        match self._peek():
            case "[":
                self._items(path, "]")
            case "{":
                self._items(path, "}")
            case _:
                self.skip(_SCALAR)

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Move past the match of `pattern` at the cursor, and return it."""
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _header(self, line: int) -> KeyPath:
        brackets = self.skip(_BRACKETS)
        path = self._resolve(self._keys(self.skip(_KEY)), element=brackets.startswith("[["))
        self._mark(path, 0, line)
        self.skip(_CLOSING)
        return path

    def _resolve(self, keys: list[str], *, element: bool) -> KeyPath:
        """`[[a]]` opens the next element of the list `a`; a later `[a.b]` means the newest element of `a`."""
        path: KeyPath = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if element and number == len(keys) - 1:
                self._list_sizes[path] = self._list_sizes.get(path, 0) + 1
            if path in self._list_sizes:
                path = (*path, self._list_sizes[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._current_line()
        path = (*table, *self._keys(self.skip(_KEY)))
        self._mark(path, len(table), line)
        self.skip(_EQUALS)
        self.value(path)

    def _items(self, path: KeyPath, close: str) -> None:
        self._at += 1
        number = 0
        while self.skip(_GAP) is not None and self._peek() != close:
            if close == "}":
                self._pair(path)
            else:
                self._mark((*path, number), len(path), self._current_line())
                self.value((*path, number))
            number += 1
            self.skip(_COMMA)
        self._at += 1

    def _mark(self, path: KeyPath, known: int, line: int) -> None:
        """Note the line of `path` and of its parents after the first `known`. The first line of each counts."""
        for size in range(known + 1, len(path) + 1):
            self.lines.setdefault(path[:size], line)

    def _current_line(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]


def _toml_keys(key: str) -> list[str]:
    """The parts of a dotted key, as the TOML parser reads them."""
    parts: list[str] = []
    inner: object = tomllib.loads(f"{key} = 0")
    while isinstance(inner, dict):
        ((part, inner),) = inner.items()
        parts.append(part)
    return parts


_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BRACKETS = re.compile(r"\[\[?[ \t]*")
_CLOSING = re.compile(r"[ \t]*\]\]?")
_EQUALS = re.compile(r"[ \t\r\n]*[=:][ \t\r\n]*")
_COMMA = re.compile(_GAP.pattern + ",?")
_PART = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
_SCALAR = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:"(?!")|""(?!"))?'
    r"|'''(?:[^']|'(?!''))*'''(?:'(?!')|''(?!'))?"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
    r"|[^,\]}#\n]*",
    re.DOTALL,
)
