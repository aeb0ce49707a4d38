"""Reads large JSON-RPC messages piece by piece, with the same results and refusals as `messages`.

Everything here runs in a thread. Its results need no further pass over the whole message.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.wire.errors import ErrorObject
from interlock.wire.large import LARGE, CheckedJson
from interlock.wire.large_containers import MemberSpan
from interlock.wire.large_pieces import UnreadableMessage, no_json
from interlock.wire.large_reader import ENVELOPE_MEMBERS, LargeReader
from interlock.wire.large_texts import CutString
from interlock.wire.limits import Limits, over_message_bytes
from interlock.wire.messages import (
    ENVELOPE,
    BadMessage,
    Failure,
    Id,
    Message,
    Notification,
    Request,
    Result,
    decode,
    is_batch,
)

MAX_AUTH_BYTES: Final = 16 * 1024
MAX_TRACE_CHARS: Final = 128
MAX_ERROR_CHARS: Final = 4_096
"""Upper bound for a server's error message."""
CALL: Final = ("params", "arguments")

Outcome = Message | BadMessage | list[Message | BadMessage]
"""The outcome of reading: a message, an invalid one, or a batch."""


def decode_large(data: bytes, limits: Limits, members: int) -> Outcome:
    """Read a large message or batch with at most `members` members."""
    try:
        return _batch(data, limits, members) if is_batch(data) else _message(data, limits, members)
    except BadMessage as bad:
        return bad


def decode_large_value(data: bytes, limits: Limits, members: int) -> CheckedJson:
    """Read a large JSON value that is not a message, and decode it. Raises `UnreadableMessage`."""
    reader = LargeReader(b'{"params":{"arguments":%b}}' % data, limits, members, CALL)
    payload = reader.read()
    params = reader.spans["params"]
    span = params.inner["arguments"]
    if len(reader.spans) > 1 or len(params.inner) > 1 or span.stop != len(payload) - 2:
        raise no_json("something follows the value")
    return _arguments(payload, span, reader.names)


def _message(data: bytes, limits: Limits, members: int) -> Message:
    if len(data) > limits.message_bytes:
        raise BadMessage("TOO_LARGE", over_message_bytes(f"message of {len(data)} bytes", limits.message_bytes))
    reader = LargeReader(data, limits, members, CALL)
    try:
        payload = reader.read()
    except UnreadableMessage as bad:
        refused = BadMessage(bad.name, bad.message)
        raise refused.naming(_id(bad.members.get("id"), limits), asks="method" in bad.members) from None
    if payload[:1] != b"{":
        raise BadMessage("INVALID_REQUEST", "not a JSON-RPC message: expected an object")
    spans = reader.spans
    try:
        for name in spans:
            if name not in ENVELOPE and name.casefold() in ENVELOPE:
                raise BadMessage("INVALID_REQUEST", f"member {name[:100]!r} is written in the wrong case")
        message = _classified(payload, spans, reader.names, limits)
        if isinstance(message, Request | Notification) and reader.members > limits.members + ENVELOPE_MEMBERS:
            # A server's answers may have more: long lists. Its own requests are read by gates, as those of clients.
            raise BadMessage("INVALID_REQUEST", f"more than {limits.members} members")
    except BadMessage as bad:
        bad.naming(_id(_value(spans, "id"), limits), asks="method" in spans)
        if "id" not in spans and "params" in spans:
            bad.wrapping(_value(spans, "method"), _id(_value(spans["params"].inner, "id"), limits))
        raise
    if isinstance(message, Failure):
        return message
    body = message.result if isinstance(message, Result) else message.params
    if isinstance(body, CheckedJson):
        body.with_count(reader.members)
        for (member, name), places in reader.places.items():
            if member == "result":
                body.places[name] = places
    return message


def _batch(data: bytes, limits: Limits, members: int) -> list[Message | BadMessage]:
    if len(data) > limits.message_bytes:
        raise BadMessage("TOO_LARGE", over_message_bytes(f"batch of {len(data)} bytes", limits.message_bytes))
    reader = LargeReader(data, limits, members)
    try:
        payload = reader.read()
    except UnreadableMessage as bad:
        raise BadMessage(bad.name, bad.message) from None
    if len(reader.spans) > limits.batch:
        raise BadMessage("TOO_LARGE", f"batch of {len(reader.spans)} messages is over the limit of {limits.batch}")
    if not reader.spans:
        raise BadMessage("INVALID_REQUEST", "a batch must hold at least one message")
    messages: list[Message | BadMessage] = []
    for span in reader.spans.values():
        part = payload[span.start : span.stop]
        try:
            messages.append(decode(part, limits) if len(part) <= LARGE else _message(part, limits, members))
        except BadMessage as bad:
            messages.append(bad.in_batch(part))
    return messages


