"""The definitions of the hub's own tools. Every model accepts their names."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.hub.tool_search.creations import CREATE_SCHEMA

FIND: Final = "find_tools"
CALL: Final = "call_tool"
REQUEST: Final = "request_tools"

ALIASES: Final = {
    "mgp.tools.discover": FIND,
    "mgp_tools_discover": FIND,
    "mgp/tools/discover": FIND,
    "mgp.tools.request": REQUEST,
    "mgp_tools_request": REQUEST,
    "mgp/tools/request": REQUEST,
}
"""Other names for these tools (MGP, Dynamic Tool Discovery)."""

_FILTER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "categories": {"type": "array", "items": {"type": "string"}},
        "risk_level_max": {"enum": ["safe", "moderate", "dangerous"]},
        "status": {"enum": ["connected", "known"]},
        "server": {"type": "string"},
    },
    "additionalProperties": False,
}

_FIND: Final[dict[str, Any]] = {
    "name": FIND,
    "title": "Find tools",
    "description": (
        "Find tools for the next step of your task. Only a few of the available tools are listed here; search before "
        "you conclude that something cannot be done. Ask for one step at a time, say what is to be done to what, and "
        "name the service or platform if you know it, for example: github: list open pull requests of a repository. "
        "The tools found come with their input schemas; call them with call_tool."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What the tool should do, in a few words."},
            "max_results": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
            "strategy": {"enum": ["hybrid", "keyword", "semantic", "category"], "default": "hybrid"},
            "filter": _FILTER,
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}

_CALL: Final[dict[str, Any]] = {
    "name": CALL,
    "title": "Call a tool",
    "description": "Call a tool that find_tools returned, by its name there, with arguments that fit its schema.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "What its input schema asks for."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}

_REQUEST: Final[dict[str, Any]] = {
    "name": REQUEST,
    "title": "Request tools",
    "description": (
        "Say which capability is missing for a step of your task, and have the tools for it loaded. Use find_tools "
        "when you know what to search for; use this when you know what you need to be able to do."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "reason": {"type": "string", "description": "Why it is needed, such as capability_gap."},
            "context": {"type": "string", "description": "What you are doing and what is missing."},
            "requirements": {
                "type": "object",
                "properties": {
                    "capabilities": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
                    "input_types": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
                    "output_types": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
                    "preferred_risk_level": {"enum": ["safe", "moderate", "dangerous"]},
                },
                "additionalProperties": False,
            },
            "task_trace_id": {"type": "string"},
        },
        "required": ["context"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}

DEFINITIONS: Final = {definition["name"]: msgspec.json.encode(definition) for definition in (_FIND, _CALL, _REQUEST)}
"""The listed definitions by name. Their bytes never change, so that prompt caches stay valid."""
TOKENS: Final = {FIND: 255, CALL: 90, REQUEST: 224}
"""The tokens of each definition."""
_ACCEPTED: Final[dict[str, Any]] = {
    **_REQUEST["inputSchema"],
    "properties": {**_REQUEST["inputSchema"]["properties"], "create": CREATE_SCHEMA},
}
SCHEMAS: Final = {FIND: _FIND["inputSchema"], CALL: _CALL["inputSchema"], REQUEST: _ACCEPTED}
"""The schemas that arguments must fit. `create` follows the answer `creating`, and costs no other agent a token."""


def with_categories(names: list[str]) -> bytes:
    """`find_tools` with the categories to browse in its description (level L1)."""
    if not names:
        return DEFINITIONS[FIND]
    text = f"{_FIND['description']} Categories: {', '.join(names)}."
    return msgspec.json.encode({**_FIND, "description": text})
