"""A tool's result, finished as its server's settings say. There is nothing of this for a server without such settings.

A result is never turned into a failure: too long, it keeps its head and says where the rest is; flagged, it is flagged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from interlock.config.settings import Server
from interlock.hub.call import Call
from interlock.hub.results.pages import LIFE_S, MOST_BYTES_EACH, Pages, head
from interlock.hub.validators.checking import Judging
from interlock.judge.findings import Finding
from interlock.judge.results import judge_result
from interlock.judge.text import show_hidden
from interlock.wire.errors import Fault

BYTES_PER_TOKEN: Final = 4
SCAN_HERE: Final = 500
"""Bytes that are searched on the loop; a longer result in a thread."""
CUT_HERE: Final = 100_000
LINKS_SINCE: Final = "2025-06-18"
"""The first revision with resource links; an older client gets the address in the text alone."""

Flagged = Callable[[Call, tuple[Finding, ...]], None]
Finishing = Callable[[Call, bytes, Callable[[bytes], None]], None]
"""Takes a call, its good result, and who is to have it."""


class Finish:
    """What is done to the results of one server's tools."""

    def __init__(self, settings: Server, pages: Pages, judging: Judging, flagged: Flagged) -> None:
        tokens = settings.max_result_tokens
        self._most = None if tokens is None else tokens * BYTES_PER_TOKEN
        self._scans = settings.scan_results != "off"
        self._escapes = settings.scan_results == "escape"
        self._pages = pages
        self._judging = judging
        self._flagged = flagged
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, call: Call, result: bytes, deliver: Callable[[bytes], None]) -> None:
        """Hand the finished result on, now or when a thread is done with it."""
        size = len(result)
        is_long = self._most is not None and size > self._most
        if not self._scans and not is_long:
            deliver(result)
        elif size > (SCAN_HERE if self._scans else CUT_HERE):
            task = asyncio.ensure_future(self._elsewhere(call, result, deliver))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._deliver(call, self._prepared(result), deliver)

    async def _elsewhere(self, call: Call, result: bytes, deliver: Callable[[bytes], None]) -> None:
        try:
            prepared = await self._judging.elsewhere(lambda: self._prepared(result))
        except Fault:
            # Too much waits for a thread. The tool has done its work, so its result is not withheld for that.
            prepared = self._prepared(result)
        self._deliver(call, prepared, deliver)

    def _prepared(self, result: bytes) -> _Prepared:
        """Everything that takes long, on values alone, so that a thread may do it."""
        result, found = self._searched(result)
        if self._most is None or len(result) <= self._most:
            return _Prepared(result, found)
        try:
            return _Prepared(result, found, _cut(result, self._most))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            uncut = Finding("result.uncut", "It is too long, and not in a form that can be cut.")
            return _Prepared(result, (*found, uncut))

    def _searched(self, result: bytes) -> tuple[bytes, tuple[Finding, ...]]:
        """The result, with what is hidden made visible if that is wanted, and what was found in it."""
        if not self._scans:
            return result, ()
        try:
            return self._judged(result)
        except Exception as cause:  # the tool has done its work: a result that cannot be judged is flagged as that
            return result, (Finding("result.unjudged", f"It could not be judged ({type(cause).__name__})."),)

    def _judged(self, result: bytes) -> tuple[bytes, tuple[Finding, ...]]:
        value = msgspec.json.decode(result, type=dict[str, object])
        found = judge_result({key: value[key] for key in ("content", "structuredContent") if key in value})
        if self._escapes and any(finding.rule.startswith("text.") for finding in found):
            for key in ("content", "structuredContent"):
                if key in value:
                    value[key] = _visible(value[key])
            result = msgspec.json.encode(value)
        return result, found

    def _deliver(self, call: Call, prepared: _Prepared, deliver: Callable[[bytes], None]) -> None:
        if prepared.found:
            self._flagged(call, prepared.found)
        cut = prepared.cut
        deliver(prepared.result if cut is None else self._with_link(call, cut))

    def _with_link(self, call: Call, cut: _Cut) -> bytes:
        """The head of a result, how much of it that is, and where the rest can be read."""
        assert self._most is not None
        uri, count = self._pages.keep(call.caller.owner, cut.rest, self._most)
        shown, total = (cut.whole - len(cut.rest)) // BYTES_PER_TOKEN, cut.whole // BYTES_PER_TOKEN
        told = f"[Cut here: about {shown:,} of {total:,} tokens are shown. The rest can be read as a resource: {uri}"
        if count > 1:
            told += f" and on to /{count}"
        if len(cut.rest) > MOST_BYTES_EACH:
            told += f", no further than {MOST_BYTES_EACH:,} bytes"
        kept = [*cut.kept, {"type": "text", "text": f"{told}, for {LIFE_S / 60:.0f} minutes.]"}]
        if call.exchange.dialect.revision.name >= LINKS_SINCE:
            about = {"name": f"The rest of the result ({count} pages)", "mimeType": "text/plain", "size": len(cut.rest)}
            kept.append({"type": "resource_link", "uri": uri, **about})
        return msgspec.json.encode({**cut.fields, "content": kept})


class _Cut(NamedTuple):
    fields: dict[str, msgspec.Raw]
    kept: list[dict[str, object]]
    rest: bytes
    whole: int


class _Prepared(NamedTuple):
    result: bytes
    found: tuple[Finding, ...] = ()
    cut: _Cut | None = None


def finish_for(settings: Server | None, pages: Pages, judging: Judging, flagged: Flagged) -> Finish | None:
    """What is to be done to a server's results; None where nothing is."""
    if settings is None or (settings.max_result_tokens is None and settings.scan_results == "off"):
        return None
    return Finish(settings, pages, judging, flagged)


def _cut(result: bytes, most: int) -> _Cut | None:
    """A result divided where its text gets too long. One whose text fits, beside pictures say, stays whole."""
    fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    content = msgspec.json.decode(fields.get("content", b"[]"))
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    whole = sum(len(_text_of(block).encode()) for block in blocks)
    structured = bytes(fields.pop("structuredContent", b""))
    if whole <= most and len(structured) <= most:
        return None
    kept, rest = _divided(blocks, most)
    if structured and whole <= most:
        # The text did not repeat the structure, so this is where it can still be read.
        rest, whole = structured, whole + len(structured)
    return _Cut(fields, kept, rest, whole)


def _text_of(block: dict[str, object]) -> str:
    resource = block.get("resource")
    text = resource.get("text") if isinstance(resource, dict) else block.get("text")
    return text if isinstance(text, str) else ""


def _divided(blocks: list[dict[str, object]], most: int) -> tuple[list[dict[str, object]], bytes]:
    """The blocks with at most so many bytes of text, and the text that is left over. What is no text stays."""
    kept: list[dict[str, object]] = []
    rest: list[bytes] = []
    left = most
    for block in blocks:
        text = _text_of(block).encode()
        if not text:
            kept.append(block)
            continue
        at = 0 if rest else len(text) if len(text) <= left else head(text, left) if left >= 4 else 0
        if at:
            kept.append(block if at == len(text) else {"type": "text", "text": text[:at].decode()})
            left -= at
        if at < len(text):
            rest.append(text[at:])
    return kept, b"\n\n".join(rest)


def _visible(value: object) -> object:
    """Every text of a value with what is hidden in it made visible. What a script or an emoji needs is left alone."""
    if isinstance(value, str):
        return show_hidden(value)
    if isinstance(value, list):
        return [_visible(item) for item in value]
    if isinstance(value, dict):
        return {key: _visible(item) for key, item in value.items()}
    return value
