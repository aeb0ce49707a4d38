"""Converts arguments that a model wrote as text, or as a number, to the type that the schema names.

Only unambiguous values are converted: `"5"` for an integer, `"true"` for a boolean, `"[1]"` for an array, `5` for a
string. A value that fits stays as it is. The caller validates the outcome.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from .definitions import pointed

MAX_DEPTH: Final = 32
MAX_CHANGES: Final = 100
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
_BOOLEANS: Final = {"true": True, "false": False}
_UNCHANGED: Final = object()


def coerced(schema: object, value: object) -> tuple[object, tuple[str, ...]]:
    """The value with converted parts, and the paths of these parts. The original value is not altered."""
    changes: list[str] = []
    return _Coercion(schema, changes).value(schema, value, "", 0), tuple(changes)


class _Coercion:
    def __init__(self, root: object, changes: list[str]) -> None:
        self._root = root
        self._changes = changes

    def value(self, schema: object, value: object, path: str, depth: int) -> object:
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth > MAX_DEPTH or len(self._changes) >= MAX_CHANGES:
            return value
        types = _types(schema)
        if types and not _fits(types, value):
            converted = _converted(types, value)
            if converted is not _UNCHANGED:
                self._changes.append(path or "arguments")
                value = converted
        if isinstance(value, dict):
            return self._members(schema, value, path, depth)
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            items = schema["items"]
            return [self.value(items, each, f"{path}[{at}]", depth + 1) for at, each in enumerate(value)]
        return value

    def _members(self, schema: dict[str, Any], value: dict[str, object], path: str, depth: int) -> dict[str, object]:
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        known = properties if isinstance(properties, dict) else {}
        return {
            name: self.value(known.get(name, rest), each, f"{path}.{name}" if path else name, depth + 1)
            for name, each in value.items()
        }

    def _resolved(self, schema: object) -> object:
        """A schema behind local references. A circle of references is not followed."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict) or not isinstance(reference := schema.get("$ref"), str):
                return schema
            schema = pointed(self._root, reference)
        return None


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    """The types that a schema allows, also by its alternatives; none where it does not say."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(each for each in declared if isinstance(each, str))
    found: tuple[str, ...] = ()
    for alternative in schema.get("anyOf") or schema.get("oneOf") or ():
        types = _types(alternative) if isinstance(alternative, dict) else ()
        if not types:
            return ()
        found += types
    return found


def _fits(types: tuple[str, ...], value: object) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return "integer" in types or "number" in types
        case float():
            return "number" in types or ("integer" in types and value.is_integer())
        case str():
            return "string" in types
        case list():
            return "array" in types
        case dict():
            return "object" in types
    return True


def _converted(types: tuple[str, ...], value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return msgspec.json.encode(value).decode() if "string" in types else _UNCHANGED
    if not isinstance(value, str):
        return _UNCHANGED
    text = value.strip()
    if "integer" in types and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in types and _NUMBER.fullmatch(text):
        return msgspec.json.decode(text)
    if "boolean" in types and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if "null" in types and text == "null":
        return None
    if ("array" in types and text.startswith("[")) or ("object" in types and text.startswith("{")):
        return _structure(text)
    return _UNCHANGED


def _structure(text: str) -> object:
    """An array or object from its JSON. A text with a duplicate name is not converted, as it is ambiguous."""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _UNCHANGED
    same = msgspec.json.encode(decoded).replace(b" ", b"") == "".join(text.split()).encode()
    return decoded if same else _UNCHANGED