def _classified(payload: bytes, spans: dict[str, MemberSpan], names: frozenset[bytes], limits: Limits) -> Message:
    id_ = _value(spans, "id")
    if _value(spans, "jsonrpc") != "2.0":
        raise BadMessage("INVALID_REQUEST", 'jsonrpc must be "2.0"')
    if isinstance(id_, str) and not 0 < len(id_) <= limits.id_chars:
        raise BadMessage("INVALID_REQUEST", f"an id has 1 to {limits.id_chars} characters")
    known = _id(id_, limits)
    if "id" in spans and id_ is not None and known is None:
        raise BadMessage("INVALID_REQUEST", "not a JSON-RPC message: an id is a number or a text")
    if "method" in spans:
        return _request(payload, spans, names, limits)
    if "result" in spans:
        if "error" in spans or known is None:
            raise BadMessage("INVALID_REQUEST", "a response has an id and either a result or an error")
        return Result(known, _read(payload, spans["result"], names))
    if "error" in spans:
        return Failure(known, _error(payload, spans["error"]))
    raise BadMessage("INVALID_REQUEST", "neither method, nor result, nor error")


def _request(payload: bytes, spans: dict[str, MemberSpan], names: frozenset[bytes], limits: Limits) -> Message:
    method = spans["method"].value
    if "result" in spans or "error" in spans:
        raise BadMessage("INVALID_REQUEST", "a message is a request or a response, not both")
    if not isinstance(method, str):
        raise BadMessage("INVALID_REQUEST", "not a JSON-RPC message: a method is a text")
    span = spans.get("params")
    params: bytes = b"{}" if span is None else _read(payload, span, names)
    if params[:1] != b"{":
        raise BadMessage("INVALID_REQUEST", "params must be an object")
    if "id" not in spans:
        if len(params) > limits.notification_bytes:
            raise BadMessage("TOO_LARGE", f"a notification is over the limit of {limits.notification_bytes} bytes")
        return Notification(method, params)
    id_ = _id(spans["id"].value, limits)
    if id_ is None:
        raise BadMessage("INVALID_REQUEST", "the id of a request must not be null")
    auth = spans.get("auth")
    if auth is not None and auth.stop - auth.start > MAX_AUTH_BYTES:
        raise BadMessage("INVALID_REQUEST", f"auth is over the limit of {MAX_AUTH_BYTES} bytes")
    trace = _value(spans, "trace_id")
    traced = isinstance(trace, str) and type(trace) is not CutString and len(trace) <= MAX_TRACE_CHARS
    return Request(
        id_, method, params, str(trace) if traced else "", b"" if auth is None else payload[auth.start : auth.stop]
    )


def _read(payload: bytes, span: MemberSpan, names: frozenset[bytes]) -> CheckedJson:
    """A member of the envelope, with its own members, and the arguments where it has some."""
    base = span.start
    inner = {name: (each.start - base, each.stop - base) for name, each in span.inner.items()}
    given = span.inner.get("arguments")
    known = given is not None and given.value is not msgspec.UNSET
    arguments = _arguments(payload, given, names) if given is not None and known else None
    spans = inner if payload[base : base + 1] == b"{" else {}
    return CheckedJson.of(payload[base : span.stop], spans, names, arguments=arguments)


def _arguments(payload: bytes, span: MemberSpan, names: frozenset[bytes]) -> CheckedJson:
    raw = payload[span.start : span.stop]
    return CheckedJson.of(raw, names=names, value=span.value, digest=hashlib.sha256(raw).hexdigest())


def _error(payload: bytes, span: MemberSpan) -> ErrorObject:
    """A server's error, with its message cut to `MAX_ERROR_CHARS`."""
    code, message, data = (span.inner.get(name) for name in ("code", "message", "data"))
    if code is None or message is None or type(code.value) is not int or not isinstance(message.value, str):
        raise BadMessage("INVALID_REQUEST", "error is not an error object")
    text = str(message.value)
    cut = type(message.value) is CutString or len(text) > MAX_ERROR_CHARS
    text = f"{text[:MAX_ERROR_CHARS]} [cut]" if cut else text
    if data is None or data.stop - data.start > LARGE:
        return ErrorObject(code.value, text)
    return ErrorObject(code.value, text, msgspec.Raw(payload[data.start : data.stop]))


def _value(spans: dict[str, MemberSpan], name: str) -> object:
    span = spans.get(name)
    return None if span is None else span.value


def _id(value: object, limits: Limits) -> Id | None:
    if type(value) is int:
        return value
    return value if type(value) is str and 0 < len(value) <= limits.id_chars else None
