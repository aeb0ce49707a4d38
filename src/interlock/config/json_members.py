"""Sets and removes one member of a JSON text and leaves the rest unchanged: comments, order and spacing.

The caller has parsed the text before (`parse_json`), so this module checks nothing.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from .documents import blank_comments


class JsonMember(NamedTuple):
    """The positions of one `"key": value` in the text."""

    key: str
    start: int
    value: int
    end: int


def set_member(text: str, path: tuple[str, ...], value: object) -> str:
    """Set the member at `path` to `value`. Missing objects on the path are created."""
    plain = blank_comments(text)
    opening = _skip(plain, 0)
    for depth, key in enumerate(path):
        members, _ = _members(plain, opening)
        found = next((member for member in members if member.key == key), None)
        if found is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _insert(text, plain, opening, members, key, value)
        if depth == len(path) - 1:
            return text[: found.value] + _dump(value, _indent_of(text, found.start), text) + text[found.end :]
        if plain[found.value] != "{":
            raise ValueError(f"`{key}` is not an object")
        opening = found.value
    return text


def remove_member(text: str, path: tuple[str, ...]) -> str:
    """Remove the member at `path`, if it exists."""
    plain = blank_comments(text)
    opening = _skip(plain, 0)
    for depth, key in enumerate(path):
        members, closing = _members(plain, opening)
        at = next((number for number, member in enumerate(members) if member.key == key), None)
        if at is None:
            return text
        if depth == len(path) - 1:
            return _cut(text, opening, closing, members, at)
        if plain[members[at].value] != "{":
            return text
        opening = members[at].value
    return text


def _members(plain: str, opening: int) -> tuple[list[JsonMember], int]:
    """The members of the object that opens at `opening`, and where it closes."""
    decoder = json.JSONDecoder()
    members: list[JsonMember] = []
    at = _skip(plain, opening + 1)
    while plain[at] != "}":
        key, after = decoder.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, after) + 1)
        _, end = decoder.raw_decode(plain, value)
        members.append(JsonMember(key, at, value, end))
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return members, at


def _insert(text: str, plain: str, opening: int, members: list[JsonMember], key: str, value: object) -> str:
    end = _line_end(text)
    if members:
        last = members[-1]
        indent = _indent_of(text, last.start)
        return text[: last.end] + f",{end}{indent}{json.dumps(key)}: {_dump(value, indent, text)}" + text[last.end :]
    outer = _indent_of(text, opening)
    indent = outer + _unit(text)
    inserted = f"{end}{indent}{json.dumps(key)}: {_dump(value, indent, text)}{end}{outer}"
    closing = _skip(plain, opening + 1)
    comments = text[opening + 1 : closing].rstrip()
    return text[: opening + 1] + comments + inserted + text[closing:]


def _cut(text: str, opening: int, closing: int, members: list[JsonMember], at: int) -> str:
    member = members[at]
    if at > 0:
        return text[: members[at - 1].end] + text[member.end :]
    if len(members) > 1:
        return text[: member.start] + text[members[1].start :]
    after = text[member.end : closing].replace(",", "", 1)
    inside = text[opening + 1 : member.start] + after
    return text[: opening + 1] + (inside if inside.strip() else "") + text[closing:]


def _dump(value: object, indent: str, text: str) -> str:
    """JSON with the indentation and line ends of that text."""
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", _line_end(text) + indent)


def _line_end(text: str) -> str:
    """The line end that most lines have."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def _indent_of(text: str, at: int) -> str:
    """The white space at the start of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """The indentation of the first indented line."""
    for line in text.splitlines():
        if indent := line[: len(line) - len(line.lstrip())]:
            return indent if line.strip() else "  "
    return "  "


def _skip(plain: str, at: int) -> int:
    while at < len(plain) and plain[at] in " \t\r\n":
        at += 1
    return at
