"""What a call came to, as HTTP has it: the tool's result, or a fault with its status and the registry's body."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from interlock.protocols.mcp.answers import INPUT_REQUIRED, read_members
from interlock.protocols.registry.errors import ErrorBody, error_body
from interlock.transports.http.answers import bearer_challenge
from interlock.wire.errors import Fault

_STATUSES: Final = {
    "APPROVAL_PENDING": 409,
    "MISSING_CAPABILITY": 409,
    "OUTCOME_UNKNOWN": 409,
    "CANCELLED": 503,
}
"""Where plain HTTP has a better word than the status an MCP answer would have."""
_KEPT: Final = ("content", "structuredContent", "_meta")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Where(msgspec.Struct, frozen=True):
    """What every body says of its request: whose it is and what it was about."""

    trace_id: str
    tool_name: str | None = None
    documentation_url: str | None = None


def tool_result(result: bytes) -> bytes:
    """A tool's result for the client. Raises a Fault where the tool says that it failed, or asks for something."""
    read = read_members(result)
    if read.kind == INPUT_REQUIRED:
        hint = "call it with an MCP client that answers questions"
        raise Fault("MISSING_CAPABILITY", "the tool asks for something in the middle of its work", hint=hint)
    fields = _decode(result)
    if read.failed is not False:
        raise _failed(fields)
    kept: dict[str, object] = {"content": []}
    kept |= {member: fields[member] for member in _KEPT if member in fields}
    return msgspec.json.encode(kept)


def plain_result(result: bytes) -> bytes:
    """Any other result, without what only MCP needs to know."""
    fields = _decode(result)
    for member in ("resultType", "ttlMs", "cacheScope", "_meta"):
        fields.pop(member, None)
    return msgspec.json.encode(fields)


def status_of(fault: Fault) -> int:
    """The status that a fault is answered with."""
    return _STATUSES.get(fault.name, fault.kind.http)


def body_of(fault: Fault, where: Where) -> ErrorBody:
    """The body that a fault is answered with."""
    fault.drop_frames()
    return error_body(fault, where.trace_id, tool_name=where.tool_name, documentation_url=where.documentation_url)


def answer(body: bytes, where: Where, status: int = 200) -> Response:
    """An answer in JSON, which nobody but its caller may keep."""
    return Response(body, status, {"cache-control": "no-store", **_headers(where)}, "application/json")


def refusal(fault: Fault, where: Where, *, allow: str = "") -> Response:
    """A fault as an answer."""
    response = answer(msgspec.json.encode(body_of(fault, where)), where, status_of(fault))
    if fault.retry_after_ms is not None:
        response.headers["retry-after"] = str(max(1, -(-fault.retry_after_ms // 1000)))
    challenge = bearer_challenge(fault)
    if challenge is not None:
        response.headers["www-authenticate"] = challenge
    if allow:
        response.headers["allow"] = allow
    return response


def _headers(where: Where) -> dict[str, str]:
    return {"x-trace-id": where.trace_id, "x-content-type-options": "nosniff"}


def _failed(fields: dict[str, msgspec.Raw]) -> Fault:
    """A tool's own failure. One of ours says which argument was wrong, or that its time was up."""
    try:
        said: Any = msgspec.json.decode(fields.get("structuredContent", b"null"))
        content: Any = msgspec.json.decode(fields.get("content", b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        said, content = None, []
    error = said.get("error") if isinstance(said, dict) else None
    detail = error if isinstance(error, dict) else {}
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
    message = "\n".join(texts)[:4_000] or "the tool failed"
    match detail.get("name"):
        case "INVALID_TOOL_ARGS":
            return Fault("INVALID_TOOL_ARGS", message, data={"problems": detail.get("problems")})
        case "TIMEOUT":
            return Fault("TIMEOUT", message)
    return Fault("UPSTREAM_ERROR", message)
