"""Makes a form for the arguments of a tool from its input schema, and reads the arguments from the submitted form.

A field contains the text of its value. Types without a form element are written as JSON.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.web.console.page import MAX_FIELDS
from interlock.wire.errors import Fault

PREFIX: Final = "argument."
WHOLE: Final = "arguments"
"""The field with all arguments as one JSON object."""
MAX_PARAMETERS: Final = MAX_FIELDS - 4
"""Parameters that a form can have; the arguments of a larger tool are one JSON object."""
MAX_CHOICES: Final = 200


class Field(msgspec.Struct, frozen=True):
    """One parameter of a tool."""

    name: str
    kind: str
    """`text`, `number`, `integer`, `choice` or `json`."""
    required: bool
    description: str
    choices: tuple[str, ...] = ()


def fields_of(schema: object) -> list[Field] | None:
    """The fields for a schema; None if the arguments are better entered as one JSON object."""
    if not isinstance(schema, dict):
        return None
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or len(properties) > MAX_PARAMETERS:
        return None
    names = set(required) if isinstance(required, list) and all(isinstance(name, str) for name in required) else set()
    return [_field(name, declared, name in names) for name, declared in properties.items()]


def arguments_of(form: dict[str, str], fields: list[Field] | None) -> msgspec.Raw:
    """The arguments that a person filled in. Raises INVALID_PARAMS for a text that is not of its type."""
    if fields is None:
        return msgspec.Raw(_json(WHOLE, form.get(WHOLE, "") or "{}"))
    filled: dict[str, msgspec.Raw | str] = {}
    for field in fields:
        text = form.get(PREFIX + field.name, "")
        if text == "" and not (field.required and field.kind == "text"):
            continue
        filled[field.name] = text if field.kind == "text" else msgspec.Raw(_json(field.name, text))
    return msgspec.Raw(msgspec.json.encode(filled))


def _field(name: str, declared: object, required: bool) -> Field:
    schema: dict[str, Any] = declared if isinstance(declared, dict) else {}
    description = schema.get("description")
    about = description if isinstance(description, str) else ""
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= MAX_CHOICES:
        return Field(name, "choice", required, about, tuple(msgspec.json.encode(choice).decode() for choice in choices))
    match schema.get("type"):
        case "string":
            return Field(name, "text", required, about)
        case "number" | "integer" as kind:
            return Field(name, kind, required, about)
        case "boolean":
            return Field(name, "choice", required, about, ("true", "false"))
    return Field(name, "json", required, about)


def _json(name: str, text: str) -> bytes:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Fault("INVALID_PARAMS", f"`{name[:100]}` is not valid JSON", hint="a text needs quotes there") from None
    return text.encode()
