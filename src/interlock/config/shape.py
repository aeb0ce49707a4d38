"""Turns a parsed table into a struct and reports every setting that does not fit, not only the first."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from interlock.wire.spelling import nearest

from .problems import KeyPath, Report

S = TypeVar("S", bound=msgspec.Struct)


def build(cls: type[S], table: object, at: KeyPath, report: Report, *, server: str | None = None) -> S:
    """Build `cls` from `table`. A setting that does not fit is reported and keeps its default."""
    values: dict[str, object] = {}
    if not isinstance(table, Mapping):
        report.add(at, f"{where(at)} must be a table, not {kind(table)}", f"write it as [{dotted(at)}]", server=server)
        return cls()
    settings = _settings_of(cls)
    for key, value in table.items():
        field = settings.get(key)
        if field is None:
            _report_unknown(key, settings, at, report, server)
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            values[field.name] = build(field.type, value, (*at, key), report, server=server)
        else:
            try:
                values[field.name] = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                part = None if _options(field.type) else _wrong_part(field.type, value)
                message, hint = _explain(*(part[1:] if part else (error, field.type, value)))
                name, inside = (f"`{key}`", ()) if part is None else (_part_name(key, part[0]), (part[0],))
                report.add((*at, key, *inside), f"{name} in {where(at)} {message}", hint, server=server)
    return cls(**values)


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


def _closest(word: str, known: Collection[str]) -> list[str]:
    """The known word that was probably meant, or none."""
    near = nearest(word, known)
    return [] if near is None else [near]


def _report_unknown(key: str, known: Collection[str], at: KeyPath, report: Report, server: str | None) -> None:
    message = f"unknown setting `{key}` in {where(at)}"
    if at and key == "import":
        hint = "move it to the top of the file, above the first [table]"
    elif close := _closest(key, known):
        message += f"; did you mean `{close[0]}`?"
        hint = f"rename it to `{close[0]}`"
    else:
        hint = "remove it; settings here are: " + ", ".join(sorted(known))
    report.add((*at, key), message, hint, server=server)


def where(at: KeyPath) -> str:
    return f"[{dotted(at)}]" if at else "the file"


def dotted(at: KeyPath) -> str:
    return ".".join(str(part) for part in at)


def kind(value: object) -> str:
    """The kind of a TOML or JSON value, in words."""
    name = type(value).__name__
    return "null" if value is None else _PLAIN.get(name, f"a {name}")


def _explain(error: msgspec.ValidationError, wanted: Any, value: object) -> tuple[str, str]:
    options = _options(wanted)
    if options:
        given = value if isinstance(value, list) else [value]
        unknown = next((str(item) for item in given if item not in options), str(value))
        close = _closest(unknown, options)
        hint = f'write "{close[0]}"' if close else "write one of them"
        return "must be one of " + ", ".join(f'"{option}"' for option in options), hint
    text = _QUOTED.sub(_in_words, str(error)).replace("Expected ", "must be ").replace(", got ", ", not ")
    return text, next((hint for start, hint in _HINTS if text.startswith(start)), "correct or remove it")


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
