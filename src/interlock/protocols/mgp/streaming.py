"""Streaming (MGP, Streaming): the messages of a call whose result comes in pieces, read and written.

A stream belongs to the call that `request_id` names: the id of its JSON-RPC request, number or string, in both eras.
The response ends the stream. `done` in a chunk does not.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json
from interlock.wire.messages import Id, encode_id

EXTENSION: Final = "streaming"
MEMBER: Final = "_mgp"
CHUNK: Final = "notifications/mgp.stream.chunk"
PROGRESS: Final = "notifications/mgp.stream.progress"
NOTIFICATIONS: Final = frozenset({CHUNK, PROGRESS})
CANCEL: Final = "mgp/stream/cancel"

MAX_REASON_CHARS: Final = 500
"""Characters of a reason that are kept."""


class StreamChunk(msgspec.Struct, frozen=True):
    """One piece of a result."""

    request_id: Id
    index: int
    content: msgspec.Raw
    """One content block of MCP."""
    done: bool = False
    """The server's claim that it is the last chunk. It does not end the stream."""


class StreamProgress(msgspec.Struct, frozen=True):
    """The progress of a call, from 0 to 1."""

    request_id: Id
    progress: float
    message: str | None = None
    estimated_remaining_ms: float | None = None


class StreamCancelParams(msgspec.Struct, frozen=True):
    """The params of `mgp/stream/cancel`."""

    request_id: Id
    reason: str = ""
    trace_id: str = ""
    """The trace of the call, for a caller that cannot prove otherwise that the call is its own."""


class StreamedResultMeta(msgspec.Struct, frozen=True):
    """The `_mgp` of a result whose content was streamed."""

    streamed: bool = False
    chunks_sent: int = 0
    duration_ms: float = 0


def wants_stream(params: bytes) -> bool:
    """Whether a call asks for chunks. Raises INVALID_PARAMS for an `_mgp` that cannot be read."""
    try:
        return _decode_call(params).mgp.stream
    except msgspec.DecodeError as cause:
        raise Fault("INVALID_PARAMS", f"{MEMBER}: {cause}") from None


def read_chunk(params: bytes) -> StreamChunk:
    """A chunk. Raises UPSTREAM_ERROR for one that cannot be read."""
    try:
        chunk = _decode_chunk(params)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise Fault("UPSTREAM_ERROR", f"a chunk that cannot be read: {cause}") from None
    if chunk.index < 0 or not bytes(chunk.content).startswith(b"{"):
        raise Fault("UPSTREAM_ERROR", "a chunk needs an index from 0 and one content block")
    return chunk


def chunk_params(request_id: Id, index: int, content: bytes, *, done: bool = False) -> bytes:
    """The params of a chunk with an encoded content block."""
    last = b"true" if done else b"false"
    return b'{"request_id":%b,"index":%d,"content":%b,"done":%b}' % (encode_id(request_id), index, content, last)


def read_progress(params: bytes) -> StreamProgress:
    """A progress report. Raises UPSTREAM_ERROR for one that cannot be read."""
    try:
        return _decode_progress(params)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise Fault("UPSTREAM_ERROR", f"progress that cannot be read: {cause}") from None


def progress_params(
    request_id: Id, progress: float, message: str | None = None, remaining_ms: float | None = None
) -> bytes:
    """The params of a progress report. `progress` is kept between 0 and 1."""
    params: dict[str, object] = {"request_id": request_id, "progress": min(max(progress, 0.0), 1.0)}
    if message is not None:
        params["message"] = message
    if remaining_ms is not None:
        params["estimated_remaining_ms"] = max(remaining_ms, 0)
    return msgspec.json.encode(params)


def read_cancel(params: bytes) -> StreamCancelParams:
    """The params of `mgp/stream/cancel`. Raises INVALID_PARAMS."""
    cancel = decode_json(params, StreamCancelParams, "INVALID_PARAMS", CANCEL)
    return msgspec.structs.replace(cancel, reason=cancel.reason[:MAX_REASON_CHARS])


def cancelled(partial: bytes | None) -> bytes:
    """The members of the answer to a cancellation. `partial` is the content so far; None if no call was cancelled."""
    if partial is None:
        return b'"cancelled":false'
    return b'"cancelled":true,"partial_result":{"content":%b}' % partial


def streamed_member(chunks_sent: int, duration_ms: float) -> bytes:
    """The `_mgp` member of the result of a streamed call."""
    return b'"%b":%b' % (
        MEMBER.encode(),
        msgspec.json.encode(StreamedResultMeta(True, chunks_sent, round(duration_ms))),
    )


class _CallMgp(msgspec.Struct):
    stream: bool = False


class _Call(msgspec.Struct):
    mgp: _CallMgp = msgspec.field(default_factory=_CallMgp, name=MEMBER)


_decode_call = msgspec.json.Decoder(_Call).decode
_decode_chunk = msgspec.json.Decoder(StreamChunk).decode
_decode_progress = msgspec.json.Decoder(StreamProgress).decode
