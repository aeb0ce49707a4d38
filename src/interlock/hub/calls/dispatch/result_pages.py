"""The cut parts of results, kept for a while for the caller, who reads them in pages as resources of the hub."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from interlock.hub.catalog.items import Tool
from interlock.wire.errors import Fault

PREFIX: Final = "interlock://.results/"
"""No server id contains a dot, so no resource of a server has this prefix."""
LIFE_S: Final = 900.0
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_BYTES_EACH: Final = 16 * 1024 * 1024
"""Bounds for one principal. Beyond either the oldest text is dropped."""


class _CutText(msgspec.Struct):
    principal_name: str
    text: bytes
    bounds: list[int]
    until: float
    of: Tool | None
    """The tool whose result it is."""


class ResultPages:
    """The store. An unknown, expired or foreign page gives the same answer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cut_texts: dict[str, _CutText] = {}
        self._bytes = 0
        self._bytes_of: dict[str, int] = {}

    def keep(self, principal_name: str, text: bytes, ends: Sequence[int], of: Tool | None = None) -> tuple[str, int]:
        """Keep a text, divided at `ends`. Returns the address of its first page, and the number of pages."""
        text = text[: _boundary(text, MAX_BYTES_EACH)]
        self._evict_oldest(principal_name, len(text))
        bounds = [0, *(end for end in ends if end < len(text)), len(text)]
        id_ = secrets.token_urlsafe(18)
        self._cut_texts[id_] = _CutText(principal_name, text, bounds, self._clock() + LIFE_S, of)
        self._bytes += len(text)
        self._bytes_of[principal_name] = self._bytes_of.get(principal_name, 0) + len(text)
        return f"{PREFIX}{id_}/1", len(bounds) - 1

    def read(
        self, principal_name: str, uri: str, may_have: Callable[[Tool], bool] = lambda tool: True
    ) -> tuple[bytes, Tool | None]:
        """A page, as a `resources/read` result, and the tool that it came from. `may_have` says whether its principal
        may still call that. Raises RESOURCE_NOT_FOUND."""
        id_, _, number = uri.removeprefix(PREFIX).partition("/")
        cut = self._cut_texts.get(id_)
        page = int(number) if number.isascii() and number.isdigit() and len(number) < 8 else 0
        there = cut is not None and cut.principal_name == principal_name and cut.until >= self._clock()
        if cut is None or not there or not 0 < page < len(cut.bounds) or not (cut.of is None or may_have(cut.of)):
            hint = "the rest of a result is kept for 15 minutes; repeat the call"
            raise Fault("RESOURCE_NOT_FOUND", "Resource not found", hint=hint, data={"uri": uri[:300]})
        text = cut.text[cut.bounds[page - 1] : cut.bounds[page]].decode()
        about: dict[str, object] = {"dev.interlock/page": page, "dev.interlock/pages": len(cut.bounds) - 1}
        if page + 1 < len(cut.bounds):
            about["dev.interlock/next"] = f"{PREFIX}{id_}/{page + 1}"
        content = {"uri": uri, "mimeType": "text/plain", "text": text, "_meta": about}
        return msgspec.json.encode({"contents": [content]}), cut.of

    def _evict_oldest(self, principal_name: str, size: int) -> None:
        now = self._clock()
        for id_, cut in list(self._cut_texts.items()):
            full = self._bytes + size > MAX_BYTES
            full_of_own = (
                cut.principal_name == principal_name and self._bytes_of.get(principal_name, 0) + size > MAX_BYTES_EACH
            )
            if full or full_of_own or cut.until < now:
                del self._cut_texts[id_]
                self._bytes -= len(cut.text)
                self._bytes_of[cut.principal_name] -= len(cut.text)
                if not self._bytes_of[cut.principal_name]:
                    del self._bytes_of[cut.principal_name]


def head(text: bytes, most: int) -> int:
    """Where the first piece of at most `most` bytes ends: at the end of a line if one is near, else of a character."""
    return page_end(text, 0, most)


def page_end(text: bytes, start: int, page_bytes: int) -> int:
    """Where a page of at most `page_bytes` bytes ends that begins at `start`."""
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
