"""Reads JSON Schema back to fields without loss: a schema that a field cannot express is kept unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from .constraints import Keyword, Schema, constrain
from .fields import InputField
from .problems import DefinitionError

_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
_ATTRIBUTES = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minimum": "min_value",
    "maximum": "max_value",
    "format": "format",
    "description": "description",
    "default": "default",
}
_COMPOSED = frozenset({"exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


def read_schema(schema: object) -> tuple[tuple[InputField, ...], bool, Schema]:
    """The fields of an object schema, whether it is closed, and the keywords that belong to it as a whole."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise DefinitionError('an input schema describes an object; give it "type": "object"')
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise DefinitionError("'properties' must be an object and 'required' an array")
    fields = tuple(_field(str(name), inner, required=name in required) for name, inner in properties.items())
    closed = schema.get("additionalProperties") is False
    known = {"type", "properties"} | ({"additionalProperties"} if closed else set())
    if required and required == [field.name for field in fields if field.is_required]:
        known.add("required")
    return fields, closed, {name: value for name, value in schema.items() if name not in known}


def _field(name: str, schema: object, *, required: bool) -> InputField:
    if schema is True:
        return InputField(name=name, type=Any, required=required)
    if not isinstance(schema, dict):
        raise DefinitionError(f"property '{name}' must be a schema that some value fits, not {schema!r}")
    given: dict[str, Any] = {_ATTRIBUTES[keyword]: schema[keyword] for keyword in schema if keyword in _ATTRIBUTES}
    for keyword, attribute in (("enum", "choices"), ("examples", "examples")):
        if isinstance(schema.get(keyword), list):
            given[attribute] = tuple(schema[keyword])
    composed = tuple(Keyword(keyword, value) for keyword, value in schema.items() if keyword in _COMPOSED)
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        secret = schema.get("writeOnly") is True
        field = InputField(
            name=name, type=_TYPES[kind], required=required, constraints=composed, secret=secret, **given
        )
        if _written(field, kind) == schema:
            return field
    return InputField(name=name, required=required, default=schema.get("default", UNSET), schema=schema)


def _written(field: InputField, kind: str) -> Schema:
    """The schema that the field would be written as."""
    schema = field.decorate(constrain({"type": kind}, field.all_constraints()))
    return schema if field.default is UNSET else {**schema, "default": field.default}
