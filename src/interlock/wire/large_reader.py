"""Reads a large message piece by piece, in a thread.

A native decoder holds the interpreter for as long as one call takes: tens of milliseconds for ten megabytes. Here no
call gets more than a few times `PIECE_BYTES` bytes, so that the event loop gets its turn.

A piece ends before a comma, or before a long text. It is decoded with the arrays and objects that are open around it:
`,2],[3` within `{"a":[[1` becomes `{"a":[["",2],[3]]}`, with an empty text for the value that was read last.
"""

from __future__ import annotations

from typing import Final

from interlock.wire.large import PIECE_BYTES, noted
from interlock.wire.large_containers import OpenContainer, OpenEnds, continued, open_behind
from interlock.wire.large_nesting import Nesting, nesting_behind
from interlock.wire.large_pieces import (
    MAX_NAME_BYTES,
    MessagePiece,
    UnreadableMessage,
    decode_whole,
    last_comma,
    no_json,
    split,
    unmask,
    without_blanks,
)
from interlock.wire.large_places import PLACES_DEPTH, MessagePlaces
from interlock.wire.large_texts import read_text
from interlock.wire.limits import Limits

ENVELOPE_MEMBERS: Final = 16
"""Members of an envelope, which do not count towards the limit."""
LONG_TEXT: Final = PIECE_BYTES // 2
"""A string that has not ended after this many bytes is read by itself."""
MAX_REST: Final = 4 * PIECE_BYTES
"""Upper bound for bytes without a comma, blanks aside: names have a bound, and so has the depth."""
MAX_KNOWN: Final = 4_096
"""Upper bound for the names that the reader remembers. Most messages repeat a few."""
SMALLEST: Final = 4
"""After an error, pieces are halved down to this size to find the members before it."""


class LargeReader:
    """Reads one message: one value and nothing behind it."""

    def __init__(self, data: bytes, limits: Limits, members: int, keep: tuple[str, str] | None = None) -> None:
        """`keep` names the value to decode: a member of the envelope, and a member of that."""
        self._data = data
        self._max_members = members + ENVELOPE_MEMBERS
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
        before = self._stack
        nesting = nesting_behind(b"".join([each.head[:1] for each in before]), piece.brackets, self._max_depth)
        _check_end(piece, nesting, text_follows)
        heads = [each.head for each in before]
        around = b"".join(heads) + (b'""' if self._begun else b"")
        whole = b"".join((around, piece.written, b'""' if text_follows else b"", nesting.closing))
        tree = decode_whole(whole)
        nodes = continued(before, tree)
        behind = open_behind(before, tree, nesting, self._keep)
        if nesting.lowest <= PLACES_DEPTH + 1 and isinstance(tree, dict | list):
            level = max(nesting.lowest - 1, 0)
            start = sum(map(len, heads[:level]))
            opened = (before or behind or [OpenContainer(isinstance(tree, dict), "")])[level]
            node = nodes[level] if nodes else tree
            ends = OpenEnds(before, behind, text_follows)
            written = whole[start : len(whole) - level]
            self._places.note(ends, opened, level, written, self._at - len(around) + start, node)
        for opened, node in zip(before, nodes, strict=True):
            opened.extend_value(node)
        for closed in before[nesting.lowest :]:
            closed.names.clear()
        self._stack = behind
        self._begun = True
        self.members = members
        self._note_names(piece)
        self._put(piece.written)

    def _note_names(self, piece: MessagePiece) -> None:
        new = piece.names - self._known
        if len(self._known) < MAX_KNOWN:
            self._known |= new
        self.names |= noted([b'"%b"' % unmask(name) for name in new])

    def _read_text(self) -> None:
        """Read a long text, and put it where its piece left an empty one."""
        self._in_text = True
        begun, stack = self._at, self._stack
        text = read_text(self._data, self._pos, keep=bool(stack) and stack[-1].value is not None)
        self._in_text = False
        self._pos = text.stop
        for piece in text.written:
            self._put(piece)
        if stack:
            stack[-1].replace_last(text.value)
            self._places.note_text(stack, begun, self._at, text.value)

    def _put(self, piece: bytes) -> None:
        self._out.append(piece)
        self._at += len(piece)


def _check_end(piece: MessagePiece, nesting: Nesting, text_follows: bool) -> None:
    """Refuse a piece that lacks a value at its end, and one that a long name follows."""
    if not text_follows:
        if piece.skeleton.endswith((b"[", b"{")):
            raise no_json("a value is missing")
    elif nesting.ends_in_object and not piece.skeleton.endswith(b":"):
        raise UnreadableMessage(
            "INVALID_REQUEST", f"the name of a member is longer than {MAX_NAME_BYTES} bytes, or has no end"
        )
