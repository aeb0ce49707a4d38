"""What a tool gave back as the members of a CallToolResult: any value, whole results, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.registry.errors import told
from interlock.server.checks import Overdue
from interlock.server.content import CONTENT_TYPES, Content, Text, ToolResult, fitting
from interlock.signatures import ArgumentsError, SignatureError
from interlock.signatures.type_schema import as_json

_encode = msgspec.json.Encoder().encode


def typed(value: object, plain: object, revision: Revision, *, wrap: bool) -> bytes:
    """A value that has an output schema: as structured content, and the same as text, or as the content that it is."""
    encoded = _encode(plain)
    structured = b'{"result":%b}' % encoded if wrap else encoded
    if has_content(value):
        shown = _encode(pieces(value, revision))
    else:
        shown = b"[%b]" % _encode(Text(plain if isinstance(plain, str) else encoded.decode()))
    return b'"content":%b,"structuredContent":%b' % (shown, structured)


def untyped(value: object, revision: Revision) -> bytes:
    """The result of a function that does not say what it returns: content as it is, anything else as text."""
    if value is None:
        return b'"content":[]'
    shown = pieces(value, revision) if has_content(value) else [Text(_as_text(value))]
    return b'"content":%b' % _encode(shown)


def whole(
    result: ToolResult, structured: object, revision: Revision, signed: Mapping[str, object], *, wrap: bool
) -> bytes:
    """A result with a `_meta` of its own has it first, so that it is known not to need the server's."""
    members: dict[str, object] = {} if result.meta is None else {"_meta": {**signed, **result.meta}}
    members["content"] = pieces(result.content, revision)
    if structured is not msgspec.UNSET:
        members["structuredContent"] = {"result": structured} if wrap else structured
        members["content"] = members["content"] or [Text(_as_text(structured))]
    if result.is_error:
        members["isError"] = True
    return _encode(members)[1:-1]


def has_content(value: object) -> bool:
    """Whether it is a piece of content, or some among other things."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, CONTENT_TYPES) for item in value)
    return isinstance(value, CONTENT_TYPES)


def pieces(value: object, revision: Revision) -> list[Content]:
    """A piece of content or several, as a client of that revision can read them; what is none is told as text."""
    items = value if isinstance(value, list | tuple) else [value]
    return [fitting(item, revision) if isinstance(item, CONTENT_TYPES) else Text(_as_text(item)) for item in items]


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
