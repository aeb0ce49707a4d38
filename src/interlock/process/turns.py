"""Work on many values in short turns of the event loop, so that calls go on in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

import msgspec

AT_ONCE: Final = 50
"""Values in one turn, where each takes less than a tenth of a millisecond."""

Value = TypeVar("Value")


async def in_turns(values: Iterable[Value], at_once: int = AT_ONCE) -> AsyncIterator[Value]:
    """The values, with a turn of the loop after every few of them."""
    for count, value in enumerate(values, 1):
        yield value
        if not count % at_once:
            await asyncio.sleep(0)


async def encode_in_turns(answer: msgspec.Struct) -> bytes:
    """An answer as JSON. Its long lists are encoded piece by piece, as one with thousands of rows takes long."""
    names = answer.__struct_fields__
    long = {name: value for name in names if isinstance(value := getattr(answer, name), list) and len(value) > AT_ONCE}
    if not long:
        return msgspec.json.encode(answer)
    encoded = {name: msgspec.Raw(await _list_in_turns(values)) for name, values in long.items()}
    return msgspec.json.encode(msgspec.structs.replace(answer, **encoded))


async def _list_in_turns(values: list[object]) -> bytes:
    pieces = []
    for start in range(0, len(values), AT_ONCE):
        pieces.append(msgspec.json.encode(values[start : start + AT_ONCE])[1:-1])
        await asyncio.sleep(0)
    return b"[" + b",".join(pieces) + b"]"
