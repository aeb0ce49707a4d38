"""Counts the tokens of tool definitions. A separate process counts, as the vocabulary takes more memory than the hub.

No figure is ever too low: an upper bound stands in for a text until it is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from interlock.discovery.tokens import at_most
from interlock.hub.catalog.items import Tool, digest_of
from interlock.hub.tool_search.definitions import DEFINITIONS, TOKENS
from interlock.hub.tool_search.token_counting import count_in_process
from interlock.process.turns import in_turns

MAX_COUNTS: Final = 200_000
BATCH: Final = 5_000
OFFERED_AT_ONCE: Final = 200
"""Tools of a long list that begin to wait in one turn of the loop."""
SOON_S: Final = 1.5
"""The delay before counting starts, so that one process counts for all servers that start together."""
WAIT_S: Final = 10.0
"""How long a list or a result waits for counts. After that, the upper bounds decide."""
PAUSE_S: Final = 60.0
"""How long the hub counts nothing after the process failed."""
SIGNS: Final = bytes(byte for byte in range(256) if not chr(byte).isalnum() or byte >= 0x80)
"""Bytes that the tokenizer may join with their neighbours into one piece."""


class TokenCounts:
    """The token counts of texts. Calls `changed` when exact counts replace upper bounds."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._known: dict[bytes, int] = dict(_OWN_COUNTS)
        """By the digest of the text."""
        self._waiting: dict[bytes, Callable[[], bytes]] = {}
        """By digest, a function that returns the text."""
        self._offered: dict[str, list[Tool]] = {}
        """The tools of servers that are to be counted, too."""
        self._counting: asyncio.Task[None] | None = None
        self._at_once = asyncio.Event()
        self._paused_until = 0.0
        self.generation = 0
        """Grows with every batch of counts."""

    def of(self, tool: Tool) -> int:
        """The tokens of a tool in a list of many servers."""
        return self.of_definition(tool.full)

    def of_definition(self, definition: bytes) -> int:
        """The tokens of a definition in a list, with the signs around it."""
        return self.of_text(definition) + joint(definition)

    def of_text(self, text: bytes) -> int:
        """The tokens of a text. An uncounted text is counted soon; until then this is an upper bound."""
        digest = digest_of(text)
        count = self._known.get(digest)
        if count is None:
            self._wait_for(digest, lambda: text)
            return at_most(text)
        return count

    def at_hand(self, tool: Tool) -> int:
        """The tokens of a tool as far as known now. Only this method may be called from any thread."""
        count, definition = self._known.get(tool.digest()), tool.full
        return (at_most(definition) if count is None else count) + joint(definition)

    def exact(self, tools: Iterable[Tool]) -> int | None:
        """The tokens of all tools together; None while one of them is not counted."""
        total = 0
        for tool in tools:
            count = self._known.get(tool.digest())
            if count is None:
                return None
            total += count
        return total

    def known(self, text: bytes) -> int | None:
        """The tokens of a text; None while it is not counted."""
        return self._known.get(digest_of(text))

    def has_counted(self, digest: bytes) -> bool:
        """Whether the text with this digest is counted."""
        return digest in self._known

    def count(self, server: str, tools: Iterable[Tool]) -> None:
        """Count the tools of a server and their summaries soon."""
        self._offered[server] = [*tools]
        self._begin()

    def counted(self, texts: Iterable[bytes]) -> bool:
        """Whether all of these texts are counted. Uncounted ones are counted soon."""
        unknown = {digest: text for text in texts if (digest := digest_of(text)) not in self._known}
        for digest, text in unknown.items():
            self._wait_for(digest, partial(bytes, text))
        return not unknown

    async def settled(self) -> None:
        """Count waiting texts now, and wait for the counts up to a limit."""
        if self._counting is not None and not self._counting.done():
            self._at_once.set()
            await asyncio.wait([self._counting], timeout=WAIT_S)

    async def close(self) -> None:
        """Stop counting. An offer that arrives later is not counted."""
        self._paused_until = math.inf
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    def _wait_for(self, digest: bytes, text: Callable[[], bytes]) -> None:
        if digest in self._known or len(self._waiting) >= MAX_COUNTS:
            return
        self._waiting[digest] = text
        self._begin()

    def _begin(self) -> None:
        if self._counting is not None and not self._counting.done():
            return
        with contextlib.suppress(RuntimeError):  # without an event loop the upper bounds suffice
            loop = asyncio.get_running_loop()
            if loop.time() >= self._paused_until:
                self._at_once.clear()
                self._counting = loop.create_task(self._count_all())

    async def _count_all(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SOON_S):
                await self._at_once.wait()
        while self._offered or self._waiting:
            while self._offered:
                _, tools = self._offered.popitem()
                async for tool in in_turns(tools, OFFERED_AT_ONCE):
                    self._wait_for(tool.digest(), partial(getattr, tool, "full"))
                    if tool.has_more:
                        self._wait_for(digest_of(tool.summary), partial(getattr, tool, "summary"))
            batch = dict(islice(self._waiting.items(), BATCH))
            counts = await count_in_process([text() async for text in in_turns([*batch.values()])])
            for digest in batch:
                self._waiting.pop(digest, None)
            if counts is None or len(counts) != len(batch):
                # The upper bounds suffice for now. This batch moves to the end, as one of its texts may be the cause.
                self._waiting |= batch
                self._paused_until = asyncio.get_running_loop().time() + PAUSE_S
                return
            if len(self._known) + len(batch) > MAX_COUNTS:
                self._known = dict(_OWN_COUNTS)
            self._known.update(zip(batch, counts, strict=True))
            self.generation += 1
            self._changed()


def joint(definition: bytes) -> int:
    """Upper bound for the tokens that joining a definition with its neighbours adds.

    A tokenizer may join the signs at its ends and between into one piece, which costs at most its bytes; each end was
    counted as at least one token.
    """
    ends = 2 * len(definition) - len(definition.lstrip(SIGNS)) - len(definition.rstrip(SIGNS))
    return max(1, ends - 1)


_OWN_COUNTS: Final = {digest_of(DEFINITIONS[name]): count for name, count in TOKENS.items()}
