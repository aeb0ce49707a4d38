"""Schemas made out of other schemas and values: unions, choices, arrays of fixed length. Flat wherever possible."""

from __future__ import annotations

import enum
import typing

from .constraints import Schema
from .problems import DefinitionError


def union(schemas: list[Schema]) -> Schema:
    """The union, flat where it can be: a list of types, or one choice more."""
    if len(schemas) == 1:
        return schemas[0]
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": _joined_types(schemas)}
    null: Schema = {"type": "null"}
    rest = [schema for schema in schemas if schema != null]
    if (
        len(schemas) == 2
        and len(rest) == 1
        and "type" in rest[0]
        and not {"const", "not", "allOf", "anyOf"} & set(rest[0])
    ):
        flat = {**rest[0], "type": _joined_types([rest[0], null])}
        listed = flat.get("enum")
        if isinstance(listed, list):
            flat["enum"] = [*listed, None]
        return flat
    return {"anyOf": schemas}


def _joined_types(schemas: list[Schema]) -> list[str]:
    names: list[str] = []
    for schema in schemas:
        told = schema["type"]
        names += [
            name for name in ([told] if isinstance(told, str) else typing.cast("list[str]", told)) if name not in names
        ]
    return names


def choices(values: list[object]) -> Schema:
    """One of the values."""
    names: list[str] = []
    for value in values:
        name = _json_type(value)
        if name not in names:
            names.append(name)
    return {"type": names[0] if len(names) == 1 else names, "enum": values}


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", int: "integer", float: "number", str: "string"}[type(value)]


def plain_choice(value: object) -> object:
    """A choice as JSON holds it; an enum member is its value."""
    plain = value.value if isinstance(value, enum.Enum) else value
    if plain is None or type(plain) in (bool, int, float, str):
        return plain
    raise DefinitionError(f"a choice must be a text, a number, a boolean or null, not {value!r}")


def fixed_array(items: list[Schema], required: int | None = None) -> Schema:
    """An array with one schema for each place; the places after the first `required` may be left out."""
    if not items:
        return {"type": "array", "maxItems": 0}
    fewest = len(items) if required is None else required
    return {"type": "array", "prefixItems": items, "minItems": fewest, "maxItems": len(items)}
