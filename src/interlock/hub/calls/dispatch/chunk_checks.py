"""Applies the result settings of a server to the chunks of one call.

A chunk passes the same checks as a result, and text is searched across chunks. Where hidden characters are made
visible, text is relayed word by word, so that none hides between two chunks. Secrets are masked as in one text. Chunks
beyond the longest result are not relayed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from functools import partial
from typing import Final

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.result_masking import ResultMasker, findings_of
from interlock.hub.calls.gates.observed_findings import ObservedFindings
from interlock.hub.judging_threads import JudgingThreads
from interlock.judge.findings import Finding
from interlock.judge.results import judge_result, made_visible
from interlock.judge.text import show_hidden

MAX_WORD_CHARS: Final = 256
"""A longer word is cut."""
SEARCHED: Final = 4_096
"""Characters that are searched together."""
OVERLAP: Final = 512
"""Characters of the text before that are searched again, since an instruction may begin there."""
MAX_WAITING: Final = 512 * 1024
"""Characters of one call that wait to be searched. Further chunks are relayed unsearched, and the call is flagged."""
UNJUDGED: Final = Finding("result.unjudged", "Not all of its chunks could be judged.")

Found = tuple[Finding, ...]


async def checked_content(call: Call, plan: Plan, content: bytes) -> bytes:
    """Content blocks in JSON that passed the same checks as a result."""
    if plan.processor is None:
        return content
    checked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    plan.processor.finish(call, b'{"content":%b}' % content, checked.set_result)
    return bytes(msgspec.json.decode(await checked, type=dict[str, msgspec.Raw])["content"])


class ChunkChecks:
    """The checks of one call's chunks. `most_bytes` is the longest text to relay; None has no limit."""

    def __init__(
        self,
        call: Call,
        judging: JudgingThreads,
        findings: ObservedFindings,
        tasks: BackgroundTasks,
        masker: ResultMasker | None,
        *,
        scans: bool,
        escapes: bool,
        most_bytes: int | None,
    ) -> None:
        self._call = call
        self._judging = judging
        self._findings = findings
        self._tasks = tasks
        self._scans = scans
        self._escapes = escapes
        self._left = most_bytes
        self._masker = masker
        self._masked = None if masker is None else masker.stream()
        self._word = ""
        """The text after the last space, which the next chunk may continue."""
        self._unsearched = ""
        self._pieces: deque[tuple[object, int]] = deque()
        """Texts and blocks to search, each with its size."""
        self._waiting = 0
        """Their size."""
        self._rules: set[str] = set()
        """Rules that were reported already."""

    def text(self, text: str) -> str:
        """The text that can be relayed now: nothing while a word is not complete, and nothing beyond the limit."""
        if self._scans:
            self._unsearched += text
            if len(self._unsearched) >= SEARCHED:
                self._search()
        if self._masked is not None:
            text = self._masked.feed(text)
        if self._escapes:
            text = self._word + text
            end = max(text.rfind(" "), text.rfind("\n")) + 1
            end = len(text) if not end and len(text) > MAX_WORD_CHARS else end
            text, self._word = show_hidden(text[:end]), text[end:]
        return self._within(text)

    def block(self, block: dict[str, object]) -> dict[str, object] | None:
        """A content block that is no plain text; None for one beyond the limit."""
        if self._scans:
            self._search_later(block, len(msgspec.json.encode(block)))
        if self._masker is not None:
            block, counts = self._masker.block(block)
            self._count_masked(counts)
        text = text_of(block)
        if self._within(text) != text:
            return None
        return made_visible(block) if self._escapes else block

    def finish(self) -> str:
        """The text that was held back. Searches what was not searched yet."""
        word, self._word = show_hidden(self._word), ""
        if self._unsearched:
            self._search()
        if self._masked is not None:
            word = self._masked.end()
            self._count_masked(self._masked.counts)
        return self._within(word)

    def _within(self, text: str) -> str:
        if self._left is None or not text:
            return text
        octets = text.encode()
        if len(octets) > self._left:
            octets, self._left = octets[: self._left], 0
            return octets.decode(errors="ignore")
        self._left -= len(octets)
        return text

    def _search(self) -> None:
        text, self._unsearched = self._unsearched, ""
        self._search_later(text, len(text))
        if len(text) > OVERLAP:
            self._unsearched = text[-OVERLAP:] if len(text) >= SEARCHED else ""

    def _search_later(self, value: object, size: int) -> None:
        if self._waiting and self._waiting + size > MAX_WAITING:
            self._report((UNJUDGED,))
            return
        self._pieces.append((value, size))
        if not self._waiting:
            self._tasks.begin(self._search_pieces(), None)
        self._waiting += size

    async def _search_pieces(self) -> None:
        """Search one piece after the other, in a thread."""
        while self._pieces:
            value, size = self._pieces[0]
            try:
                found: Found = await self._judging.run_result(
                    self._call.caller.principal_name, partial(judge_result, value)
                )
            except Exception:  # a piece that cannot be judged is flagged as that
                found = (UNJUDGED,)
            self._pieces.popleft()
            self._waiting -= size
            self._report(found)

    def _report(self, found: Found) -> None:
        """Note findings, each rule once."""
        new = tuple(finding for finding in found if finding.rule not in self._rules)
        if new:
            self._rules.update(finding.rule for finding in new)
            self._findings.on_result(self._call, new, {})

    def _count_masked(self, counts: Counter[str]) -> None:
        """Note what was masked so far."""
        if counts:
            self._findings.on_result(self._call, findings_of(counts), dict(counts))
            counts.clear()


def text_of(block: object) -> str:
    """The text of a content block, which counts for the longest result."""
    if not isinstance(block, dict):
        return ""
    resource = block.get("resource")
    text = resource.get("text") if isinstance(resource, dict) else block.get("text")
    return text if isinstance(text, str) else ""
