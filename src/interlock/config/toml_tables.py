"""Adds and removes tables of a TOML text and leaves the rest unchanged: comments, order, spacing and line ends.

Each change is parsed again and compared with the intended content. A change that differs from it is refused. A hub that
only reads its configuration does not load `tomlkit`, which takes more than two megabytes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

from .lines import toml_table_spans

Path = tuple[str, ...]


class CannotChange(ValueError):
    """The change would alter other parts of the text."""


def add_tables(text: str, path: Path, tables: Mapping[str, Mapping[str, object]]) -> str:
    """Append `[path.NAME]` for each table, and remove existing tables of the same names."""
    for name in tables:
        text = remove_table(text, (*path, name))
    wanted = tomllib.loads(text)
    holder = wanted
    for key in path:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            raise CannotChange(f"`{key}` is not a table")
    holder |= {name: dict(body) for name, body in tables.items()}
    return _checked(_append(text, _render(path, tables)), wanted, path)


def remove_table(text: str, path: Path) -> str:
    """Remove `[path]` and all tables below it, if they exist."""
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
        return _checked(_delete(text, path), wanted, path)


def set_value(text: str, path: Path, value: object) -> str:
    """Set one value; tables on the way to it are made where they are missing."""
    import tomlkit

    wanted = tomllib.loads(text)
    document = tomlkit.parse(text)
    plain: dict[str, Any] = wanted
    holder: MutableMapping[str, Any] = document
    for key in path[:-1]:
        plain = plain.setdefault(key, {})
        if key not in holder:
            holder[key] = tomlkit.inline_table() if isinstance(holder, tomlkit.items.InlineTable) else tomlkit.table()
        holder = holder[key]
        if not isinstance(plain, dict):
            raise CannotChange(f"`{key}` is not a table")
    plain[path[-1]] = holder[path[-1]] = value
    return _checked(tomlkit.dumps(document), wanted, path)


def _append(text: str, tables: str) -> str:
    """A text without a final line end stays without one, so that removing the tables restores it."""
    end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    added = tables.replace("\n", end)
    if not text:
        return added
    if text.endswith("\n"):
        return text + end + added
    return text + end * 2 + added.removesuffix(end)


def _render(path: Path, tables: Mapping[str, Mapping[str, object]]) -> str:
    import tomlkit

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
    import tomlkit

    inline = tomlkit.inline_table()
    inline.update(dict(values))
    return inline


def _cut(text: str, path: Path) -> str:
    """Delete the lines of the tables, from header to last value, and the empty line before each."""
    lines = text.split("\n")
    for span in reversed(toml_table_spans(text)):
        if span.path[: len(path)] != path:
            continue
        first, last = span.first - 1, span.last - 1
        is_end = last == len(lines) - 1
        if first > 0 and not lines[first - 1].strip():
            first -= 1
        if is_end and first > 0:
            lines[first - 1] = lines[first - 1].removesuffix("\r")
        del lines[first : last + 1]
    return "\n".join(lines)


def _delete(text: str, path: Path) -> str:
    """Delete a table that is written inline or as dotted keys."""
    import tomlkit

    document = tomlkit.parse(text)
    holder: MutableMapping[str, Any] = document
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return tomlkit.dumps(document)


def _checked(text: str, wanted: Mapping[str, object], path: Path) -> str:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        content = {}
    if _without_empty(content, path) != _without_empty(wanted, path):
        raise CannotChange(f"`{'.'.join(path)}` cannot be changed without changing other parts of the file")
    return text


def _without_empty(content: Mapping[str, object], path: Path) -> Mapping[str, object]:
    """The content without empty tables on `path`: an empty `[servers]` may stay or go."""
    if not path or not isinstance(inner := content.get(path[0]), Mapping):
        return content
    others = {key: value for key, value in content.items() if key != path[0]}
    filled = _without_empty(inner, path[1:])
    return {**others, path[0]: filled} if filled else others
