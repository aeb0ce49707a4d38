"""The cut parts of results, kept for a while for the caller, who reads them in pages as resources of the hub."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from interlock.hub.catalog.items import Tool
from interlock.wire.errors import Fault

PREFIX: Final = "interlock://.results/"
"""No server can have an id with a dot, so nothing of a server's is ever under here."""
LIFE_S: Final = 900.0
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_BYTES_EACH: Final = 16 * 1024 * 1024
"""Bounds for one principal; beyond either the oldest page goes first."""


class _Kept(msgspec.Struct):
    owner: str
    text: bytes
    bounds: list[int]
    until: float
    of: Tool | None
    """The tool whose result it is."""


class Pages:
    """The store. An unknown, expired or foreign page gives the same answer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0
        self._bytes_of: dict[str, int] = {}

    def keep(self, owner: str, text: bytes, ends: Sequence[int], of: Tool | None = None) -> tuple[str, int]:
        """Keep a text whose pages end there; gives the address of its first page, and how many there are."""
        text = text[: _boundary(text, MAX_BYTES_EACH)]
        self._evict_oldest(owner, len(text))
        bounds = [0, *(end for end in ends if end < len(text)), len(text)]
        id_ = secrets.token_urlsafe(18)
        self._kept[id_] = _Kept(owner, text, bounds, self._clock() + LIFE_S, of)
        self._bytes += len(text)
        self._bytes_of[owner] = self._bytes_of.get(owner, 0) + len(text)
        return f"{PREFIX}{id_}/1", len(bounds) - 1

    def read(
        self, owner: str, uri: str, may_have: Callable[[Tool], bool] = lambda tool: True
    ) -> tuple[bytes, Tool | None]:
        """A page, as a `resources/read` result, and the tool that it came from. `may_have` says whether its owner may
        still call that. Raises RESOURCE_NOT_FOUND."""
        id_, _, number = uri.removeprefix(PREFIX).partition("/")
        kept = self._kept.get(id_)
        page = int(number) if number.isascii() and number.isdigit() and len(number) < 8 else 0
        there = kept is not None and kept.owner == owner and kept.until >= self._clock()
        if kept is None or not there or not 0 < page < len(kept.bounds) or not (kept.of is None or may_have(kept.of)):
            hint = "what is cut off a result is kept for a quarter of an hour; repeat the call"
            raise Fault("RESOURCE_NOT_FOUND", "Resource not found", hint=hint, data={"uri": uri[:300]})
        text = kept.text[kept.bounds[page - 1] : kept.bounds[page]].decode()
        about: dict[str, object] = {"dev.interlock/page": page, "dev.interlock/pages": len(kept.bounds) - 1}
        if page + 1 < len(kept.bounds):
            about["dev.interlock/next"] = f"{PREFIX}{id_}/{page + 1}"
        content = {"uri": uri, "mimeType": "text/plain", "text": text, "_meta": about}
        return msgspec.json.encode({"contents": [content]}), kept.of

    def _evict_oldest(self, owner: str, size: int) -> None:
        now = self._clock()
        for id_, kept in list(self._kept.items()):
            full = self._bytes + size > MAX_BYTES
            full_of_own = kept.owner == owner and self._bytes_of.get(owner, 0) + size > MAX_BYTES_EACH
            if full or full_of_own or kept.until < now:
                del self._kept[id_]
                self._bytes -= len(kept.text)
                self._bytes_of[kept.owner] -= len(kept.text)
                if not self._bytes_of[kept.owner]:
                    del self._bytes_of[kept.owner]


def head(text: bytes, most: int) -> int:
    """Where the first piece of at most so many bytes ends: at the end of a line if one is near, else of a character."""
    return page_end(text, 0, most)


def page_end(text: bytes, start: int, page_bytes: int) -> int:
    """Where a page of at most so many bytes ends that starts there."""
    end = _boundary(text, start + max(page_bytes, 4))
    if end >= len(text):
        return len(text)
    line = text.rfind(b"\n", start + (end - start) * 3 // 4, end)
    return line + 1 if line > 0 else end


def _boundary(text: bytes, at: int) -> int:
    """The last place up to `at` that does not divide a character."""
    if at >= len(text):
        return len(text)
    while at > 0 and text[at] & 0xC0 == 0x80:
        at -= 1
    return at
