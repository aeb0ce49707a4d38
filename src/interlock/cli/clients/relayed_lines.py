"""Lines that the relay forwards, and the messages in them: one, or those of a batch (2025-03-26).

A line without a valid message is forwarded, too, and the hub answers it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from interlock.wire.cancellation import read_withdrawal
from interlock.wire.json_values import decode_json_or
from interlock.wire.messages import Id, is_batch

CHUNK: Final = 65_536
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""A longer line is forwarded in pieces without reading it, unless the hub accepts messages of that size."""
_LISTS: Final = ("tools", "prompts", "resources")


class _Head(msgspec.Struct):
    id: Id | float | None = None
    method: str | None = None


class _Resource(msgspec.Struct):
    uri: str = ""


class _Subscribe(msgspec.Struct):
    params: _Resource


class _Notification(msgspec.Struct):
    params: msgspec.Raw


class RelayedMessage:
    """Id and method of a message, and its bytes."""

    __slots__ = ("data", "id", "method")

    def __init__(self, data: bytes) -> None:
        head = decode_json_or(data, _Head, _Head())
        self.id = head.id
        self.method = head.method
        self.data = data

    @property
    def request_id(self) -> Id | float | None:
        """The id of a request; None for any other message."""
        return None if self.method is None else self.id

    @property
    def answered_id(self) -> Id | float | None:
        """The id of the request that this message answers; None for any other message."""
        return self.id if self.method is None else None

    @property
    def uri(self) -> str:
        """The resource that a request is about."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(self.data, type=_Subscribe).params.uri
        return ""

    @property
    def withdrawn(self) -> set[Id]:
        """The request that a `notifications/cancelled` withdraws."""
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return {read_withdrawal(msgspec.json.decode(self.data, type=_Notification).params)[0]}
        return set()

    @property
    def changing_lists(self) -> list[str]:
        """The lists whose changes the hub announces in its answer to `initialize`."""
        with contextlib.suppress(msgspec.DecodeError, AttributeError, KeyError, TypeError):
            capabilities = msgspec.json.decode(self.data)["result"]["capabilities"]
            return [name for name in _LISTS if (capabilities.get(name) or {}).get("listChanged") is True]
        return []

    def with_id(self, id: str) -> bytes:
        """The line of the same request under another id."""
        message = msgspec.json.decode(self.data, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({**message, "id": id}) + b"\n"


def messages_of(line: bytes) -> list[RelayedMessage]:
    """The messages of a line."""
    if not is_batch(line):
        return [RelayedMessage(line)]
    return [RelayedMessage(bytes(each)) for each in decode_json_or(line, list[msgspec.Raw], [])]


class LineLimit:
    """The length from which the relay passes lines on unread. Each hub says how long its messages may be."""

    def __init__(self) -> None:
        self.max_bytes = MAX_LINE_BYTES

    def set_for(self, hello: Mapping[str, object]) -> None:
        """Use the limit of the hub that answered with this. The answer to a message may be longer than the message."""
        size = hello.get("message_bytes")
        self.max_bytes = max(MAX_LINE_BYTES, 2 * size if isinstance(size, int) else 0)


def read_lines(read: Callable[[int], bytes], rest: bytes, limit: LineLimit) -> Iterator[list[bytes]]:
    """The complete lines of a stream, with their ends, as many as came together. The unfinished line at the end of a
    stream is dropped."""
    line, chunk = bytearray(rest), rest
    while True:
        if b"\n" in chunk:
            *complete, last = bytes(line).split(b"\n")
            yield [each + b"\n" for each in complete]
            line = bytearray(last)
        elif len(line) > limit.max_bytes:
            yield [bytes(line)]
            line = bytearray()
        if not (chunk := read(CHUNK)):
            return
        line += chunk
