"""Turns the outcome of a call into an HTTP response: the tool's result, or a fault with its status and error body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from interlock.process.turns import Octets, slices_in_turns
from interlock.protocols.mcp.answers import INPUT_REQUIRED, read_members
from interlock.protocols.registry.errors import ErrorBody, error_body
from interlock.transports.exchange import unanswered
from interlock.transports.http.server.answers import bearer_challenge
from interlock.transports.large_reading import LargeReading
from interlock.web.streamed_response import StreamedResponse
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE, CheckedJson, object_of
from interlock.wire.limits import DEFAULT

_STATUSES: Final = {
    "APPROVAL_PENDING": 409,
    "MISSING_CAPABILITY": 409,
    "OUTCOME_UNKNOWN": 409,
    "CANCELLED": 503,
}
"""Faults whose HTTP status differs from that of an MCP answer."""
_MEMBERS: Final = ("content", "structuredContent", "_meta")
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class RequestInfo(msgspec.Struct, frozen=True):
    """The values of a request that every response body contains."""

    trace_id: str
    tool_name: str | None = None
    documentation_url: str | None = None


async def tool_result(result: bytes) -> list[Octets]:
    """A tool's result for the client, in pieces. A large result is not copied.

    Raises a Fault if the tool reports an error or requests input.
    """
    read = read_members(result)
    if read.kind == INPUT_REQUIRED:
        raise unanswered("inputRequests", "over REST")
    if type(result) is not CheckedJson:
        fields = {name: bytes(raw) for name, raw in _decode(result).items()}
        if read.failed is not False:
            raise await _failed(fields)
        return [object_of({"content": b"[]"} | {name: fields[name] for name in _MEMBERS if name in fields})]
    if read.failed is not False:
        raise await _failed(result.members)
    whole, pieces = memoryview(result), list[Octets]()
    for name in _MEMBERS:
        start, end = result.spans.get(name, (0, 0))
        value = whole[start:end] or (b"[]" if name == "content" else b"")
        pieces += (b'%b"%b":' % (b"," if pieces else b"{", name.encode()), value) if value else ()
    return [*pieces, b"}"]


async def plain_result(result: bytes) -> list[Octets]:
    """Any other result, without members that only MCP needs."""
    fields = _decode(result)
    for member in ("resultType", "ttlMs", "cacheScope", "_meta"):
        fields.pop(member, None)
    return [msgspec.json.encode(fields)]


def status_of(fault: Fault) -> int:
    return _STATUSES.get(fault.name, fault.kind.http)


def body_of(fault: Fault, info: RequestInfo) -> ErrorBody:
    fault.drop_frames()
    return error_body(fault, info.trace_id, tool_name=info.tool_name, documentation_url=info.documentation_url)


def answer(body: bytes, info: RequestInfo, status: int = 200) -> Response:
    """A JSON response that caches must not store."""
    return Response(body, status, {"cache-control": "no-store", **_headers(info)}, "application/json")


def good_answer(pieces: Sequence[Octets], info: RequestInfo) -> Response:
    """A successful response of any size. A large one is sent slice by slice, without joining it."""
    size = sum(map(len, pieces))
    if size <= LARGE:
        return answer(b"".join(pieces), info)
    return answer_in_pieces(slices_in_turns(*pieces), info, size)


def answer_in_pieces(pieces: AsyncIterator[Octets], info: RequestInfo, size: int | None = None) -> Response:
    """A successful response that is sent piece by piece, as its client reads it."""
    headers = {"cache-control": "no-store", **_headers(info)}
    if size is not None:
        headers["content-length"] = str(size)
    return StreamedResponse(pieces, 200, headers, "application/json")


def refusal(fault: Fault, info: RequestInfo, *, allow: str = "") -> Response:
    response = answer(msgspec.json.encode(body_of(fault, info)), info, status_of(fault))
    if fault.retry_after_ms is not None:
        response.headers["retry-after"] = str(max(1, -(-fault.retry_after_ms // 1000)))
    challenge = bearer_challenge(fault)
    if challenge is not None:
        response.headers["www-authenticate"] = challenge
    if allow:
        response.headers["allow"] = allow
    return response


def _headers(info: RequestInfo) -> dict[str, str]:
    return {"x-trace-id": info.trace_id, "x-content-type-options": "nosniff"}


async def _failed(fields: Mapping[str, bytes]) -> Fault:
    """The fault of a failed tool. Interlock servers report wrong arguments and timeouts in `structuredContent`."""
    try:
        structured = await _decoded(fields.get("structuredContent", b"null"))
        content = await _decoded(fields.get("content", b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError, Fault):
        structured, content = None, []
    error = structured.get("error") if isinstance(structured, dict) else None
    detail = error if isinstance(error, dict) else {}
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
    message = "\n".join(texts)[:4_000] or "the tool failed"
    match detail.get("name"):
        case "INVALID_TOOL_ARGS":
            return Fault("INVALID_TOOL_ARGS", message, data={"problems": detail.get("problems")})
        case "TIMEOUT":
            return Fault("TIMEOUT", message)
    return Fault("UPSTREAM_ERROR", message, data={"retryable": detail.get("retryable") is True})


async def _decoded(value: bytes) -> Any:
    """A value of any size. Raises a `Fault` or a `DecodeError`."""
    if len(value) <= LARGE:
        return msgspec.json.decode(value)
    return (await LargeReading.here().value("rest", value, DEFAULT)).value
