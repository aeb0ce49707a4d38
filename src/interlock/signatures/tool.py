"""A tool's definition as MCP lists it, with the `security` object of MGP ("Tool Security Metadata")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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


def tool_definition(
    name: str,
    description: str,
    input_schema: Schema,
    output_schema: Schema | None,
    *,
    title: str = "",
    annotations: object = None,
    security: object = None,
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The definition; raises DefinitionError for a name or metadata that the protocols do not allow."""
    if not _NAME.fullmatch(name):
        raise DefinitionError(f"tool name {name[:140]!r}: use 1 to 128 of the characters A-Z a-z 0-9 _ - .")
    tool: dict[str, Any] = {"name": name}
    if title:
        tool["title"] = title
    if description:
        tool["description"] = description
    tool["inputSchema"] = input_schema
    if output_schema is not None:
        tool["outputSchema"] = output_schema
    if annotations is not None:
        tool["annotations"] = _checked(name, "annotations", annotations, _ANNOTATIONS)
    if security is not None:
        tool["security"] = _checked(name, "security", security, _SECURITY)
    if meta:
        tool["_meta"] = dict(meta)
    return tool


def _checked(name: str, part: str, value: object, validator: Validator) -> object:
    try:
        plain = msgspec.to_builtins(value)
    except Exception as error:
        raise DefinitionError(f"tool {name}: {part} has no JSON form: {error}") from error
    if problems := validator.check(plain):
        told = "; ".join(f"{problem.field or part}: {problem.reason}" for problem in problems)
        raise DefinitionError(f"tool {name}: {part}: {told}", problems)
    return plain
