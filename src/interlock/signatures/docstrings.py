"""Reads descriptions out of docstrings in the Google, NumPy and Sphinx styles. An odd docstring is all prose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import msgspec

_GOOGLE_SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]{1,30}):$")
_GOOGLE_TYPE = re.compile(r"^[\w.]+(?:\[[\w.,\[\] |]*\])?(?: \| [\w.\[\], ]+)*:\s+(?=\S)")
"""`dict[str, int]: ` before what is said of a result."""
_GOOGLE_ENTRY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"^\*{0,2}(?P<names>\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_ENTRY = re.compile(r"^:(?P<role>[a-z]+)(?:\s+(?P<what>[^:]*))?:\s*(?P<text>.*)$")
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "var", "ivar", "cvar"})
_PARAMETERS = frozenset(
    {"args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments", "attributes"}
)
_RETURNS = frozenset({"returns", "return", "yields", "yield"})
_OTHER = frozenset(
    {"raises", "raise", "examples", "example", "note", "notes", "see also", "references", "warns", "warnings", "todo"}
)


class Docstring(msgspec.Struct, frozen=True):
    """What a docstring says of a function or class."""

    text: str = ""
    """The description before the first section."""
    parameters: Mapping[str, str] = {}
    returns: str = ""

    @classmethod
    def parse(cls, text: str) -> Docstring:
        """What a docstring in Google's, NumPy's or Sphinx's style says, or one in no style."""
        if "\n" not in text and not text.startswith(":"):
            return cls(text.strip())
        lines = inspect.cleandoc(text).splitlines()
        prose: list[str] = []
        parameters: dict[str, str] = {}
        returns = ""
        index = 0
        while index < len(lines):
            title, body_at, numpy = _section(lines, index)
            if title:
                body, index = _body(lines, body_at, numpy=numpy)
                if title in _PARAMETERS:
                    parameters |= _numpy_entries(body) if numpy else _google_entries(body)
                elif title in _RETURNS:
                    returns = _numpy_returns(body) if numpy else _GOOGLE_TYPE.sub("", _joined(body))
            elif entry := _SPHINX_ENTRY.match(lines[index]):
                told, index = _continued(lines, index, entry["text"])
                if entry["role"] in _SPHINX_PARAMETERS and entry["what"]:
                    parameters[entry["what"].split()[-1].lstrip("*")] = told
                elif entry["role"] in _RETURNS:
                    returns = told
            else:
                prose.append(lines[index])
                index += 1
        return cls("\n".join(prose).strip(), parameters, returns)


def _section(lines: list[str], index: int) -> tuple[str, int, bool]:
    """The title in lower case if a section starts at this line, where its body starts, and whether it is underlined."""
    line = lines[index]
    if index + 1 < len(lines) and line and set(lines[index + 1]) == {"-"} and len(lines[index + 1]) >= 3:
        title = line.strip().lower()
        return (title, index + 2, True) if title in _PARAMETERS | _RETURNS | _OTHER else ("", index, False)
    match = _GOOGLE_SECTION.match(line)
    if match and match["title"].lower() in _PARAMETERS | _RETURNS | _OTHER:
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if following.startswith(" "):
            return match["title"].lower(), index + 1, False
    return "", index, False


def _body(lines: list[str], index: int, *, numpy: bool) -> tuple[list[str], int]:
    """The lines of a section, and where the next one starts."""
    body: list[str] = []
    while index < len(lines):
        line = lines[index]
        if numpy and _section(lines, index)[0]:
            break
        if not numpy and line and not line.startswith(" "):
            break
        body.append(line)
        index += 1
    return body, index


def _google_entries(body: list[str]) -> dict[str, str]:
    indent = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    entries: dict[str, str] = {}
    name = ""
    for line in body:
        head = len(line) - len(line.lstrip()) == indent
        if head and (match := _GOOGLE_ENTRY.match(line.strip())):
            name = match["name"]
            entries[name] = match["text"].strip()
        elif name and line.strip():
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return {name: text for name, text in entries.items() if text}


def _numpy_entries(body: list[str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in body:
        if line and not line.startswith(" "):
            match = _NUMPY_ENTRY.match(line)
            names = [name.strip().lstrip("*") for name in match["names"].split(",")] if match else []
        elif line.strip():
            for name in names:
                entries[name] = f"{entries.get(name, '')} {line.strip()}".strip()
    return entries


def _numpy_returns(body: list[str]) -> str:
    told = [line for line in body if line.startswith(" ")]
    return _joined(told or body)


def _continued(lines: list[str], index: int, first: str) -> tuple[str, int]:
    told = [first]
    index += 1
    while index < len(lines) and lines[index].startswith(" "):
        told.append(lines[index])
        index += 1
    return _joined(told), index


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
