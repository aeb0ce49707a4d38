"""Adds and removes tables of a TOML text without touching the rest: comments, order, spacing and line ends stay.

Rule: what a change comes to is read back and compared. A text that would mean anything else than asked for is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit

from .lines import toml_sections

Path = tuple[str, ...]


class CannotChange(ValueError):
    """The text is written in a way that such a change would not keep."""


def add_tables(text: str, path: Path, tables: Mapping[str, Mapping[str, object]]) -> str:
    """`text` with `[path.NAME]` for each of the tables at its end, in place of those that may be there."""
    kept = text
    for name in tables:
        kept = remove_table(kept, (*path, name))
    wanted = tomllib.loads(kept)
    holder = wanted
    for key in path:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            raise CannotChange(f"`{key}` is not a table")
    holder |= {name: dict(body) for name, body in tables.items()}
    return _checked(_appended(kept, _written(path, tables)), wanted, path)


def remove_table(text: str, path: Path) -> str:
    """`text` without `[path]` and all below it; the same text if there is none."""
    wanted = tomllib.loads(text)
    holder = wanted
    for key in path[:-1]:
        holder = holder.get(key, {})
        if not isinstance(holder, dict):
            return text
    if holder.pop(path[-1], None) is None:
        return text
    try:
        return _checked(_cut(text, path), wanted, path)
    except CannotChange:
        return _checked(_taken_out(text, path), wanted, path)


def _appended(text: str, tables: str) -> str:
    """A text without an end to its last line stays without one, so that taking the tables out gives it back."""
    end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    added = tables.replace("\n", end)
    if not text:
        return added
    if text.endswith("\n"):
        return text + end + added
    return text + end * 2 + added.removesuffix(end)


def _written(path: Path, tables: Mapping[str, Mapping[str, object]]) -> str:
    outer: dict[str, Any] = {}
    for name, body in tables.items():
        outer[name] = tomlkit.table()
        for key, value in body.items():
            outer[name][key] = _inline(value) if isinstance(value, Mapping) else value
    for name in reversed(path):
        holder = tomlkit.table(is_super_table=True)
        holder.update(outer)
        outer = {name: holder}
    document = tomlkit.document()
    document.update(outer)
    return tomlkit.dumps(document)


def _inline(values: Mapping[str, object]) -> object:
    inline = tomlkit.inline_table()
    inline.update(dict(values))
    return inline


def _cut(text: str, path: Path) -> str:
    """Without the lines of the tables, from their headers to their last values, and the empty line before each."""
    lines = text.split("\n")
    for section in reversed(toml_sections(text)):
        if section.path[: len(path)] != path:
            continue
        first, last = section.first - 1, section.last - 1
        is_end = last == len(lines) - 1
        if first > 0 and not lines[first - 1].strip():
            first -= 1
        if is_end and first > 0:
            lines[first - 1] = lines[first - 1].removesuffix("\r")
        del lines[first : last + 1]
    return "\n".join(lines)


def _taken_out(text: str, path: Path) -> str:
    """The same for a table that is written on one line, or by the keys in it."""
    document = tomlkit.parse(text)
    holder: MutableMapping[str, Any] = document
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return tomlkit.dumps(document)


def _checked(text: str, wanted: Mapping[str, object], path: Path) -> str:
    try:
        means = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        means = {}
    if _filled(means, path) != _filled(wanted, path):
        raise CannotChange(f"`{'.'.join(path)}` is written in a way that cannot be changed without changing the rest")
    return text


def _filled(content: Mapping[str, object], path: Path) -> Mapping[str, object]:
    """Without tables on that path that hold nothing: `[servers]` may stay, or go with the last of them."""
    if not path or not isinstance(inner := content.get(path[0]), Mapping):
        return content
    rest = {key: value for key, value in content.items() if key != path[0]}
    held = _filled(inner, path[1:])
    return {**rest, path[0]: held} if held else rest
