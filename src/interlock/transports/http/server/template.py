"""Reads a request head without the parser, if it equals the previous head on the connection except for some values.

A client repeats its head byte for byte, except the values of a few headers. Where all else is equal and those values
are plain text, the parser would find the same. Any other head goes to the parser.
"""

from __future__ import annotations

import re
from typing import Final

from interlock.transports.http.server.http_request import RequestHead

_VARYING: Final = frozenset({b"content-length", b"mcp-name", b"traceparent"})
_VARYING_PREFIX: Final = b"mcp-param-"
_LENGTH: Final = b"content-length"
_HEAD_BYTES: Final = 4_096
_MAX_VARYING: Final = 16


class HeadTemplate:
    """A parsed head in pieces that must be equal. Values may differ between the pieces."""

    __slots__ = ("_head", "_parts", "_tail", "_whole")

    def __init__(
        self, head: RequestHead, parts: list[tuple[bytes, int, bytes, bytes]], tail: bytes, whole: bytes
    ) -> None:
        self._head = head
        self._parts = parts
        """For each value that may differ: the bytes before it, how many, its header, and what it was."""
        self._tail = tail
        self._whole = whole

    @classmethod
    def of(cls, data: bytes, head: RequestHead) -> HeadTemplate | None:
        """The template of a head that the parser read from these bytes. None where it would be of no use."""
        end = data.find(b"\r\n\r\n") + 4
        if not 4 < end <= _HEAD_BYTES or not data.startswith(head.method) or b"transfer-encoding" in head.headers:
            return None
        parts: list[tuple[bytes, int, bytes, bytes]] = []
        start = place = 0
        for line in data[:end].split(b"\r\n"):
            name = line.partition(b":")[0].lower()
            name = _LENGTH if name == _LENGTH else name
            if name in _VARYING or name.startswith(_VARYING_PREFIX):
                value = head.headers.get(name, b"")
                stop = place + len(line) - len(value)
                if not _is_plain(value) or not line.endswith(value) or len(parts) == _MAX_VARYING:
                    return None
                parts.append((data[start:stop], stop - start, name, value))
                start = place + len(line)
            place += len(line) + 2
        return cls(head, parts, data[start:end], data[:end])

    def match(self, data: bytes) -> RequestHead | None:
        """The head at the beginning of these bytes, if it is like the one before."""
        head = self._head
        if data.startswith(self._whole):
            return head
        place = 0
        headers = None
        for literal, length, name, usual in self._parts:
            if not data.startswith(literal, place):
                return None
            place += length
            end = data.find(b"\r\n", place)
            value = data[place:end]
            if value != usual:
                if end < 0 or not (value.isdigit() and len(value) < 10 if name is _LENGTH else _is_plain(value)):
                    return None
                if headers is None:
                    headers = head.headers.copy()
                headers[name] = value
            place = end
        if not data.startswith(self._tail, place):
            return None
        if headers is None:
            return head
        length = int(headers[_LENGTH]) if _LENGTH in headers else 0
        return RequestHead(head.method, head.path, headers, head.keep_alive, head.chunked, length, head.fit)


_is_plain = re.compile(rb"[!-~](?:[ -~]*[!-~])?").fullmatch
"""Visible ASCII with spaces only inside, which the parser accepts unchanged."""
