"""Reads descriptions from docstrings in the Google, NumPy and Sphinx styles. A docstring in no style is all prose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping

import msgspec

_GOOGLE_SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]{1,30}):$")
_GOOGLE_TYPE = re.compile(r"^[\w.]+(?:\[[\w.,\[\] |]*\])?(?: \| [\w.\[\], ]+)*:\s+(?=\S)")
"""`dict[str, int]: ` before the description of a result."""
_GOOGLE_ENTRY = re.compile(r"^\*{0,2}(?P<names>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"^(?:\*{0,2}(?P<names>\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?|.*)(?P<text>)$")
_SPHINX_ENTRY = re.compile(r"^:(?P<role>[a-z]+)(?:\s+(?P<what>[^:]*))?:\s*(?P<text>.*)$")
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "var", "ivar", "cvar"})
_PARAMETERS = frozenset(
    {"args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments", "attributes"}
)
_RETURNS = frozenset({"returns", "return", "yields", "yield"})
_SECTIONS = (
    _PARAMETERS
    | _RETURNS
    | frozenset(
        {
            "raises",
            "raise",
            "examples",
            "example",
            "note",
            "notes",
            "see also",
            "references",
            "warns",
            "warnings",
            "todo",
        }
    )
)


class Docstring(msgspec.Struct, frozen=True):
    """The descriptions in the docstring of a function or class."""

    text: str = ""
    """The description before the first section."""
    parameters: Mapping[str, str] = {}
    returns: str = ""

    @classmethod
    def parse(cls, text: str) -> Docstring:
        """Read a docstring."""
        if "\n" not in text and not text.startswith(":"):
            return cls(text.strip())
        lines = inspect.cleandoc(text).splitlines()
        prose: list[str] = []
        parameters: dict[str, str] = {}
        returns = ""
        index = 0
        while index < len(lines):
            title, start, numpy = _section(lines, index)
            if title:
                ends = (lambda at: _section(lines, at)[0]) if numpy else (lambda at: _is_outer(lines[at]))
                body, index = _body(lines, start, ends)
                if title in _PARAMETERS:
                    parameters |= _entries(body, _NUMPY_ENTRY if numpy else _GOOGLE_ENTRY)
                elif title in _RETURNS and numpy:
                    returns = _joined([line for line in body if line.startswith(" ")] or body)
                elif title in _RETURNS:
                    returns = _GOOGLE_TYPE.sub("", _joined(body))
            elif entry := _SPHINX_ENTRY.match(lines[index]):
                body, index = _body(lines, index + 1, lambda at: not lines[at].startswith(" "))
                text = _joined([entry["text"], *body])
                if entry["role"] in _SPHINX_PARAMETERS and entry["what"]:
                    parameters[entry["what"].split()[-1].lstrip("*")] = text
                elif entry["role"] in _RETURNS:
                    returns = text
            else:
                prose.append(lines[index])
                index += 1
        return cls("\n".join(prose).strip(), parameters, returns)


def _section(lines: list[str], index: int) -> tuple[str, int, bool]:
    """The title in lower case if a section starts at this line, where its body starts, and whether it is underlined."""
    line, following = lines[index], lines[index + 1] if index + 1 < len(lines) else ""
    numpy = bool(line) and len(following) >= 3 and set(following) == {"-"}
    match = _GOOGLE_SECTION.match(line) if following.startswith(" ") else None
    title = line.strip().lower() if numpy else match["title"].lower() if match else ""
    return title if title in _SECTIONS else "", index + 1 + numpy, numpy


def _body(lines: list[str], start: int, ends: Callable[[int], object]) -> tuple[list[str], int]:
    """The lines up to the first that `ends` the body, and the index of that line."""
    end = next((at for at in range(start, len(lines)) if ends(at)), len(lines))
    return lines[start:end], end


def _is_outer(line: str) -> bool:
    return bool(line) and not line.startswith(" ")


def _entries(body: list[str], entry: re.Pattern[str]) -> dict[str, str]:
    """The descriptions by name. A line that is indented deeper than the names continues the one before it."""
    filled = [line for line in body if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    entries: dict[str, list[str]] = {}
    names: list[str] = []
    for line in filled:
        match = None if line[indent] == " " else entry.match(line.strip())
        if match:
            names = [name.strip().lstrip("*") for name in (match["names"] or "").split(",")]
        for name in names:
            entries.setdefault(name, []).append(match["text"] if match else line)
    return {name: text for name, texts in entries.items() if name and (text := _joined(texts))}


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
