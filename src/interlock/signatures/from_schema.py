"""From JSON Schema back to fields. Nothing is lost: what a field cannot say is kept as the schema it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from .constraints import Constraint, Keyword, Schema, constrain
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
    said: dict[str, Any] = {}
    constraints: list[Constraint] = []
    for keyword, value in schema.items():
        if keyword in _ATTRIBUTES:
            said[_ATTRIBUTES[keyword]] = value
        elif keyword in _COMPOSED:
            constraints.append(Keyword(keyword, value))
        elif keyword == "enum" and isinstance(value, list):
            said["choices"] = tuple(value)
        elif keyword == "examples" and isinstance(value, list):
            said["examples"] = tuple(value)
        elif keyword == "writeOnly" and value is True:
            said["secret"] = True
    kind = schema.get("type")
    python = _TYPES.get(kind, UNSET) if isinstance(kind, str) else UNSET
    if python is not UNSET:
        field = InputField(name=name, type=python, required=required, constraints=tuple(constraints), **said)
        if _written(field, str(kind)) == schema:
            return field
    return InputField(name=name, required=required, default=schema.get("default", UNSET), schema=schema)


def _written(field: InputField, kind: str) -> Schema:
    """The schema that the field would be written as."""
    schema = field.decorate(constrain({"type": kind}, field.all_constraints()))
    return schema if field.default is UNSET else {**schema, "default": field.default}
