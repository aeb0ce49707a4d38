"""A collection to test with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from interlock.store import Collection


class Thing(msgspec.Struct, frozen=True):
    id: str
    owner: str = ""
    size: int = 0
    note: str | None = None


THINGS = Collection("things", Thing, key="id", columns=("owner", "size", "note"))


async def until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)
