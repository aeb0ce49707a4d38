"""Reads a large message piece by piece, in a thread.

A native decoder holds the interpreter for as long as one call takes: tens of milliseconds for ten megabytes. Here no
call gets more than a few times `PIECE_BYTES` bytes, so that the event loop gets its turn.

A piece ends before a comma, or before a long text. It is decoded with the arrays and objects that are open around it:
`,2],[3` within `{"a":[[1` becomes `{"a":[["",2],[3]]}`, with an empty text for the value that was read last.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from interlock.wire.large import PIECE_BYTES, noted
from interlock.wire.large_pieces import (
    NAME,
    MessagePiece,
    UnreadableMessage,
    last_comma,
    mask,
    no_json,
    refusal,
    split,
    unmask,
    without_blanks,
)
from interlock.wire.large_places import PLACES_DEPTH, MessagePlaces, OpenContainer, OpenEnds
from interlock.wire.limits import Limits

AROUND: Final = 16
"""Members of an envelope, which do not count towards the limit."""
LONG_TEXT: Final = PIECE_BYTES // 2
"""A string that has not ended after this many bytes is read by itself."""
MAX_REST: Final = 4 * PIECE_BYTES
"""Upper bound for bytes without a comma, blanks aside: names have a bound, and so has the depth."""
MAX_KNOWN: Final = 4_096
"""Upper bound for the names that the reader remembers. Most messages repeat a few."""
SMALLEST: Final = 4
"""After an error, pieces are halved down to this size to find the members before it."""


class CutString(str):
    """The beginning of a string that was too long to keep."""


class LargeReader:
    """Reads one message: one value and nothing behind it."""

    def __init__(self, data: bytes, limits: Limits, members: int, keep: tuple[str, str] | None = None) -> None:
        """`keep` names the value to decode: a member of the envelope, and a member of that."""
        self._data = data
        self._max_members = members + AROUND
        self._reported_max = members
        self._max_depth = limits.depth + 2
        self.members = 0
        """Members and items so far, at any depth."""
        self._keep = keep
        self._pos = 0
        self._rest = b""
        """Bytes before `_pos` that are not read yet. They contain no comma, except as their first byte."""
        self._stack: list[OpenContainer] = []
        """The open arrays and objects. All pieces but the first begin behind a value of the last one."""
        self._begun = False
        self._in_text = False
        self._out: list[bytes] = []
        self._at = 0
        self._known: set[bytes] = set()
        """Names that were looked at, while they are few."""
        self.names: frozenset[bytes] = frozenset()
        """The noted ones among all."""
        self._places = MessagePlaces(keep)
        self.spans = self._places.spans
        """The envelope's members, or an array's items by their number."""
        self.places = self._places.items
        """Where the items of an array begin and end in the envelope's member around it, by the names of both."""

    def read(self) -> bytes:
        """The whole message, compact. Raises `UnreadableMessage`."""
        try:
            self._read_pieces()
        except UnreadableMessage as bad:
            bad.after({name: span.value for name, span in self.spans.items()})
            raise
        return b"".join(self._out)

    def _read_pieces(self) -> None:
        size = PIECE_BYTES
        while self._pos < len(self._data) or not self._begun:
            try:
                self._step(size)
            except UnreadableMessage:
                if size <= max(SMALLEST, len(self._rest) // 4) or self._in_text or self._places.is_full:
                    raise
                size //= 2  # the members before the error tell whom to answer
        if self._stack:
            raise no_json("it ends too early")

    def _step(self, size: int) -> None:
        """Read one piece, or only add to the bytes that wait for their end."""
        stop = min(self._pos + max(size, len(self._rest) // 4), len(self._data))
        window = self._rest + self._data[self._pos : stop]
        parts = split(window)
        at_end = stop == len(self._data)
        if len(parts) % 2 == 0 and (at_end or len(parts[-1]) > LONG_TEXT):
            text = stop - len(parts.pop()) - 1
            self._read_piece(parts, True)
            self._rest = b""
            self._pos = text
            self._read_text()
            return
        if at_end:
            self._read_piece(parts, False)
        else:
            number, comma = last_comma(parts)
            if not number and not comma:
                rest = without_blanks(parts)
                if len(rest) > MAX_REST:
                    raise no_json("a value does not end")
                self._rest = rest
            else:
                behind = len(parts[number]) - comma + sum(len(part) + 1 for part in parts[number + 1 :])
                parts[number:] = [parts[number][:comma]]
                self._read_piece(parts, False)
                self._rest = window[len(window) - behind :]
        self._pos = stop

    def _read_piece(self, parts: list[bytes], text_follows: bool) -> None:
        """Check a piece and take it. Nothing has changed where it is refused."""
        piece = MessagePiece.of(parts)
        members = self.members + piece.members
        if members > self._max_members:
            raise UnreadableMessage("INVALID_REQUEST", f"more than {self._reported_max} members")
        kinds, lowest = self._nesting(piece.brackets)
        if text_follows:
            if kinds.endswith(b"{") and not piece.skeleton.endswith(b":"):
                raise UnreadableMessage(
                    "INVALID_REQUEST", f"the name of a member is longer than {NAME} bytes, or has no end"
                )
        elif piece.skeleton.endswith((b"[", b"{")):
            raise no_json("a value is missing")
        heads = [opened.head for opened in self._stack]
        around = b"".join(heads) + (b'""' if self._begun else b"")
        closing = (b'""' if text_follows else b"") + kinds[::-1].translate(_CLOSING)
        whole = b"".join((around, piece.written, closing))
        tree = _tree(whole)
        nodes = self._continued(tree)
        behind = self._opened(tree, kinds, lowest)
        if lowest <= PLACES_DEPTH + 1 and isinstance(tree, dict | list):
            level = max(lowest - 1, 0)
            start = sum(map(len, heads[:level]))
            opened = (self._stack or behind or [OpenContainer(isinstance(tree, dict), "")])[level]
            at = self._at - len(around) + start
            node = nodes[level] if nodes else tree
            ends = OpenEnds(self._stack, behind, text_follows)
            self._places.note(ends, opened, level, whole[start : len(whole) - level], at, node)
        _keep_values(self._stack, nodes)
        for closed in self._stack[lowest:]:
            closed.names.clear()
        self._stack = behind
        self._begun = True
        self.members = members
        new = piece.names - self._known
        if len(self._known) < MAX_KNOWN:
            self._known |= new
        self.names |= noted([b'"%b"' % unmask(name) for name in new])
        self._put(piece.written)

    def _nesting(self, brackets: bytes) -> tuple[bytes, int]:
        """The brackets that are open behind a piece, and how many of those before it stay open all the time."""
        before = b"".join([opened.head[:1] for opened in self._stack])
        short, passes = brackets, 0
        while len(left := short.replace(b"{}", b"").replace(b"[]", b"")) < len(short) * 3 // 4:
            short, passes = left, passes + 1
        kinds, lowest, deepest = _walk(before, short)
        # A pass takes out two levels at most.
        if deepest + 2 * passes > self._max_depth:
            kinds, lowest, deepest = _walk(before, brackets)
        if deepest > self._max_depth:
            raise UnreadableMessage("INVALID_REQUEST", f"nested deeper than {self._max_depth - 2} levels")
        return kinds, lowest

    def _continued(self, tree: Any) -> list[Any]:
        """The piece's part of each array and object that was already open. Refuses a name that repeats there."""
        nodes: list[Any] = []
        node = tree
        for opened in self._stack:
            nodes.append(node)
            if opened.is_object:
                if len(twice := opened.names.among(node)) > 1:
                    raise _twice(min(twice - {opened.key}))
                node = node[opened.key]
            else:
                node = node[0]
        return nodes

    def _opened(self, tree: Any, kinds: bytes, lowest: int) -> list[OpenContainer]:
        """The arrays and objects that are open behind a piece."""
        stack: list[OpenContainer] = []
        node = tree
        for level in range(len(kinds)):
            if level < lowest:
                opened = self._stack[level]
            else:
                around = stack[-1] if stack else None
                path = tuple(each.key for each in stack)
                keep = around is not None and (around.value is not None or path == self._keep)
                opened = OpenContainer(
                    kinds[level] == _BRACE, "" if around is None else around.key, node if keep else None
                )
            stack.append(opened)
            if opened.is_object:
                opened.names.update(node)
                opened.read_key(next(reversed(node), ""))
                node = node.get(opened.key)
            else:
                node = node[-1] if node else None
        return stack

    def _read_text(self) -> None:
        """Read a long text, and put it where its piece left an empty one."""
        self._in_text = True
        begun, stack = self._at, self._stack
        opened = stack[-1] if stack else OpenContainer(False, "")
        value = self._text(opened.value is not None)
        self._in_text = False
        if isinstance(opened.value, dict):
            opened.value[opened.key] = value
        elif isinstance(opened.value, list):
            opened.value[-1] = value
        if stack:
            self._places.note_text(stack, begun, self._at, value)

    def _text(self, keep: bool) -> str:
        """A text; of a long one that is not kept, its beginning."""
        data, parts, pos = self._data, list[str](), self._pos + 1
        self._put(b'"')
        while True:
            stop, ends = _end_of_text(data, pos)
            piece = data[pos:stop]
            try:
                text = _decode_text(b'"%b"' % piece)
            except (msgspec.DecodeError, UnicodeDecodeError) as cause:
                raise refusal(cause) from None
            self._put(piece if b"\\" not in piece else _encode(text)[1:-1])
            if keep or not parts:
                parts.append(text)
            pos = stop
            if ends:
                break
            if not keep:
                parts = [CutString(parts[0][:NAME])]
        self._put(b'"')
        self._pos = pos + 1
        return parts[0] if len(parts) == 1 else "".join(parts)

    def _put(self, piece: bytes) -> None:
        self._out.append(piece)
        self._at += len(piece)


def _walk(before: bytes, brackets: bytes) -> tuple[bytes, int, int]:
    """The brackets that are open behind others, and how many were open at least and at most."""
    kinds = bytearray(before)
    lowest = deepest = len(kinds)
    for run in _RUNS.findall(brackets):
        if run[0] in _OPENING:
            kinds += run
            deepest = max(deepest, len(kinds))
        elif kinds[-len(run) :] == run[::-1].translate(_OPENED_BY):
            del kinds[-len(run) :]
            lowest = min(lowest, len(kinds))
        else:
            raise no_json("an array or object ends that has not begun")
    return bytes(kinds), lowest, deepest


def _tree(whole: bytes) -> Any:
    """The value of a piece, with the arrays and objects around it. Raises `UnreadableMessage` for duplicate names."""
    try:
        tree = _decode(whole)
    except (msgspec.DecodeError, ValueError) as cause:
        raise refusal(cause) from None
    # The same texts are written again, so that a member less is at least a colon less.
    if whole.count(b":") != _encode(tree).count(b":"):
        json.loads(whole, object_pairs_hook=_refuse_twice)
    return tree


def _refuse_twice(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _twice(name)
        seen.add(name)


def _twice(name: str) -> UnreadableMessage:
    return UnreadableMessage("INVALID_REQUEST", f"duplicate member {name[:100]!r}")


def _keep_values(stack: list[OpenContainer], nodes: list[Any]) -> None:
    """Add the values of a piece to the arrays and objects before it of which the value is wanted."""
    for opened, node in zip(stack, nodes, strict=True):
        if isinstance(opened.value, dict):
            first = next(iter(node))
            node[first] = opened.value[first]
            opened.value.update(node)
        elif isinstance(opened.value, list):
            opened.value.extend(node[1:])


def _end_of_text(data: bytes, pos: int) -> tuple[int, bool]:
    """Where a piece of a text ends, and whether the text does: not inside an escape, a pair of them or a character."""
    masked = mask(data[pos : pos + PIECE_BYTES])
    if (found := masked.find(b'"')) >= 0:
        return pos + found, True
    if pos + PIECE_BYTES >= len(data):
        raise no_json("a text does not end")
    stop = PIECE_BYTES
    if (escape := masked.rfind(b"\\", stop - _ESCAPE)) >= 0:
        is_pair = masked[escape - _ESCAPE : escape - 2].lower() in _FIRST_OF_PAIR
        stop = escape - _ESCAPE if is_pair else escape
    while stop > PIECE_BYTES - 2 * _ESCAPE and data[pos + stop] & 0xC0 == 0x80:
        stop -= 1
    return pos + stop, False


_BRACE: Final = ord("{")
_ESCAPE: Final = len("\\ud83d")
_FIRST_OF_PAIR: Final = (rb"\ud8", rb"\ud9", rb"\uda", rb"\udb")
_OPENING: Final = b"{["
_RUNS: Final = re.compile(rb"[{[]++|[}\]]++")
_OPENED_BY: Final = bytes.maketrans(b"}]", b"{[")
_CLOSING: Final = bytes.maketrans(b"{[", b"}]")
_decode: Final = msgspec.json.Decoder().decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode
