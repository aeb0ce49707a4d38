"""Turns parsed sections into structs and reports every setting that does not fit, not only the first."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from interlock.wire.spelling import nearest

from .problems import Section

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


def build(cls: type[S], table: object, section: Section) -> S:
    """Build `cls` from `table`. A setting that does not fit is reported and keeps its default."""
    values: dict[str, object] = {}
    if not isinstance(table, Mapping):
        section.add((), f"{_shown(section)} must be a table, not {kind(table)}", f"write it as [{section.dotted}]")
        return cls()
    settings = _settings_of(cls)
    for key, value in table.items():
        field = settings.get(key)
        if field is None:
            _report_unknown(key, settings, section)
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            values[field.name] = build(field.type, value, section.inside(key))
        else:
            try:
                values[field.name] = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                part = None if _options(field.type) else _wrong_part(field.type, value)
                message, hint = _explain(*(part[1:] if part else (error, field.type, value)))
                name, inside = (f"`{key}`", ()) if part is None else (_part_name(key, part[0]), (part[0],))
                section.add((key, *inside), f"{name} in {_shown(section)} {message}", hint)
    return cls(**values)


def read_sections(
    tables: object,
    section: Section,
    why_bad: Callable[[str], str | None],
    read: Callable[[Mapping[str, object], str, Section], T],
    *,
    hint: str = "choose another name",
) -> dict[str, T]:
    """Read each `[section.NAME]`. A section with a bad name is reported and left out, with `hint`."""
    if not isinstance(tables, Mapping):
        message = f"`{section.path[-1]}` must be tables, not {kind(tables)}"
        section.add((), message, f"write [{section.dotted}.NAME]")
        return {}
    found: dict[str, T] = {}
    for name, table in tables.items():
        inner = section.inside(name)
        if why := why_bad(name):
            inner.add((), f"the name `{name}` in [{section.dotted}] {why}", hint)
        elif not isinstance(table, Mapping):
            inner.add((), f"[{inner.dotted}] must be a table, not {kind(table)}", f"write [{inner.dotted}]")
        else:
            found[name] = read(table, name, inner)
    return found


@cache
def _settings_of(cls: type[msgspec.Struct]) -> Mapping[str, FieldInfo]:
    """The settings of a class by name. Kept, as to read annotations takes longer than to build a server."""
    derived: Collection[str] = getattr(cls, "derived", ())
    return {field.encode_name: field for field in fields(cls) if field.name not in derived}


def _wrong_part(wanted: Any, value: object) -> tuple[str | int, msgspec.ValidationError, Any, object] | None:
    """The first item of a list or table that does not fit, with the error; None if no single item is wrong."""
    inner = [part for part in get_args(wanted) if part is not Ellipsis]
    if isinstance(value, list) and len(inner) == 1:
        parts: list[tuple[str | int, object]] = list(enumerate(value))
    elif isinstance(value, dict) and len(inner) == 2:
        parts = list(value.items())
    else:
        return None
    for name, part in parts:
        try:
            msgspec.convert(part, inner[-1])
        except msgspec.ValidationError as error:
            return name, error, inner[-1], part
    return None


def _part_name(key: str, part: str | int) -> str:
    return f"`{key}.{part}`" if isinstance(part, str) else f"item {part + 1} of `{key}`"


def _report_unknown(key: str, known: Mapping[str, FieldInfo], section: Section) -> None:
    message = f"unknown setting `{key}` in {_shown(section)}"
    if section.path and key == "import":
        hint = "move it to the top of the file, above the first [table]"
    elif home := next((name for name, field in known.items() if key in _settings_inside(field)), None):
        hint = f"move it into [{'.'.join((*map(str, section.path), home))}]"
    elif near := nearest(key, known):
        message += f"; did you mean `{near}`?"
        hint = f"rename it to `{near}`"
    else:
        hint = "remove it; settings here are: " + ", ".join(sorted(known))
    section.add(key, message, hint)


def _settings_inside(field: FieldInfo) -> Collection[str]:
    """The settings of a field that is a table."""
    inner = field.type
    return _settings_of(inner) if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else ()


def _shown(section: Section) -> str:
    return f"[{section.dotted}]" if section.path else "the file"


def kind(value: object) -> str:
    """The kind of a TOML or JSON value, in words."""
    name = type(value).__name__
    return "null" if value is None else _PLAIN.get(name, f"a {name}")


def _explain(error: msgspec.ValidationError, wanted: Any, value: object) -> tuple[str, str]:
    options = _options(wanted)
    if options:
        given = value if isinstance(value, list) else [value]
        unknown = next((str(item) for item in given if item not in options), str(value))
        near = nearest(unknown, options)
        hint = f'write "{near}"' if near else "write one of them"
        return "must be one of " + ", ".join(f'"{option}"' for option in options), hint
    if "matching regex" in str(error) and (form := _described(wanted)):
        return f"must be {form}", "write it so"
    text = _QUOTED.sub(_in_words, str(error)).replace("Expected ", "must be ").replace(", got ", ", not ")
    return text, next((hint for start, hint in _HINTS if text.startswith(start)), "correct or remove it")


def _described(wanted: Any) -> str:
    """The form of a setting that has one, in words."""
    forms = [str(meta.description) for meta in get_args(wanted) if isinstance(meta, msgspec.Meta) and meta.description]
    return next(iter(forms or filter(None, map(_described, get_args(wanted)))), "")


def _options(wanted: Any) -> list[str]:
    """The allowed values of a setting, or of each of its items; none where every value is allowed."""
    if get_origin(wanted) is Literal:
        return [str(option) for option in get_args(wanted)]
    inner = [part for part in get_args(wanted) if part is not Ellipsis and part is not type(None)]
    options = [_options(part) for part in inner]
    return [option for part in options for option in part] if options and all(options) else []


def _in_words(quoted: re.Match[str]) -> str:
    parts = [_PLAIN.get(part, part) for part in quoted[1].split(" | ") if part != "null"]
    return " or ".join(parts) or "null"


_HINTS = (
    ("must be a list", 'write a list: ["…", "…"]'),
    ("must be a table", "write a table: { name = … }"),
    ("must be true or false", "write true or false, without quotes"),
    ("must be a whole number", "write a whole number, without quotes"),
    ("must be a number", "write a number, without quotes"),
    ("must be a text", 'write it in quotes: "…"'),
)
_QUOTED = re.compile(r"`([^`]*)`")
_PLAIN = {
    "array": "a list",
    "list": "a list",
    "object": "a table",
    "dict": "a table",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}
