"""A collection to test with."""

from __future__ import annotations

import msgspec

from interlock.store import Collection


class Thing(msgspec.Struct, frozen=True):
    id: str
    owner: str = ""
    size: int = 0
    note: str | None = None


THINGS = Collection("things", Thing, key="id", columns=("owner", "size", "note"))
