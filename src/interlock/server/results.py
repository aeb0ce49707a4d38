"""The members of a CallToolResult: for any value that a tool returned, for whole results, and for failures."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.registry.errors import told as problem_data
from interlock.server.checks import Overdue
from interlock.server.content import CONTENT_TYPES, Content, Members, Text, ToolResult, fitting
from interlock.signatures import ArgumentsError, SignatureError
from interlock.signatures.type_schema import as_json

_encode = msgspec.json.Encoder().encode


def typed(value: object, plain: object, revision: Revision, *, wrap: bool) -> bytes:
    """A value with an output schema: as structured content, and again as text or as the content that it is."""
    encoded = _encode(plain)
    structured = b'{"result":%b}' % encoded if wrap else encoded
    if has_content(value):
        shown = _encode(pieces(value, revision))
    else:
        shown = b"[%b]" % _encode(Text(plain if isinstance(plain, str) else encoded.decode()))
    return b'"content":%b,"structuredContent":%b' % (shown, structured)


def untyped(value: object, revision: Revision) -> bytes:
    """A value of a function without a return type: content unchanged, anything else as text."""
    if value is None:
        return b'"content":[]'
    shown = pieces(value, revision) if has_content(value) else [Text(_as_text(value))]
    return b'"content":%b' % _encode(shown)


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
    return _encode(members)[1:-1]


def has_content(value: object) -> bool:
    """Whether it is a piece of content, or a list with one in it."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, CONTENT_TYPES) for item in value)
    return isinstance(value, CONTENT_TYPES)


def pieces(value: object, revision: Revision) -> list[Content]:
    """One or several values as content that a client of that revision can read; other values become text."""
    items = value if isinstance(value, list | tuple) else [value]
    return [fitting(item, revision) if isinstance(item, CONTENT_TYPES) else Text(_as_text(item)) for item in items]


def error(text: str) -> bytes:
    """A failure as text."""
    return b'"content":[%b],"isError":true' % _encode(Text(text))


def unfit(failure: ArgumentsError) -> bytes:
    """Arguments that do not fit: as text, so that a model can correct itself, and as data for programs."""
    problems = [problem_data(problem) for problem in failure.problems]
    lines = ["The arguments do not fit:", *(f"- {problem.words}" for problem in failure.problems)]
    return _detailed("\n".join(lines), {"name": "INVALID_TOOL_ARGS", "problems": problems})


def overdue(failure: Overdue) -> bytes:
    """A tool that did not end in time, as the registry's "Timeout Response" has it."""
    return _detailed(str(failure), failure.detail)


def _detailed(text: str, detail: Members) -> bytes:
    return error(text) + b',"structuredContent":%b' % _encode({"error": detail})


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    plain = as_json(value)
    if plain is msgspec.UNSET:
        raise SignatureError(f"a tool returned a {type(value).__name__}, which has no JSON form")
    return _encode(plain).decode()
