"""JSON of large messages, with the facts found while it was read, so that no part reads it a second time."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

LARGE: Final = 64 * 1024
"""Messages over this size are read in a thread (`large_reader.py`)."""
PIECE_BYTES: Final = 32 * 1024
"""Upper bound for the bytes of one native call, which blocks every other thread."""


NOTED: Final = frozenset((b'"_mgp"', b'"structuredContent"', b'"uri"'))
"""Member names that `mentions` can look for. Others are not kept: there may be half a million."""
NOTED_PREFIX: Final = b'"dev.interlock/'
"""Stands for all names with this prefix."""


class CheckedJson(bytes):
    """JSON from a large message: well formed, in UTF-8, on one line, within the limits, no name twice in one object."""

    spans: dict[str, tuple[int, int]]
    """The places of an object's member values."""
    names: frozenset[bytes]
    """The noted names of members, at any depth of the whole message, in quotes."""
    places: dict[str, array[int]]
    """Where the items of arrays among an object's members begin and end, one after the other."""
    value: object
    """The decoded value, if it is a call's arguments; else `UNSET`."""
    arguments: CheckedJson | None = None
    """The arguments among a call's params."""
    counted: int = 0
    """Members and items of the message it came in, at any depth; 0 if it was made here."""
    digest: str = ""
    """SHA-256 of arguments, which takes as long as reading them."""

    @classmethod
    def of(
        cls,
        payload: bytes,
        spans: dict[str, tuple[int, int]] | None = None,
        names: frozenset[bytes] = frozenset(),
        value: object = msgspec.UNSET,
        arguments: CheckedJson | None = None,
        digest: str = "",
    ) -> CheckedJson:
        """Mark a payload as read."""
        made = cls(payload)
        made.spans = spans or {}
        made.places = {}
        made.names = names
        made.value = value
        made.arguments = arguments
        made.digest = digest
        return made

    def with_count(self, members: int) -> CheckedJson:
        """The same, with the number of members that the whole message has."""
        self.counted = members
        return self

    def member(self, name: str) -> bytes | None:
        """One member's value, as JSON."""
        span = self.spans.get(name)
        return None if span is None else self[span[0] : span[1]]

    def items(self, name: str) -> Iterator[bytes] | None:
        """The items of an array among the members, each still JSON; None where no such array was read."""
        places = self.places.get(name)
        if places is None:
            return None
        return (self[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True))

    @property
    def members(self) -> dict[str, bytes]:
        """All members of an object, each still JSON."""
        return {name: self[start:stop] for name, (start, stop) in self.spans.items()}

    def changed(self, front: Mapping[str, bytes], drop: Container[str] = ()) -> CheckedJson:
        """The same object with other members: some set, at its front, and some dropped."""
        whole = memoryview(self)
        kept = {
            name: whole[start:stop]
            for name, (start, stop) in self.spans.items()
            if name not in front and name not in drop
        }
        payload, spans = _joined({**front, **kept})
        return CheckedJson.of(payload, spans, self.names | noted([_encode(name) for name in front]))


class JoinedArray(msgspec.Struct, frozen=True, eq=False):
    """A JSON array that the hub joined from many items. It knows the size of each, so the items need no parsing."""

    octets: bytes
    sizes: tuple[Sequence[int], ...]
    """The bytes of each item, in groups."""

    @classmethod
    def of(cls, items: Sequence[bytes]) -> JoinedArray:
        """An array of these items."""
        return cls(b"[%b]" % b",".join(items), ([*map(len, items)],))

    @classmethod
    def read(cls, octets: bytes) -> JoinedArray:
        """An array that another part joined."""
        return cls.of([*map(bytes, msgspec.json.decode(octets, type=list[msgspec.Raw]))])

    def items(self) -> Iterator[bytes]:
        """Each item of the array."""
        at = 1
        for size in chain.from_iterable(self.sizes):
            yield self.octets[at : at + size]
            at += size + 1

    def extended(self, items: Sequence[bytes]) -> JoinedArray:
        """The array with further items at its end."""
        comma = b"," if any(self.sizes) and items else b""
        pieces = (memoryview(self.octets)[:-1], comma, b",".join(items), b"]")
        return JoinedArray(b"".join(pieces), (*self.sizes, [*map(len, items)]))


def object_of(members: Mapping[str, bytes]) -> bytes:
    """An object of these members. It is known to be read where a large one of them is."""
    made, spans = _joined(members)
    if len(made) <= LARGE or not any(type(value) is CheckedJson for value in members.values()):
        return made
    given = members.get("arguments")
    return CheckedJson.of(made, spans, arguments=given if type(given) is CheckedJson else None)


def encode_large(value: object) -> bytes:
    """A value as JSON, made piece by piece."""
    out: list[bytes] = []
    _encode_into(out, value)
    return b"".join(out)


def _encode_into(out: list[bytes], value: object) -> None:
    if isinstance(value, dict):
        out.append(b"{")
        for number, (name, member) in enumerate(value.items()):
            out.append(b"%b%b:" % (b"," if number else b"", _encode(name)))
            _encode_into(out, member)
        out.append(b"}")
    elif isinstance(value, list):
        out.append(b"[")
        for number, item in enumerate(value):
            if number:
                out.append(b",")
            _encode_into(out, item)
        out.append(b"]")
    elif isinstance(value, str) and len(value) > PIECE_BYTES:
        out.append(b'"')
        out += [_encode(value[at : at + PIECE_BYTES])[1:-1] for at in range(0, len(value), PIECE_BYTES)]
        out.append(b'"')
    else:
        out.append(_encode(value))


def noted(names: Collection[bytes]) -> frozenset[bytes]:
    """The noted names among some, which are in quotes."""
    found = NOTED.intersection(names)
    return found | {NOTED_PREFIX} if any(name.startswith(NOTED_PREFIX) for name in names) else found


def mentions(payload: bytes, name: bytes) -> bool:
    """Whether a payload may have a member of this name, one of the noted ones in quotes, at any depth."""
    assert name in NOTED
    return name in payload.names if type(payload) is CheckedJson else payload.find(name) >= 0


def _joined(members: Mapping[str, bytes | memoryview]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """An object of these members, and the places of their values."""
    pieces, spans, at = list[bytes | memoryview]((b"{",)), dict[str, tuple[int, int]](), 1
    for name, value in members.items():
        head = b"%b%b:" % (b"," if spans else b"", _encode(name))
        pieces += (head, value)
        at += len(head)
        spans[name] = at, at + len(value)
        at += len(value)
    pieces.append(b"}")
    return b"".join(pieces), spans


_encode: Final = msgspec.json.Encoder().encode
