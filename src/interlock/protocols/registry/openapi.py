"""OpenAPI 3.1 documents of tools: one path for each tool, with its own schemas. Pure.

The part of a tool depends on that tool alone, so a document of thousands can be made tool by tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from interlock.protocols.registry.about import Definition, about
from interlock.protocols.registry.catalog import Examples, examples_of
from interlock.protocols.registry.errors import ERROR_TYPES
from interlock.signatures import DefinitionError, Validator

Json = dict[str, Any]

_FAILURES: Final = {
    400: "The request is not well-formed",
    401: "A key is needed, or this one is not known",
    403: "Not allowed",
    404: "No such tool for this caller",
    405: "Another method is answered here",
    409: "The tool needs something first that a plain request cannot give",
    413: "Larger than the limit",
    415: "The body must be application/json",
    422: "The arguments do not fit the tool's schema",
    429: "Too many requests",
    500: "A fault of the hub",
    502: "The tool failed, or its server did",
    503: "The tool's server is not ready, or too much is under way",
    504: "No answer in time",
}
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9._-]")
_DATA_KEYWORDS: Final = frozenset({"const", "enum", "default", "examples", "example"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


class ToolPart(NamedTuple):
    """The part of a document that one tool makes up."""

    paths: Json
    schemas: Json
    tags: list[str]


class ComponentNames:
    """Valid and unique component names for tools."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """The component of the tool with this name."""
        plain = _UNNAMED.sub("_", name)
        component, number = plain, 1
        while component in self._taken:
            number += 1
            component = f"{plain}.{number}"
        self._taken.add(component)
        return component


def openapi(
    definitions: Iterable[Definition],
    *,
    title: str,
    version: str,
    description: str = "",
    examples: Examples = examples_of,
) -> Json:
    """The document of the given tools. It contains no trace of other tools."""
    names = ComponentNames()
    parts = [tool_part(each, names.take(str(each["name"])), examples) for each in definitions]
    paths, schemas = dict(OWN_PATHS), dict(OWN_SCHEMAS)
    tags: dict[str, None] = {}
    for part in parts:
        paths |= part.paths
        schemas |= part.schemas
        tags |= dict.fromkeys(part.tags)
    return {
        **introduction(title, version, description),
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {"schemas": schemas, **OWN_COMPONENTS},
    }


def introduction(title: str, version: str, description: str = "") -> Json:
    """The members of a document that do not depend on its tools."""
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, **({"description": description} if description else {})},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{"key": []}, {}],
    }


def tool_part(definition: Definition, component: str, examples: Examples = examples_of) -> ToolPart:
    """The paths, schemas and tags of one tool."""
    path = f"/tools/{quote(str(definition['name']), safe='')}"
    schemas = {f"{component}.input": _embedded(definition.get("inputSchema"), f"{component}.input")}
    if "outputSchema" in definition:
        schemas[f"{component}.output"] = _embedded(definition["outputSchema"], f"{component}.output")
    tags = _tags(definition)
    shared = {"tags": tags, **({"deprecated": True} if about(definition).deprecated else {})}
    body = _arguments(component, examples(definition))
    paths: Json = {
        path: {"get": _showing(definition, shared), "post": _calling(definition, component, body, shared)},
        f"{path}/validate": {"post": _validating(definition, body, shared)},
    }
    return ToolPart(paths, schemas, tags)


def _tags(definition: Definition) -> list[str]:
    declared = about(definition)
    return [declared.category] if declared.category else [str(definition["name"]).partition("__")[0]]


def _listing() -> Json:
    shown = {"type": "object", "properties": {"tools": {"type": "array", "items": {"$ref": _at("Tool")}}}}
    shown["required"] = ["tools"]
    return {
        "operationId": "tools",
        "summary": "The tools this caller sees",
        "responses": {"200": _json("The tools", shown), **_failures(401, 405)},
    }


def _showing(definition: Definition, shared: Json) -> Json:
    return {
        **shared,
        "operationId": f"show:{definition['name']}",
        "summary": f"What {definition['name']} is",
        "responses": {"200": _json("The tool", {"$ref": _at("Tool")}), **_failures(401, 404, 405)},
    }


def _calling(definition: Definition, component: str, body: Json, shared: Json) -> Json:
    result: Json = {"$ref": _at("Result")}
    if "outputSchema" in definition:
        structured = {"properties": {"structuredContent": {"$ref": _at(f"{component}.output")}}}
        result = {"allOf": [result, structured]}
    answer = _json("What the tool returned", result)
    answer["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return {
        **shared,
        "operationId": f"call:{definition['name']}",
        "summary": str(definition.get("title") or definition["name"]),
        "description": str(definition.get("description") or ""),
        "requestBody": body,
        "responses": {"200": answer, **_failures(*_FAILURES)},
        **_documentation(definition),
    }


def _validating(definition: Definition, body: Json, shared: Json) -> Json:
    return {
        **shared,
        "operationId": f"validate:{definition['name']}",
        "summary": f"Whether {definition['name']} would take these arguments",
        "requestBody": body,
        "responses": {"200": _json("It would", {"$ref": _at("Validity")}), **_failures(*_FAILURES)},
    }


def _arguments(component: str, found: list[Any]) -> Json:
    media: Json = {"schema": {"$ref": _at(f"{component}.input")}}
    if found:
        media["examples"] = {f"{number}": {"value": value} for number, value in enumerate(found, 1)}
    return {"required": True, "content": {"application/json": media}}


def _documentation(definition: Definition) -> Json:
    url = about(definition).documentation_url
    return {"externalDocs": {"url": url}} if url else {}


def _failures(*statuses: int) -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _failure(status: int) -> Json:
    return _json(_FAILURES[status], {"$ref": _at("Error")})


def _json(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _at(component: str) -> str:
    return f"#/components/schemas/{component}"


def _embedded(schema: object, component: str) -> Json:
    """A tool's schema as a component. References to its root point to the component."""
    if not isinstance(schema, dict):
        return {"type": "object"}
    try:
        Validator(schema)
    except DefinitionError:
        return {"type": "object", "description": "The tool's own schema cannot be used."}
    moved = _moved({key: value for key, value in schema.items() if key != "$id"}, _at(component))
    assert isinstance(moved, dict)
    return moved


