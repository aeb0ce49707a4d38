"""A tool's definition as MCP lists it, with the `security` object of MGP ("Tool Security Metadata")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from .constraints import Schema
from .problems import DefinitionError
from .validate import Validator

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,128}")
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_FLAG: Schema = {"type": "boolean"}
_SECURITY = Validator(
    {
        "type": "object",
        "properties": {
            "risk_level": {"enum": ["safe", "moderate", "dangerous"]},
            "permissions_required": _TEXTS,
            "side_effects": _TEXTS,
            "validator": {"type": "string"},
            "reversible": _FLAG,
            "confirmation_required": _FLAG,
            "code_safety": {"type": "object"},
        },
        "required": ["risk_level"],
    }
)
_ANNOTATIONS = Validator(
    {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "readOnlyHint": _FLAG,
            "destructiveHint": _FLAG,
            "idempotentHint": _FLAG,
            "openWorldHint": _FLAG,
        },
    }
)


class ToolDetails(TypedDict, total=False):
    """The members of a definition beside its name and schemas."""

    title: str
    description: str
    annotations: object
    """MCP's hints."""
    security: object
    """MGP's object."""
    meta: Mapping[str, Any] | None


def tool_definition(
    name: str, input_schema: Schema, output_schema: Schema | None, details: ToolDetails
) -> dict[str, Any]:
    """The definition. Raises DefinitionError for a name or metadata that the protocols do not allow."""
    if not _NAME.fullmatch(name):
        raise DefinitionError(f"tool name {name[:140]!r}: use 1 to 128 of the characters A-Z a-z 0-9 _ - .")
    tool = {
        "name": name,
        "title": details.get("title"),
        "description": details.get("description"),
        "inputSchema": input_schema,
        "outputSchema": output_schema,
        "annotations": _checked(name, "annotations", details.get("annotations"), _ANNOTATIONS),
        "security": _checked(name, "security", details.get("security"), _SECURITY),
        "_meta": dict(details.get("meta") or {}),
    }
    always = ("inputSchema", "outputSchema", "annotations", "security")
    return {member: value for member, value in tool.items() if value or (member in always and value is not None)}


def _checked(name: str, part: str, value: object, validator: Validator) -> object:
    if value is None:
        return None
    try:
        plain = msgspec.to_builtins(value)
    except Exception as error:
        raise DefinitionError(f"tool {name}: {part} has no JSON form: {error}") from error
    if problems := validator.check(plain):
        reasons = "; ".join(f"{problem.field or part}: {problem.reason}" for problem in problems)
        raise DefinitionError(f"tool {name}: {part}: {reasons}", problems)
    return plain
