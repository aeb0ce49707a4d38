"""The members of a CallToolResult: for any value that a tool returned, for whole results, and for failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mcpl.checkpoints import StateReport
from interlock.protocols.registry.errors import problem_data
from interlock.server.definitions.checks import ToolOverdue
from interlock.server.requests.content import CONTENT_TYPES, Content, Members, Text, ToolResult, fitting
from interlock.signatures import ArgumentsError, SignatureError
from interlock.signatures.signature import is_content
from interlock.signatures.type_schema import as_json

_encode = msgspec.json.Encoder().encode


class Items(list[Any]):
    """The items of a generator. Texts are the pieces of one text."""


def typed(value: object, plain: object, revision: Revision, *, wrap: bool) -> bytes:
    """A value with an output schema: as structured content, and again as text or as the content that it is."""
    encoded = _encode(plain)
    structured = b'{"result":%b}' % encoded if wrap else encoded
    if is_content(value, CONTENT_TYPES):
        shown = _encode(pieces(value, revision))
    elif (text := _whole_text(value)) is not None:
        shown = b"[%b]" % _encode(Text(text))
    else:
        shown = b"[%b]" % _encode(Text(plain if isinstance(plain, str) else encoded.decode()))
    return b'"content":%b,"structuredContent":%b' % (shown, structured)


def untyped(value: object, revision: Revision) -> bytes:
    """A value of a function without a return type: content unchanged, anything else as text."""
    if value is None:
        return b'"content":[]'
    if is_content(value, CONTENT_TYPES):
        return b'"content":%b' % _encode(pieces(value, revision))
    text = _whole_text(value)
    return b'"content":[%b]' % _encode(Text(_as_text(value) if text is None else text))


def whole(
    result: ToolResult, structured: object, revision: Revision, signed: Mapping[str, object], *, wrap: bool
) -> bytes:
    """A result that the author made. Its own `_meta` comes first, as `Framing` expects."""
    members: Members = {} if result.meta is None else {"_meta": {**signed, **result.meta}}
    members["content"] = pieces(result.content, revision)
    if structured is not msgspec.UNSET:
        members["structuredContent"] = {"result": structured} if wrap else structured
        members["content"] = members["content"] or [Text(_as_text(structured))]
    if result.is_error:
        members["isError"] = True
    if result.state is not None:
        members["state"] = _state(result.state)
    return _encode(members)[1:-1]


def _state(state: StateReport) -> Members:
    """A state with its `parent`, which is null for a first one (MCPL, State Data)."""
    return {**msgspec.to_builtins(state), "parent": state.parent}


def pieces(value: object, revision: Revision) -> list[Content]:
    """One or several values as content that a client of that revision can read; other values become text."""
    items = value if isinstance(value, list | tuple) else [value]
    return [fitting(item, revision) if isinstance(item, CONTENT_TYPES) else Text(_as_text(item)) for item in items]


def piece(value: object, revision: Revision) -> Content:
    """One value as one piece of content; a list too."""
    return fitting(value, revision) if isinstance(value, CONTENT_TYPES) else Text(_as_text(value))


def partial(items: Items, revision: Revision) -> bytes:
    """The content of a result that was cut off after these items."""
    text = _whole_text(items)
    return _encode([piece(item, revision) for item in items] if text is None else [Text(text)])


def error(text: str) -> bytes:
    """A failure as text."""
    return b'"content":[%b],"isError":true' % _encode(Text(text))


def unfit(failure: ArgumentsError) -> bytes:
    """Arguments that do not fit: as text, so that a model can correct itself, and as data for programs."""
    problems = [problem_data(problem) for problem in failure.problems]
    lines = ["The arguments do not fit:", *(f"- {problem.words}" for problem in failure.problems)]
    return _detailed("\n".join(lines), {"name": "INVALID_TOOL_ARGS", "problems": problems})


def overdue(failure: ToolOverdue) -> bytes:
    """A tool that did not end in time, as the registry's "Timeout Response" has it."""
    return _detailed(str(failure), failure.detail)


def _detailed(text: str, detail: Members) -> bytes:
    return error(text) + b',"structuredContent":%b' % _encode({"error": detail})


def _whole_text(value: object) -> str | None:
    """The text that a generator produced piece by piece; None for any other value."""
    if isinstance(value, Items) and value and all(isinstance(item, str) for item in value):
        return "".join(value)
    return None


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    plain = as_json(value)
    if plain is msgspec.UNSET:
        raise SignatureError(f"a tool returned a {type(value).__name__}, which has no JSON form")
    return _encode(plain).decode()