def _moved(schema: object, root: str) -> object:
    if isinstance(schema, list):
        return [_moved(part, root) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved: Json = {}
    for keyword, value in schema.items():
        if keyword == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            moved[keyword] = root + value[1:]
        elif keyword in _DATA_KEYWORDS:
            moved[keyword] = value
        elif keyword in _NAMED_SCHEMAS and isinstance(value, dict):
            moved[keyword] = {name: _moved(part, root) for name, part in value.items()}
        else:
            moved[keyword] = _moved(value, root)
    return moved


_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_ERROR: Final[Json] = {
    "type": "object",
    "properties": {
        "code": {"type": "integer", "enum": sorted(ERROR_TYPES)},
        "message": {"type": "string"},
        "error_type": {"type": "string"},
        "field": _MAYBE_TEXT,
        "reason": {"type": "string"},
        "trace_id": {"type": "string"},
        "suggestions": _TEXTS,
        "documentation_url": _MAYBE_TEXT,
        "tool_name": _MAYBE_TEXT,
        "problems": {"type": "array", "items": {"type": "object"}},
        "retry": {"type": "boolean"},
        "retry_after_ms": {"type": ["integer", "null"]},
        "timeout_ms": {"type": "integer"},
    },
    "required": ["code", "message", "error_type", "field", "reason", "trace_id", "suggestions", "documentation_url"],
}
_RESULT: Final[Json] = {
    "type": "object",
    "properties": {
        "content": {"type": "array", "items": {"type": "object"}},
        "structuredContent": {},
        "isError": {"type": "boolean", "const": False},
    },
    "required": ["content"],
}
_TOOL: Final[Json] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "inputSchema": {"type": "object"}},
    "required": ["name", "inputSchema"],
}
_VALIDITY: Final[Json] = {
    "type": "object",
    "properties": {"valid": {"type": "boolean", "const": True}, "confirmation": {"type": "string"}},
    "required": ["valid"],
}

OWN_PATHS: Final[Json] = {"/tools": {"get": _listing()}}
OWN_SCHEMAS: Final[Json] = {"Error": _ERROR, "Result": _RESULT, "Tool": _TOOL, "Validity": _VALIDITY}
OWN_COMPONENTS: Final[Json] = {
    "responses": {str(status): _failure(status) for status in _FAILURES},
    "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
}
"""Components beside the schemas. Every tool refers to them."""
