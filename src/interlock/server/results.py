"""What a tool gave back as the members of a CallToolResult: any value, whole results, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.registry.errors import told
from interlock.server.checks import Overdue
from interlock.server.content import CONTENT_TYPES, Text, ToolResult, fitting
from interlock.signatures import ArgumentsError, SignatureError
from interlock.signatures.type_schema import as_json

_encode = msgspec.json.Encoder().encode


def typed(plain: object, *, wrap: bool) -> bytes:
    """A value that has an output schema: as structured content, and the same as text."""
    encoded = _encode(plain)
    text = plain if isinstance(plain, str) else encoded.decode()
    structured = b'{"result":%b}' % encoded if wrap else encoded
    return b'"content":[%b],"structuredContent":%b' % (_encode(Text(text)), structured)


def untyped(value: object, revision: Revision) -> bytes:
    """The result of a function that does not say what it returns: content as it is, anything else as text."""
    if value is None:
        return b'"content":[]'
    if isinstance(value, str):
        return b'"content":[%b]' % _encode(Text(value))
    if isinstance(value, list | tuple) and any(isinstance(item, CONTENT_TYPES) for item in value):
        pieces = [
            fitting(item, revision) if isinstance(item, CONTENT_TYPES) else Text(_as_text(item)) for item in value
        ]
        return b'"content":%b' % _encode(pieces)
    if isinstance(value, CONTENT_TYPES):
        return b'"content":[%b]' % _encode(fitting(value, revision))
    return b'"content":[%b]' % _encode(Text(_as_text(value)))


def whole(result: ToolResult, revision: Revision, signed: Mapping[str, object]) -> bytes:
    """A result with a `_meta` of its own has it first, so that it is known not to need the server's."""
    members: dict[str, object] = {} if result.meta is None else {"_meta": {**signed, **result.meta}}
    members["content"] = [fitting(piece, revision) for piece in result.content]
    if result.structured is not msgspec.UNSET:
        members["structuredContent"] = as_json(result.structured)
        if not result.content:
            members["content"] = [Text(_as_text(result.structured))]
    if result.is_error:
        members["isError"] = True
    return _encode(members)[1:-1]


def error(text: str) -> bytes:
    """A failure that the caller reads in words."""
    return b'"content":[%b],"isError":true' % _encode(Text(text))


def unfit(failure: ArgumentsError) -> bytes:
    """An `isError` result, so that a model can correct itself, with the detail that a program can read."""
    problems = [told(problem) for problem in failure.problems]
    detail = {"error": {"name": "INVALID_TOOL_ARGS", "problems": problems}}
    lines = ["The arguments do not fit:", *(f"- {problem.words}" for problem in failure.problems)]
    return error("\n".join(lines)) + b',"structuredContent":%b' % _encode(detail)


def overdue(failure: Overdue) -> bytes:
    """A tool that was not done in its time, as "Timeout Response" has it."""
    return error(str(failure)) + b',"structuredContent":%b' % _encode({"error": failure.detail})


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    plain = as_json(value)
    if plain is msgspec.UNSET:
        raise SignatureError(f"a tool returned a {type(value).__name__}, which has no JSON form")
    return _encode(plain).decode()
