"""The places of values in a large message: members of the envelope, their members, and items of arrays among those."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate
from operator import add
from typing import Any, Final, NamedTuple

import msgspec

from interlock.wire.large_containers import MemberSpan, OpenContainer, OpenEnds
from interlock.wire.large_pieces import UnreadableMessage

PLACES_DEPTH: Final = 2
"""Items are noted for arrays at this depth: members of the envelope's members."""
MAX_SPANS: Final = 10_000
"""The envelope, and each of its members, has at most so many members or items: each is noted by itself."""


class MessagePlaces:
    """The places of one message."""

    def __init__(self, keep: tuple[str, str] | None) -> None:
        """`keep` names the value to decode: a member of the envelope, and a member of that."""
        self._keep = keep
        self.spans: dict[str, MemberSpan] = {}
        self.items: dict[tuple[str, str], array[int]] = {}
        """Where the items of an array begin and end, from the beginning of the envelope's member around it."""
        self.is_full = False
        """Whether a member was refused because there are too many. A smaller piece does not help."""

    def note_text(self, stack: list[OpenContainer], begun: int, stop: int, value: str) -> None:
        """Note a text that was read by itself."""
        opened = stack[-1]
        if len(stack) <= PLACES_DEPTH:
            self._store(opened, len(stack) - 1, opened.key, MemberSpan(begun, stop, value, {}))
        elif len(stack) == PLACES_DEPTH + 1 and not opened.is_object:
            opened.places.extend((begun - opened.base, stop - opened.base))

    def note(self, ends: OpenEnds, opened: OpenContainer, level: int, written: bytes, at: int, node: Any) -> None:
        """Note the values that a piece adds to an array or object, which is written there, and to those in it."""
        if level == PLACES_DEPTH:
            if not opened.is_object:
                _note_items(ends, opened, written, at)
            return
        last = len(node) - 1 if ends.goes_on(opened, level) else -1
        for number, child in enumerate(_children(written, at, node)):
            if number == 0 and ends.continues(opened, level):
                if level + 1 == len(ends.before):
                    continue  # the placeholder of a value that was noted already
                inner: OpenContainer | None = ends.before[level + 1]
            elif number == last and level + 1 < len(ends.behind):
                inner = ends.behind[level + 1].begin_at(child.start, opened.begun)
            else:
                inner = self._whole(opened, child)
            if inner is not None:
                self.note(ends, inner, level + 1, written[child.start - at : child.stop - at], child.start, child.value)
            if number != last:
                self._note_end(opened, level, child, inner)

    def _whole(self, opened: OpenContainer, child: _Child) -> OpenContainer | None:
        """The array or object that a piece has as a whole; None for any other value."""
        if not isinstance(child.value, dict | list):
            return None
        value = child.value if (opened.name, child.name) == self._keep else None
        return OpenContainer(isinstance(child.value, dict), child.name, value).begin_at(child.start, opened.begun)

    def _note_end(self, opened: OpenContainer, level: int, child: _Child, inner: OpenContainer | None) -> None:
        """Note a value that ends in the piece."""
        if inner is None:
            self._store(opened, level, child.name, MemberSpan(child.start, child.stop, child.value, {}))
            return
        if level == 1 and inner.places:
            self.items[opened.name, child.name if opened.is_object else str(opened.items)] = inner.places
        value = msgspec.UNSET if inner.value is None or level == 0 else inner.value
        self._store(opened, level, child.name, MemberSpan(inner.begun, child.stop, value, inner.inner))

    def _store(self, opened: OpenContainer, level: int, name: str, span: MemberSpan) -> None:
        if not opened.is_object:
            name = str(opened.items)
            opened.items += 1
        spans = opened.inner if level else self.spans
        if len(spans) >= MAX_SPANS:
            self.is_full = True
            raise UnreadableMessage(
                "INVALID_REQUEST", f"more than {MAX_SPANS} members in the envelope or a member of it"
            )
        spans[name] = span


class _Child(NamedTuple):
    """A value in an array or object, with its name and its place."""

    name: str
    start: int
    stop: int
    value: Any


def _children(written: bytes, at: int, node: Any) -> Iterator[_Child]:
    """The values of an array or object that is written at this place."""
    at += 1
    if written[:1] == b"{":
        for name, raw in _decode_members(written).items():
            at += len(_encode(name)) + 1
            yield _Child(name, at, at + len(raw), node[name])
            at += len(raw) + 1
    else:
        for number, raw in enumerate(_decode_items(written)):
            yield _Child("", at, at + len(raw), node[number])
            at += len(raw) + 1


def _note_items(ends: OpenEnds, opened: OpenContainer, written: bytes, at: int) -> None:
    """Note the places of an array's items."""
    sizes = [*map(len, _decode_items(written))]
    starts = [*accumulate(map((1).__add__, sizes), initial=at + 1 - opened.base)]
    places = [0] * (2 * len(sizes))
    places[::2], places[1::2] = starts[:-1], map(add, starts, sizes)
    inside = PLACES_DEPTH + 1
    if places and ends.goes_on(opened, PLACES_DEPTH):
        if inside < len(ends.behind):
            ends.behind[inside].begin_at(places[-2] + opened.base)
        del places[-2:]
    if places and ends.continues(opened, PLACES_DEPTH):
        if inside < len(ends.before):
            places[0] = ends.before[inside].begun - opened.base
        else:
            del places[:2]
    opened.places.extend(places)


_encode: Final = msgspec.json.Encoder().encode
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
