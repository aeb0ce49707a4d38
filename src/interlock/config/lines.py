"""Which line each key of a TOML or JSON document stands on. The parsers of the standard library do not say.

Rule: only ever called on a text that its parser has accepted, so nothing is checked here, only walked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from .problems import KeyPath


def toml_lines(text: str) -> Mapping[KeyPath, int]:
    """The line of every table header, key and list element."""
    return _TomlWalk(text).run()


class Section(NamedTuple):
    """One table with a header, from its header's line to the one on which its last value ends."""

    path: KeyPath
    first: int
    last: int


def toml_sections(text: str) -> list[Section]:
    """Every table that has a header, in order."""
    walk = _TomlWalk(text)
    walk.run()
    return walk.sections


def json_lines(text: str) -> Mapping[KeyPath, int]:
    """The line of every key and list element of a plain JSON document."""
    return _JsonWalk(text).run()


class _Walk:
    """A cursor over the text; a line number is counted from the last one asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self._counted = 0
        self._line = 1

    def mark(self, path: KeyPath) -> None:
        """Notes that `path` stands here. The first place counts: `[a.b]` also makes `a`, once."""
        self.lines.setdefault(path, self.line())

    def line(self) -> int:
        """The number of the line that the cursor is on; it never goes back over a line's end."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Moves over what `pattern` matches here, and returns it."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]


class _TomlWalk(_Walk):
    def __init__(self, text: str) -> None:
        super().__init__(text.replace("\r\n", "\n"))
        self._counts: dict[KeyPath, int] = {}
        self.sections: list[Section] = []

    def run(self) -> Mapping[KeyPath, int]:
        table: KeyPath = ()
        while True:
            self.skip(_TOML_GAP)
            if self.at >= len(self.text):
                return self.lines
            if self.peek() == "[":
                table = self._header()
                self.sections.append(Section(table, self.line(), self.line()))
            else:
                self._pair(table)
                if self.sections:
                    self.sections[-1] = self.sections[-1]._replace(last=self.line())

    def _header(self) -> KeyPath:
        start = self.at
        brackets = self.skip(_BRACKETS)
        path = self._resolve(self._key(), element=len(brackets) == 2)
        end, self.at = self.at, start
        for size in range(1, len(path) + 1):
            self.mark(path[:size])
        self.at = end
        self.skip(_TOML_SPACE)
        self.at += len(brackets)
        return path

    def _resolve(self, keys: list[str], *, element: bool) -> KeyPath:
        """`[[a]]` opens the next element of the list `a`; `[a.b]` after it means the newest element of `a`."""
        path: KeyPath = ()
        for number, key in enumerate(keys):
            path = (*path, key)
            if element and number == len(keys) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self.at
        keys = self._key()
        end, self.at = self.at, start
        for size in range(1, len(keys) + 1):
            self.mark((*table, *keys[:size]))
        self.at = end
        self.skip(_TOML_SPACE)
        self.at += 1  # the equals sign
        self.skip(_TOML_SPACE)
        self._value((*table, *keys))

    def _key(self) -> list[str]:
        keys: list[str] = []
        while True:
            self.skip(_TOML_SPACE)
            if self.peek() == '"':
                keys.append(_unescape(self.skip(_BASIC)[1:-1]))
            elif self.peek() == "'":
                keys.append(self.skip(_LITERAL)[1:-1])
            else:
                keys.append(self.skip(_BARE))
            before = self.at
            self.skip(_TOML_SPACE)
            if self.peek() != ".":
                self.at = before
                return keys
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        match self.peek():
            case "[":
                self._list(path)
            case "{":
                self._inline(path)
            case _:
                self.skip(_TOML_SCALAR)

    def _list(self, path: KeyPath) -> None:
        self.at += 1
        number = 0
        while self.skip(_TOML_GAP) is not None and self.peek() != "]":
            self.mark((*path, number))
            self._value((*path, number))
            number += 1
            self.skip(_TOML_GAP)
            if self.peek() == ",":
                self.at += 1
        self.at += 1

    def _inline(self, path: KeyPath) -> None:
        self.at += 1
        while self.skip(_TOML_GAP) is not None and self.peek() != "}":
            self._pair(path)
            self.skip(_TOML_GAP)
            if self.peek() == ",":
                self.at += 1
        self.at += 1


class _JsonWalk(_Walk):
    def run(self) -> Mapping[KeyPath, int]:
        self._value(())
        return self.lines

    def _value(self, path: KeyPath) -> None:
        self.skip(_JSON_SPACE)
        match self.peek():
            case "{":
                self._members(path, "}")
            case "[":
                self._members(path, "]")
            case _:
                self.skip(_JSON_SCALAR)

    def _members(self, path: KeyPath, close: str) -> None:
        self.at += 1
        number = 0
        while self.skip(_JSON_SPACE) is not None and self.peek() != close:
            start = self.at
            key: str | int = number
            if close == "}":
                key = json.loads(self.skip(_BASIC))
                self.skip(_JSON_COLON)
            end, self.at = self.at, start
            self.mark((*path, key))
            self.at = end
            self._value((*path, key))
            number += 1
            self.skip(_JSON_SPACE)
            if self.peek() == ",":
                self.at += 1
        self.at += 1


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1]) or chr(int(match[1][1:], 16)), text)


_TOML_SPACE = re.compile(r"[ \t]*")
_TOML_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BRACKETS = re.compile(r"\[\[?")
_BARE = re.compile(r"[A-Za-z0-9_-]*")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_TOML_SCALAR = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""(?:"(?!")|""(?!"))?'
    r"|'''(?:[^']|'(?!''))*'''(?:'(?!')|''(?!'))?"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
    r"|[^,\]}#\n]*",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_JSON_COLON = re.compile(r"[ \t\r\n]*:")
_JSON_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^,\]}\s]*')
