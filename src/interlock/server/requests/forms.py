"""Forms for a person to fill in, from a JSON Schema or from a class.

MCP has a few kinds of fields and no others (2026-07-28, Elicitation: Requested Schema). Further constraints of a class
are not sent, but the answer is checked against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from interlock.signatures.convert import Converter, Converters
from interlock.signatures.definitions import referenced
from interlock.signatures.type_schema import SchemaWriter
from interlock.signatures.validate import Validator
from interlock.transports.requests.parked_request import UnfitAnswer
from interlock.wire.json_values import decode_json

V = TypeVar("V")
Action = Literal["accept", "decline", "cancel"]
Schema: TypeAlias = dict[str, Any]

_ANY_TYPE: Final = ("type", "title", "description", "default")
_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "string": (*_ANY_TYPE, "minLength", "maxLength", "format", "enum", "enumNames", "oneOf"),
    "number": (*_ANY_TYPE, "minimum", "maximum"),
    "integer": (*_ANY_TYPE, "minimum", "maximum"),
    "boolean": _ANY_TYPE,
    "array": (*_ANY_TYPE, "items", "minItems", "maxItems"),
}
_OF_ITEMS: Final = ("type", "enum", "anyOf")
_FORMATS: Final = ("email", "uri", "date", "date-time")


class Answer(msgspec.Struct, Generic[V], frozen=True):
    """A person's answer. It has a `value` only if they accepted."""

    action: Action
    value: V | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Form(msgspec.Struct, frozen=True):
    """A schema for a person's answer, ready to check it and to turn it into a value."""

    schema: Mapping[str, object]
    validator: Validator
    convert: Converter | None = None

    def read(self, raw: bytes) -> Answer[Any]:
        """A person's answer. Raises `UnfitAnswer` if it does not fit the form."""
        answered = decode_answer(raw, Elicited)
        if answered.action != "accept":
            return Answer(answered.action)
        if problems := self.validator.check(answered.content):
            raise UnfitAnswer("; ".join(problem.reason for problem in problems))
        return Answer("accept", self.convert(answered.content) if self.convert else answered.content)


class Elicited(msgspec.Struct):
    """A client's answer to any elicitation."""

    action: Action
    content: dict[str, Any] = {}


def decode_answer(raw: bytes, kind: type[V]) -> V:
    """A client's answer to a request. Raises INVALID_PARAMS."""
    return decode_json(raw, kind, "INVALID_PARAMS", "this does not answer the request")


def form_of(schema: Mapping[str, object] | type) -> Form:
    """The form for a schema, or for a class whose members are texts, numbers, booleans or choices. Raises TypeError."""
    return _form_of_type(schema) if isinstance(schema, type) else _form_of_schema(msgspec.json.encode(schema))


@lru_cache(maxsize=256)
def _form_of_schema(encoded: bytes) -> Form:
    schema = msgspec.json.decode(encoded, type=Schema)
    if schema.get("type") != "object":
        raise TypeError('a form\'s schema is that of an object: {"type": "object", "properties": …}')
    for name, field in schema.get("properties", {}).items():
        _check_field(name, field)
    return Form(schema, Validator(schema))


@lru_cache(maxsize=256)
def _form_of_type(kind: type) -> Form:
    writer = SchemaWriter("input")
    written = writer.finish(writer.write(kind))
    properties = written.get("properties")
    if written.get("type") != "object" or not isinstance(properties, dict):
        raise TypeError(f"{kind.__name__}: a form is a class with members; MCP has no other kind")
    definitions: Any = written.get("$defs", {})
    fields = {name: _field(f"{kind.__name__}.{name}", field, definitions) for name, field in properties.items()}
    form: dict[str, object] = {"type": "object", "properties": fields}
    if "required" in written:
        form["required"] = written["required"]
    return Form(form, Validator(written), Converters().make(kind))


def _field(name: str, schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A member as a field: only with keywords that clients know, and without null, since people leave a field empty."""
    arms = [_resolved(arm, definitions) for arm in schema.get("anyOf", ())]
    filled = [arm for arm in arms if arm.get("type") != "null"]
    if len(filled) == 1:
        schema = {**filled[0], **schema}
    field = _resolved(schema, definitions)
    if isinstance(field.get("type"), list):
        types = [one for one in field["type"] if one != "null"]
        field = {**field, "type": types[0] if len(types) == 1 else types}
    if isinstance(items := field.get("items"), dict):
        items = _resolved(items, definitions)
        field = {**field, "items": {keyword: items[keyword] for keyword in _OF_ITEMS if keyword in items}}
    if "enum" in field:
        field = {**field, "enum": [choice for choice in field["enum"] if choice is not None]}
    _check_field(name, field)
    known = {keyword: field[keyword] for keyword in _OF_TYPE[field["type"]] if keyword in field}
    if known.get("default", ...) is None:
        del known["default"]
    if known.get("format") not in _FORMATS:
        known.pop("format", None)
    return known


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    target = definitions.get(referenced(schema))
    return schema if target is None else {**target, **schema}


def _check_field(name: str, field: object) -> None:
    """Raise TypeError for a field that MCP does not have."""
    schema: Schema = field if isinstance(field, dict) else {}
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        fits = isinstance(items, dict) and ((items.get("type") == "string" and "enum" in items) or "anyOf" in items)
    else:
        fits = kind == "string" or (kind in ("number", "integer", "boolean") and "enum" not in schema)
    if not fits:
        raise TypeError(f"{name}: a form's fields are texts, numbers, booleans, one choice of texts, or several")
