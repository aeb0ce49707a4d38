"""Cuts a long result: it keeps its beginning, and the rest goes to pages. Pure, so that a thread may do it."""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

import msgspec

from interlock.hub.calls.dispatch.chunk_checks import text_of
from interlock.hub.calls.dispatch.result_division import Division, left_over
from interlock.hub.calls.dispatch.result_pages import head, page_end

BYTES_PER_TOKEN: Final = 4
"""The estimate, where tokens cannot be counted in time. A token takes at least one byte, so fewer bytes always fit."""


class LongResult(NamedTuple):
    """The texts of a result that may be too long, in the order in which they are shown."""

    fields: dict[str, msgspec.Raw]
    blocks: list[object]
    texts: list[str]
    """One for each block; of a structure that no text repeats, one more."""


class CutResult(NamedTuple):
    """The beginning of a result, and the text that is left over."""

    fields: dict[str, msgspec.Raw]
    shown_blocks: list[object]
    rest: bytes
    division: Division


def first_bytes(result: bytes, max_bytes: int) -> str | None:
    """The beginning of a result that no thread could cut, as text. This reads no more than it shows. None for one that
    can be shown whole."""
    if len(result) <= max_bytes:
        return None
    shown = result[:max_bytes].decode(errors="ignore")
    note = f"[Cut here: {max_bytes:,} of {len(result):,} bytes are shown. The hub could not read the result.]"
    return f"{shown}\n{note}"


def read_long(result: bytes, max_tokens: int) -> LongResult | None:
    """The texts of a result that may have too many tokens; None for one that certainly has not."""
    fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    blocks = msgspec.json.decode(fields.get("content", b"[]"), type=list[object])
    texts = [text_of(block) for block in blocks]
    structured = bytes(fields.pop("structuredContent", b""))
    whole = sum(len(text.encode()) for text in texts)
    if whole <= max_tokens and len(structured) <= max_tokens:
        return None
    if structured and not _repeats(texts, structured):
        texts.append(structured.decode())
    return LongResult(fields, blocks, texts)


def cut_result(long: LongResult, measured: Division | None, max_tokens: int, extra: bool) -> CutResult | None:
    """A result divided as it was measured, or else by an estimate; None for one that can be shown whole."""
    division = measured or _by_bytes(long.texts, max_tokens, whole_last=extra)
    if division.fits:
        return None
    shown_blocks: list[object] = []
    for index, (block, text) in enumerate(zip(long.blocks, long.texts, strict=False)):
        if not text or index < division.block:
            shown_blocks.append(block)
        elif isinstance(block, dict):
            shown = text.encode()[: division.at].decode() if index == division.block else ""
            resource = block.get("resource")
            if isinstance(resource, dict):
                # Its address is shown even if little of its text is.
                shown_blocks.append({**block, "resource": {**resource, "text": shown}})
            elif shown:
                shown_blocks.append({**block, "text": shown})
    rest = left_over(long.texts, division.block, division.at)
    return CutResult(long.fields, shown_blocks, rest.encode(), division)


def _by_bytes(texts: list[str], max_tokens: int, *, whole_last: bool) -> Division:
    """A division by an estimate: some bytes for each token."""
    left = max_tokens * BYTES_PER_TOKEN
    for block, text in enumerate(texts):
        octets = text.encode()
        if len(octets) <= left:
            left -= len(octets)
            continue
        partly = left >= BYTES_PER_TOKEN and not (whole_last and block == len(texts) - 1)
        at = head(octets, left) if partly else 0
        rest = left_over(texts, block, at).encode()
        bounds = [0]
        while bounds[-1] < len(rest):
            bounds.append(page_end(rest, bounds[-1], max_tokens * BYTES_PER_TOKEN))
        shown = (max_tokens * BYTES_PER_TOKEN - left + at) // BYTES_PER_TOKEN
        return Division(False, block, at, shown, shown + len(rest) // BYTES_PER_TOKEN, bounds[1:], exact=False)
    return Division(fits=True)


def _repeats(texts: list[str], structured: bytes) -> bool:
    """Whether the texts say what the structure says, as servers do for clients that read text alone."""
    value = msgspec.json.decode(structured)
    inner = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if inner == texts or (isinstance(inner, str) and inner in texts):
        return True
    for text in texts:
        if text.lstrip()[:1] in ("{", "["):
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                if msgspec.json.decode(text) in (value, inner):
                    return True
    return False
