"""Reads a large message piece by piece, in a thread.

A native decoder holds the interpreter for as long as one call takes: tens of milliseconds for ten megabytes. Here no
call sees more than `PIECE` bytes of the message, so that the event loop gets its turn, and counting stops at a limit.
Small values below the members of the envelope's members are read in runs (`large_runs.py`).
"""

from __future__ import annotations

import re
from array import array
from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.large import PIECE
from interlock.wire.large_runs import NAME, NUMBER, RunReader
from interlock.wire.limits import Limits

AROUND: Final = 16
"""Members of an envelope, which do not count for what is in it."""
PLACES_DEPTH: Final = 2
"""The places of the items are noted for an array within so many others: in a member of the envelope's members."""
RUN_DEPTH: Final = 3
"""The values of arrays and objects at this depth and below may be read in runs."""
WINDOW: Final = PIECE
"""Bytes that one run may take."""
GOOD_RUN: Final = 1_024
"""A run of so many bytes is worth what it costs to try one."""
MAX_SKIPPED: Final = 256
"""Values that are read one by one, at most, before a run is tried again."""


class Unreadable(Fault):
    """A large message that cannot be taken. `members` are those of its envelope that were read before."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.members: dict[str, object] = {}


class Cut(str):
    """The beginning of a text that was too long to keep."""


class Span(msgspec.Struct):
    """A member of the envelope: where it stands, what it is where it is short, and where its own members stand."""

    start: int
    stop: int
    value: object
    inner: dict[str, Span]


class LargeReader:
    """Reads one message: one value and nothing behind it."""

    def __init__(self, data: bytes, limits: Limits, members: int, keep: tuple[str, str] | None = None) -> None:
        """`keep` names a member of a member of the envelope of which the value is wanted."""
        self._data = data
        self._end = len(data)
        self._most_members = members + AROUND
        self._told_members = members
        self._most_depth = limits.depth + 2
        self._members = 0
        self._keep = keep
        self._out: list[bytes] = []
        self._at = 0
        self._poor_runs = 0
        """Runs in a row that were not worth it."""
        self._skip = 0
        """Values to read one by one before a run is tried again."""
        self.names: set[bytes] = set()
        self.spans: dict[str, Span] = {}
        """The envelope's members, or an array's items by their number."""
        self.places: dict[tuple[str, str], array[int]] = {}
        """Where the items of an array in a member of the envelope begin and end, by the names of both."""
        self._runs = RunReader(self.names)

    def read(self) -> bytes:
        """The whole message, compact. Raises `Unreadable`."""
        try:
            self._value()
        except Unreadable as bad:
            bad.members = {name: span.value for name, span in self.spans.items()}
            raise
        return b"".join(self._out)

    def _put(self, piece: bytes) -> None:
        self._out.append(piece)
        self._at += len(piece)

    def _value(self) -> None:
        """The state machine: a value, then whatever its container says comes next."""
        data, stack = self._data, list[_Open]()
        pos = self._blank(0)
        while True:
            head = data[pos : pos + 1]
            begun = self._at
            keep = bool(stack) and stack[-1].keep
            value: object = msgspec.UNSET
            if len(stack) >= RUN_DEPTH and not keep and (run := self._run(pos, stack)):
                pos, begun = run
            elif head in (b"{", b"["):
                pos = self._open(head, pos, stack)
                if not stack[-1].empty:
                    continue
                opened = stack.pop()
                value, begun = opened.value, opened.begun
            elif head == b'"':
                value, pos = self._text(pos, keep)
            else:
                value, pos = self._scalar(pos)
            # The value is complete. It may complete its container, and that the next one.
            while True:
                if not stack:
                    if self._blank(pos) != self._end:
                        raise _no_json("more follows the message")
                    return
                self._store(stack, value, begun)
                pos = self._blank(pos)
                head = data[pos : pos + 1]
                opened = stack[-1]
                if head == b",":
                    self._count()
                    self._put(b",")
                    pos = self._blank(pos + 1)
                    if opened.is_object:
                        pos = self._name(pos, stack)
                    break
                if head != opened.closing:
                    raise _no_json("a comma or the end of an array or object is missing")
                self._put(head)
                pos += 1
                stack.pop()
                value, begun = opened.value, opened.begun
                if opened.places:
                    self.places[stack[0].key, stack[1].key] = opened.places

    def _run(self, pos: int, stack: list[_Open]) -> tuple[int, int] | None:
        """Read the value here and those behind it, as many as are sure: where they end, and where the last was put."""
        if self._skip:
            self._skip -= 1
            return None
        opened = stack[-1]
        run = self._runs.read(self._data[pos : pos + WINDOW], "}" if opened.is_object else "]", opened.names)
        if run is not None and not (
            self._members + run.members <= self._most_members and run.fits(self._most_depth - len(stack))
        ):
            run = None  # refused where it is read one by one
        self._poor_runs = 0 if run is not None and run.stop >= GOOD_RUN else self._poor_runs + 1
        self._skip = min(2 ** min(self._poor_runs, 20) >> 2, MAX_SKIPPED)
        if run is None:
            return None
        self._members += run.members
        opened.names |= run.names
        begun = self._at
        for item in run.items[:-1]:
            if opened.places is not None:
                opened.places.extend((begun, begun + len(item)))
            begun += len(item) + 1
        self._put(b",".join(run.items))
        return pos + run.stop, begun

    def _open(self, head: bytes, pos: int, stack: list[_Open]) -> int:
        self._count()
        if len(stack) >= self._most_depth:
            raise Unreadable("INVALID_REQUEST", f"nested deeper than {self._most_depth - 2} levels")
        path = tuple(opened.key for opened in stack)
        keep = bool(stack) and (stack[-1].keep or path == self._keep)
        opened = _Open(head == b"{", keep, self._at, places=len(stack) == PLACES_DEPTH)
        stack.append(opened)
        self._put(head)
        pos = self._blank(pos + 1)
        if self._data[pos : pos + 1] == opened.closing:
            opened.empty = True
            self._put(opened.closing)
            return pos + 1
        return self._name(pos, stack) if opened.is_object else pos

    def _name(self, pos: int, stack: list[_Open]) -> int:
        if self._data[pos : pos + 1] != b'"':
            raise _no_json("an object's member has no name")
        if self._data.find(b'"', pos + 1, pos + NAME) < 0:
            raise Unreadable("INVALID_REQUEST", f"the name of a member is longer than {NAME} bytes, or has no end")
        name, stop = self._text(pos, False)
        if type(name) is Cut or stop - pos > NAME:
            raise Unreadable("INVALID_REQUEST", f"the name of a member is longer than {NAME} bytes")
        assert isinstance(name, str)
        opened = stack[-1]
        if name in opened.names:
            raise Unreadable("INVALID_REQUEST", f"member {name[:100]!r} stands twice")
        opened.names.add(name)
        # As it is written plainly, however it came.
        self.names.add(_encode(name))
        opened.key = name
        pos = self._blank(stop)
        if self._data[pos : pos + 1] != b":":
            raise _no_json("a name has no value")
        self._put(b":")
        return self._blank(pos + 1)

    def _store(self, stack: list[_Open], value: object, begun: int) -> None:
        opened = stack[-1]
        if opened.keep:
            if opened.is_object:
                assert isinstance(opened.value, dict)
                opened.value[opened.key] = value
            else:
                assert isinstance(opened.value, list)
                opened.value.append(value)
        if opened.places is not None:
            opened.places.extend((begun, self._at))
        if len(stack) <= 2:
            if not opened.is_object:
                opened.key = str(opened.items)
                opened.items += 1
            span = Span(begun, self._at, value, opened.inner)
            if len(stack) == 1:
                self.spans[opened.key] = span
                opened.inner = {}
            else:
                stack[0].inner[opened.key] = span

    def _count(self) -> None:
        self._members += 1
        if self._members > self._most_members:
            raise Unreadable("INVALID_REQUEST", f"more than {self._told_members} members")

    def _blank(self, pos: int) -> int:
        """Where something else than blanks follows."""
        data = self._data
        if data[pos : pos + 1] not in _BLANK:
            return pos
        while True:
            found = _BLANKS.match(data, pos, pos + PIECE)
            assert found is not None
            if found.end() < pos + PIECE or found.end() == self._end:
                if found[0] == b" ":
                    self._put(b" ")  # as most write it, and harmless
                return found.end()
            pos = found.end()

    def _scalar(self, pos: int) -> tuple[object, int]:
        found = _SCALAR.match(self._data, pos, pos + NUMBER + 1)
        if found is None:
            raise _no_json("a value is missing" if pos < self._end else "it ends too early")
        if found.end() - pos > NUMBER:
            if found[0][:1] not in _NUMBER_BEGINS:
                raise _no_json("a value is none of JSON")
            raise Unreadable("INVALID_REQUEST", f"a number is longer than {NUMBER} characters")
        token = found[0]
        try:
            value: object = _decode(token)
        except (msgspec.DecodeError, ValueError) as cause:
            raise _no_json(str(cause)) from None
        self._put(token)
        return value, found.end()

    def _text(self, pos: int, keep: bool) -> tuple[object, int]:
        """A string; of a long one that is not kept, its beginning."""
        data = self._data
        stop = data.find(b'"', pos + 1, pos + PIECE)
        if stop >= 0 and data.find(b"\\", pos + 1, stop) < 0:
            token = data[pos : stop + 1]
            text = _text(token)
            self._put(token)
            return text, stop + 1
        parts: list[str] = []
        self._put(b'"')
        pos += 1
        while data[pos : pos + 1] != b'"':
            stop = self._piece(pos)
            piece = data[pos:stop]
            text = _text(b'"%b"' % piece)
            self._put(piece if piece.find(b"\\") < 0 else _encode(text)[1:-1])
            if keep or not parts:
                parts.append(text)
            pos = stop
            if not keep and data[pos : pos + 1] != b'"':
                parts = [Cut(parts[0][:NAME])]
        self._put(b'"')
        return (parts[0] if len(parts) == 1 else "".join(parts)), pos + 1

    def _piece(self, pos: int) -> int:
        """Where a piece of a string ends: not in the middle of an escape, a pair of surrogates or a character."""
        data, most = self._data, min(pos + PIECE, self._end)
        found = _CONTENT.match(data, pos, most)
        assert found is not None
        stop = found.end()
        if stop < most and data[stop] == _BACKSLASH and most - stop > _MAX_ESCAPE_BYTES:
            raise _no_json("an escape is not one of JSON")
        for _ in range(3):
            if stop < self._end and stop > pos and data[stop] & 0xC0 == 0x80:
                stop -= 1
        if stop == pos or stop == self._end:
            raise _no_json("a text does not end")
        return stop


class _Open:
    """An array or object that is being read."""

    __slots__ = ("begun", "closing", "empty", "inner", "is_object", "items", "keep", "key", "names", "places", "value")

    def __init__(self, is_object: bool, keep: bool, begun: int, *, places: bool = False) -> None:
        self.is_object = is_object
        self.closing = b"}" if is_object else b"]"
        self.keep = keep
        self.begun = begun
        self.value: object = msgspec.UNSET if not keep else {} if is_object else []
        self.names: set[str] = set()
        self.key = ""
        self.items = 0
        self.empty = False
        self.inner: dict[str, Span] = {}
        self.places = array("q") if places and not is_object else None


_BLANK: Final = frozenset((b" ", b"\t", b"\r", b"\n"))
_BLANKS: Final = re.compile(rb"[ \t\r\n]*+")
_NUMBER_BEGINS: Final = frozenset(b"%d" % digit for digit in range(10)) | {b"-"}
_SCALAR: Final = re.compile(rb"[-+.0-9a-zA-Z]++")
_CONTENT: Final = re.compile(
    rb'(?:[^"\\]++|\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*+',
    re.DOTALL,
)
_MAX_ESCAPE_BYTES: Final = len("\\ud83d\\ude00")
_BACKSLASH: Final = ord("\\")
_decode: Final = msgspec.json.Decoder().decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode


def _text(token: bytes) -> str:
    try:
        return _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise _no_json(str(cause)) from None


def _no_json(why: str) -> Unreadable:
    return Unreadable("PARSE_ERROR", f"not JSON: {why}")
