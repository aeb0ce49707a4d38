"""Schemas of unions, choices and arrays of fixed length, flat wherever possible."""

from __future__ import annotations

import enum

from .constraints import Schema
from .problems import DefinitionError

JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def union(schemas: list[Schema]) -> Schema:
    """The union, flat where it can be: a list of types, or one choice more."""
    if len(schemas) == 1:
        return schemas[0]
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": _joined_types(schemas)}
    null: Schema = {"type": "null"}
    rest = [schema for schema in schemas if schema != null]
    one = rest[0] if len(schemas) == 2 and len(rest) == 1 else {}
    if "type" in one and {"const", "not", "allOf", "anyOf"}.isdisjoint(one):
        flat = {**one, "type": _joined_types([one, null])}
        listed = flat.get("enum")
        if isinstance(listed, list):
            flat["enum"] = [*listed, None]
        return flat
    return {"anyOf": schemas}


def _joined_types(schemas: list[Schema]) -> list[object]:
    listed = [schema["type"] for schema in schemas]
    return list(dict.fromkeys(name for names in listed for name in (names if isinstance(names, list) else [names])))


def choices(values: list[object]) -> Schema:
    """The schema of a value that is one of these."""
    names = list(dict.fromkeys(JSON_TYPES[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names, "enum": values}


def plain_choice(value: object) -> object:
    """A choice as JSON holds it; an enum member is its value."""
    plain = value.value if isinstance(value, enum.Enum) else value
    if type(plain) in JSON_TYPES:
        return plain
    raise DefinitionError(f"a choice must be a text, a number, a boolean or null, not {value!r}")


def fixed_array(items: list[Schema], required: int | None = None) -> Schema:
    """An array with one schema for each place; the places after the first `required` may be left out."""
    if not items:
        return {"type": "array", "maxItems": 0}
    fewest = len(items) if required is None else required
    return {"type": "array", "prefixItems": items, "minItems": fewest, "maxItems": len(items)}
