"""Relays the chunks of one call from its server to its client, in order, without keeping them.

A client that agreed on MGP's streaming and asked for it gets chunks under its own request id; any other client that
gave a progress token gets progress. While the client does not read, the hub leaves further chunks with the server. If
other calls use the same stream, it keeps a few chunks and drops the rest: the result repeats the whole text.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.chunk_filter import ChunkFilter
from interlock.hub.calls.dispatch.translation import Translation
from interlock.protocols.mcp.meta import PROGRESS_TOKEN
from interlock.protocols.mgp import streaming
from interlock.protocols.mgp.methods import agreed_on
from interlock.protocols.traces import as_uuid
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import Fault
from interlock.wire.large import CheckedJson, mentions
from interlock.wire.messages import Id

MAX_QUEUED_BYTES: Final = 512 * 1024
"""Bytes that are kept for a client that does not read."""
CANCEL_S: Final = 5.0
"""How long a server may take to cancel a call."""
MAX_MESSAGE_CHARS: Final = 4_000
"""Characters of a chunk in a progress message."""

_MEMBER: Final = b'"_mgp"'
_encode = msgspec.json.Encoder().encode


def wants_chunks(call: Call) -> bool:
    """Whether the client of a call agreed on chunks and asks for them. Raises INVALID_PARAMS."""
    exchange = call.exchange
    if not agreed_on(exchange.dialect, streaming.EXTENSION):
        return False
    return mentions(exchange.request.params, _MEMBER) and streaming.wants_stream(exchange.request.params)


def wants_progress(call: Call) -> bool:
    """Whether the client of a call gave a progress token."""
    meta = call.exchange.preview.meta
    return meta is not None and meta.progress_token is not None


def relay_for(call: Call, plan: Plan, connection: Connection, translation: Translation) -> StreamRelay | None:
    """The relay for a call's chunks and progress; None where its server or its client has none."""
    mgp = connection.mgp
    if mgp is None or streaming.EXTENSION not in mgp.extensions or call.target.kind != "tool":
        return None
    if not agreed_on(call.exchange.dialect, streaming.EXTENSION) and not wants_progress(call):
        return None
    return StreamRelay(call, connection, None if plan.processor is None else plan.processor.chunks(call), translation)


