"""Work on many values in short turns of the event loop, so that calls go on in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

import msgspec

AT_ONCE: Final = 50
"""Values in one turn, where each takes less than a tenth of a millisecond."""

SLICE: Final = 64 * 1024

Octets = bytes | memoryview
Value = TypeVar("Value")


async def in_turns(values: Iterable[Value], at_once: int = AT_ONCE) -> AsyncIterator[Value]:
    """The values, with a turn of the loop after every few of them."""
    for count, value in enumerate(values, 1):
        yield value
        if not count % at_once:
            await asyncio.sleep(0)


async def slices_in_turns(*texts: Octets) -> AsyncIterator[Octets]:
    """Slices of texts, for a transport that sends one after the other."""
    slices = (memoryview(text)[start : start + SLICE] for text in texts for start in range(0, len(text), SLICE))
    async for each in in_turns(slices, at_once=4):
        yield each


def batches(values: Iterable[Value], size: int = AT_ONCE) -> Iterator[list[Value]]:
    """The values, a few at a time."""
    left = iter(values)
    while batch := [*islice(left, size)]:
        yield batch


async def encode_in_turns(answer: msgspec.Struct) -> bytes:
    """An answer as JSON. Its long lists are encoded piece by piece, as one with thousands of rows takes long."""
    return b"".join(await pieces_in_turns(answer))


async def pieces_in_turns(answer: msgspec.Struct) -> list[bytes]:
    """The same in pieces, for a transport that writes one after the other: joining megabytes takes long, too."""
    names = answer.__struct_fields__
    long = {name: value for name in names if isinstance(value := getattr(answer, name), list) and len(value) > AT_ONCE}
    if not long:
        return [msgspec.json.encode(answer)]
    around = msgspec.json.encode(msgspec.structs.replace(answer, **dict.fromkeys(long, _PLACE)))
    # No JSON string has the character that stands for a list here.
    first, *others = around.split(bytes(_PLACE))
    pieces = [first]
    for values, after in zip(long.values(), others, strict=True):
        comma = b"["
        async for batch in in_turns(batches(values), at_once=1):
            pieces.append(comma + msgspec.json.encode(batch)[1:-1])
            comma = b","
        pieces.append(b"]" + after)
    return pieces


_PLACE: Final = msgspec.Raw(b"\0")
