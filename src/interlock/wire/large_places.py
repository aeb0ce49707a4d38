"""The places of values in a large message: members of the envelope, their members, and items of arrays among those."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from itertools import accumulate
from operator import add
from typing import Any, Final

import msgspec

from interlock.wire.large_pieces import UnreadableMessage

PLACES_DEPTH: Final = 2
"""Items are noted for arrays at this depth: members of the envelope's members."""

MAX_SPANS: Final = 10_000
"""The envelope, and each of its members, has at most so many members or items: each is noted by itself."""
MAX_NAMES_TOGETHER: Final = 16_384
"""Upper bound for the names in one set, before those of the next piece are added."""


class MemberSpan(msgspec.Struct):
    """A member of the envelope: its place, its value if that is short, and the places of its own members."""

    start: int
    stop: int
    value: object
    inner: dict[str, MemberSpan]


class Names:
    """The names in one object, in several sets: a large set would block the interpreter when it grows or is freed."""

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        self._sets: list[set[str]] = []

    def update(self, node: Mapping[str, object]) -> None:
        """Add the names of a piece."""
        if not self._sets or len(self._sets[-1]) >= MAX_NAMES_TOGETHER:
            self._sets.append(set())
        self._sets[-1].update(node)

    def among(self, node: Mapping[str, object]) -> set[str]:
        """The names of a piece that are known."""
        found: set[str] = set()
        for names in self._sets:
            found |= node.keys() & names
        return found

    def clear(self) -> None:
        """Forget all names, one set after the other."""
        while self._sets:
            self._sets.pop()


class OpenContainer:
    """An array or object that is being read."""

    __slots__ = ("base", "begun", "head", "inner", "is_object", "items", "key", "name", "names", "places", "value")

    def __init__(self, is_object: bool, name: str, value: Any = None) -> None:
        self.is_object = is_object
        self.head = b"["
        """Bytes to put before the next piece: `[`, or `{` and the name of the last member."""
        self.name = name
        """The name that it has in the object around it."""
        self.names = Names()
        self.key = ""
        """The name of its last member."""
        self.value = value
        """Its value as far as it is read, where a reader wants it; else None."""
        self.begun = 0
        self.base = 0
        """Where the member of the envelope around it begins."""
        self.items = 0
        self.inner: dict[str, MemberSpan] = {}
        self.places = array("q")

    def read_key(self, key: str) -> None:
        """Note the name of the last member."""
        self.key, self.head = key, b"{%b:" % msgspec.json.encode(key)


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
        for number, (name, begun, stop) in enumerate(_children(written, at)):
            child = node[name] if opened.is_object else node[number]
            inner = None
            if number == 0 and ends.continues(opened, level):
                if level + 1 == len(ends.before):
                    continue  # the placeholder of a value that was noted already
                inner = ends.before[level + 1]
            elif number == last and level + 1 < len(ends.behind):
                inner = ends.behind[level + 1]
                inner.begun = begun
            elif isinstance(child, dict | list):
                inner = OpenContainer(
                    isinstance(child, dict), name, child if (opened.name, name) == self._keep else None
                )
                inner.begun = begun
            if inner is not None:
                inner.base = opened.begun
                self.note(ends, inner, level + 1, written[begun - at : stop - at], begun, child)
            if number == last:
                continue
            if inner is None:
                span = MemberSpan(begun, stop, child, {})
            else:
                value = msgspec.UNSET if inner.value is None or level == 0 else inner.value
                span = MemberSpan(inner.begun, stop, value, inner.inner)
                if level == 1 and inner.places:
                    self.items[opened.name, name if opened.is_object else str(opened.items)] = inner.places
            self._store(opened, level, name, span)

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


class OpenEnds(msgspec.Struct, frozen=True):
    """The arrays and objects that are open at the two ends of a piece."""

    before: list[OpenContainer]
    behind: list[OpenContainer]
    text_follows: bool

    def continues(self, opened: OpenContainer, level: int) -> bool:
        """Whether an array or object began before the piece. So did the first value in it."""
        return level < len(self.before) and opened is self.before[level]

    def goes_on(self, opened: OpenContainer, level: int) -> bool:
        """Whether the last value in an array or object continues after the piece."""
        behind = self.behind
        return level < len(behind) and opened is behind[level] and (self.text_follows or level + 1 < len(behind))


def _children(written: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    """The values of an array or object, each with its name and its place."""
    at += 1
    if written[:1] == b"{":
        for name, value in _decode_members(written).items():
            at += len(_encode(name)) + 1
            yield name, at, at + len(value)
            at += len(value) + 1
    else:
        for value in _decode_items(written):
            yield "", at, at + len(value)
            at += len(value) + 1


def _note_items(ends: OpenEnds, opened: OpenContainer, written: bytes, at: int) -> None:
    """Note the places of an array's items."""
    sizes = [*map(len, _decode_items(written))]
    starts = [*accumulate(map((1).__add__, sizes), initial=at + 1 - opened.base)]
    places = [0] * (2 * len(sizes))
    places[::2], places[1::2] = starts[:-1], map(add, starts, sizes)
    inside = PLACES_DEPTH + 1
    if places and ends.goes_on(opened, PLACES_DEPTH):
        if inside < len(ends.behind):
            ends.behind[inside].begun = places[-2] + opened.base
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
