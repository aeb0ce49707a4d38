"""The catalog of "JSON Schema Export": tools with their schemas, valid examples and metadata.

It is made from definitions of `tools/list`, so it is the same for a server's own tools and for those behind a hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from interlock.protocols.registry.about import Definition, about
from interlock.signatures import DefinitionError, Validator
from interlock.signatures.examples import examples as make_examples

MAX_EXAMPLES: Final = 10

Examples = Callable[[Definition], list[Any]]


def examples_of(definition: Definition) -> list[Any]:
    """Arguments that fit the input schema: the author's, or generated ones; none if no small ones can be found."""
    try:
        schema = dict(definition["inputSchema"])
        validator = Validator(schema, formats=True)
        given = [example for example in about(definition).examples[:MAX_EXAMPLES] if validator.is_valid(example)]
        return given or make_examples(schema)
    except (DefinitionError, KeyError, TypeError, ValueError):
        return []


def catalog(
    definitions: Iterable[Definition], *, version: str, generated_at: str, examples: Examples = examples_of
) -> dict[str, Any]:
    """The catalog of all tools, with its version and the time of its creation."""
    return {
        "tools": [_row(definition, examples) for definition in definitions],
        "version": version,
        "generated_at": generated_at,
    }


def tool_schema(definition: Definition, examples: Examples = examples_of) -> dict[str, Any]:
    """One tool's schema with its examples and metadata ("export_schema_for_tool")."""
    declared = about(definition)
    schema: dict[str, Any] = {"name": definition["name"], "schema": definition.get("inputSchema", {})}
    if "outputSchema" in definition:
        schema["output_schema"] = definition["outputSchema"]
    schema["examples"] = examples(definition)
    schema["metadata"] = {
        "category": declared.category,
        "version": declared.version,
        "deprecated": bool(declared.deprecated),
        "author": declared.author,
        "tags": list(declared.tags),
        "documentation_url": declared.documentation_url,
    }
    return schema


def _row(definition: Definition, examples: Examples) -> dict[str, Any]:
    declared = about(definition)
    kept = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "security")
    row = {member: definition[member] for member in kept if member in definition}
    row |= {"tags": list(declared.tags), "examples": examples(definition)}
    row |= {key: value for key, value in msgspec.to_builtins(declared).items() if key not in ("tags", "examples")}
    return row