class StreamRelay:
    """The stream of one call."""

    __slots__ = (
        "_began",
        "_call",
        "_checks",
        "_chunks",
        "_connection",
        "_done",
        "_handle",
        "_index",
        "_next",
        "_queue",
        "_queued",
        "_sent",
        "_translation",
        "_waiting",
        "accepts",
    )

    def __init__(
        self, call: Call, connection: Connection, checks: ChunkFilter | None, translation: Translation
    ) -> None:
        self._call = call
        self._connection = connection
        self._checks = checks
        self._translation = translation
        self._chunks = wants_chunks(call) or call.exchange.dialect.rest
        wanted = self._chunks or wants_progress(call)
        self.accepts = frozenset({streaming.CHUNK, streaming.PROGRESS} if wanted else {streaming.PROGRESS})
        """The notifications about the call that the hub takes from the server."""
        self._handle: Id | None = None
        self._next = 0
        """The least index that the server's next chunk may have."""
        self._index = 0
        """The index of the next chunk for the client."""
        self._done = False
        """Whether the server has called its newest chunk the last."""
        self._sent = 0
        self._queue: deque[tuple[str, bytes]] = deque()
        self._queued = 0
        self._waiting: asyncio.Future[None] | None = None
        self._began = time.monotonic()

    @property
    def asks_for_chunks(self) -> bool:
        """Whether the server is to send chunks."""
        return streaming.CHUNK in self.accepts

    def begin(self, handle: Id) -> None:
        """The call was sent."""
        self._handle = handle
        self._next = 0

    def on_chunk(self, params: bytes) -> None:
        """Relay a chunk. One that cannot be read is dropped: the result repeats the text."""
        with contextlib.suppress(Fault, msgspec.DecodeError, UnicodeDecodeError):
            self._on_chunk(streaming.read_chunk(params))

    def on_progress(self, params: bytes) -> None:
        """Relay a progress report that is masked where results are."""
        with contextlib.suppress(Fault):
            self._on_progress(streaming.read_progress(params))

    def finish(self, result: bytes) -> bytes:
        """Send what is left before the result, and count the chunks in the result's `_mgp` (MGP, Stream Completion)."""
        if self._checks is not None:
            self._send_text(self._checks.finish(), done=self._done)
        for method, params in self._queue:
            self._call.exchange.notify(method, params)
            self._sent += method == streaming.CHUNK
        self.stop()
        if not mentions(result, _MEMBER) and not self._sent:
            return result
        return self._counted(result)

    def stop(self) -> None:
        """The call is over."""
        self._queue.clear()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.remove_done_callback(self._on_drained)

    async def cancel(self, reason: str) -> bytes | None:
        """Have the server cancel the call: its content so far, as JSON. None where the server did not cancel it."""
        if self._handle is None:
            return None
        params: dict[str, object] = {"request_id": self._connection.current(self._handle), "reason": reason}
        params["trace_id"] = as_uuid(self._call.trace)
        try:
            result = await self._connection.request(streaming.CANCEL, params, timeout=CANCEL_S)
            outcome = msgspec.json.decode(result, type=_CancelResult)
            content = b"[]" if outcome.partial_result is None else bytes(outcome.partial_result.content)
            return self._translation.content(content) if outcome.cancelled else None
        except (Fault, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _on_chunk(self, chunk: streaming.StreamChunk) -> None:
        if chunk.index < self._next:
            return  # a repeated chunk, or one out of order
        self._next = chunk.index + 1
        checks, content = self._checks, bytes(chunk.content)
        # With checks, text is held back until the end, and a server may send more after its `done`.
        self._done, done = chunk.done, chunk.done and checks is None
        try:
            text = _decode_text(content).text
        except msgspec.ValidationError:
            (value,) = msgspec.json.decode(self._translation.content(b"[%b]" % content), type=list[dict[str, object]])
            if checks is not None:
                self._send_text(checks.finish())
                checked = checks.block(value)
                if checked is None:
                    return
                value = checked
            self._send_block(_encode(value), str(value.get("text", "")), done=done)
            return
        if checks is not None:
            text = checks.text(text)
        self._send_text(text, done=done)

    def _on_progress(self, report: streaming.StreamProgress) -> None:
        exchange, meta = self._call.exchange, self._call.exchange.preview.meta
        if meta is not None and meta.progress_token is not None:
            self._send_progress(meta.progress_token, report.progress, 1.0, report.message)
        elif agreed_on(exchange.dialect, streaming.EXTENSION):
            fields = (report.progress, report.message, report.estimated_remaining_ms)
            self._send(streaming.PROGRESS, streaming.progress_params(exchange.request.id, *fields))

    def _send_text(self, text: str, *, done: bool = False) -> None:
        """Send a text. An empty one only tells that the server has called its chunk the last."""
        if text or (done and self._chunks):
            self._send_block(b'{"type":"text","text":%b}' % _encode(text), text, done=done)

    def _send_block(self, block: bytes, text: str, *, done: bool = False) -> None:
        exchange = self._call.exchange
        if self._chunks:
            params = streaming.chunk_params(exchange.request.id, self._index, block, done=done)
            self._index += 1
            self._send(streaming.CHUNK, params)
            return
        meta = exchange.preview.meta
        if meta is not None and meta.progress_token is not None:
            self._send_progress(meta.progress_token, int(max(self._call.progress, 0)) + 1, None, text)

    def _send_progress(self, token: Id, progress: float, total: float | None, message: str | None) -> None:
        if not self._call.advance(progress):
            return
        params: dict[str, object] = {PROGRESS_TOKEN: token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message[:MAX_MESSAGE_CHARS]
        self._send(PROGRESS, _encode(params))

    def _send(self, method: str, params: bytes) -> None:
        """Send a notification, after those that wait."""
        if self._waiting is None:
            self._notify(method, params)
            return
        if self._queued + len(params) <= MAX_QUEUED_BYTES:
            self._queue.append((method, params))
            self._queued += len(params)
        # Other calls that used the server's stream may have ended meanwhile, so holding it may be possible now.
        self._hold(on=True)

    def _notify(self, method: str, params: bytes) -> None:
        exchange = self._call.exchange
        exchange.notify(method, params)
        self._sent += method == streaming.CHUNK
        waiting = exchange.drained()
        if waiting is not None:
            self._waiting = waiting
            waiting.add_done_callback(self._on_drained)
            self._hold(on=True)

    def _on_drained(self, _: asyncio.Future[None]) -> None:
        """The client reads again."""
        self._waiting = None
        while self._queue and self._waiting is None:
            method, params = self._queue.popleft()
            self._queued -= len(params)
            self._notify(method, params)
        if self._waiting is None:
            self._hold(on=False)

    def _hold(self, *, on: bool) -> None:
        if self._handle is not None:
            self._connection.hold(self._handle, on=on)

    def _counted(self, result: bytes) -> bytes:
        """The result with the hub's own count, or without `_mgp` for a client that did not agree on it."""
        if type(result) is CheckedJson:
            own = result.member("_mgp")
        else:
            fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
            raw = fields.pop("_mgp", None)
            own = None if raw is None else bytes(raw)
        member: bytes | None = own if agreed_on(self._call.exchange.dialect, streaming.EXTENSION) else None
        if self._sent and agreed_on(self._call.exchange.dialect, streaming.EXTENSION):
            member = _encode(
                streaming.StreamedResultMeta(True, self._sent, round((time.monotonic() - self._began) * 1000))
            )
        if type(result) is CheckedJson:
            return result.changed({} if member is None else {"_mgp": member}, drop=("_mgp",))
        if member is not None:
            fields["_mgp"] = msgspec.Raw(member)
        return _encode(fields)


class _CancelResult(msgspec.Struct):
    cancelled: bool = False
    partial_result: _Partial | None = None


class _Partial(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw(b"[]")


class _TextBlock(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str


_decode_text = msgspec.json.Decoder(_TextBlock).decode
