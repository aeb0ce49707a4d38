"""How many tokens each tool's definition costs a model. Counted in a process of its own, which ends when it is done:
the vocabulary takes more memory than the rest of the hub.

The one rule: no figure is less than the truth. Until a text is counted, what it cannot exceed stands in for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from interlock.discovery.tokens import at_least, at_most
from interlock.hub.catalog.offer import Tool, digest_of
from interlock.hub.tool_search.definitions import DEFINITIONS, TOKENS

MOST_KEPT: Final = 200_000
BATCH: Final = 5_000
PATIENCE_S: Final = 120.0
SOON_S: Final = 1.5
"""Servers come up together: one process counts for all of them, and a hub that lives for a moment needs none."""
WAIT_S: Final = 10.0
"""How long a list or a result waits for counts that decide about it; then the bounds do."""
REST_S: Final = 60.0
"""How long nothing is counted after the process failed."""
SIGNS: Final = bytes(byte for byte in range(256) if not chr(byte).isalnum() or byte >= 0x80)
"""What the vocabulary's splitter may take for one piece together with its neighbours."""


class TokenCounts:
    """Counts by text. `changed` is called when bounds have become counts."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._known: dict[bytes, int] = dict(_KERNEL)
        """By the digest of a text: the texts themselves are long."""
        self._waiting: dict[bytes, Callable[[], bytes]] = {}
        """By digest, the way to the text."""
        self._counting: asyncio.Task[None] | None = None
        self._at_once = asyncio.Event()
        self._rest_until = 0.0
        self.generation = 0
        """Grows with every batch of counts."""

    def of(self, tool: Tool) -> int:
        """What a tool costs in a list of many servers."""
        return self.of_definition(tool.full)

    def of_definition(self, definition: bytes) -> int:
        """What a definition costs among others, with the signs that join it to them."""
        return self.of_text(definition) + joint(definition)

    def of_text(self, text: bytes) -> int:
        """What a text costs by itself. One that is not counted will be, soon; until then what it cannot exceed."""
        digest = digest_of(text)
        count = self._known.get(digest)
        if count is None:
            self._wait_for(digest, lambda: text)
            return at_most(text)
        return count

    def at_least(self, text: bytes) -> int:
        """What a text certainly costs."""
        count = self._known.get(digest_of(text))
        return at_least(text) if count is None else count

    def at_hand(self, tool: Tool) -> int:
        """What a tool costs as far as that is known now. The one question that any thread may ask."""
        count, definition = self._known.get(tool.digest()), tool.full
        return (at_most(definition) if count is None else count) + joint(definition)

    def exact(self, tools: Iterable[Tool]) -> int | None:
        """What tools cost together; None while any of them is not counted."""
        total = 0
        for tool in tools:
            count = self._known.get(tool.digest())
            if count is None:
                return None
            total += count
        return total

    def count(self, tools: Iterable[Tool]) -> None:
        """Have these counted soon, each definition once, and what is told of them."""
        for tool in tools:
            self._wait_for(tool.digest(), partial(getattr, tool, "full"))
            if tool.has_more:
                self._wait_for(digest_of(tool.summary), partial(getattr, tool, "summary"))

    def counted(self, texts: Iterable[bytes]) -> bool:
        """Whether all of these are counted. Those that are not will be, soon."""
        unknown = {digest: text for text in texts if (digest := digest_of(text)) not in self._known}
        for digest, text in unknown.items():
            self._wait_for(digest, partial(bytes, text))
        return not unknown

    async def settled(self) -> None:
        """Have what waits counted now, and wait for it, but not for long."""
        if self._counting is not None and not self._counting.done():
            self._at_once.set()
            await asyncio.wait([self._counting], timeout=WAIT_S)

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    def _wait_for(self, digest: bytes, text: Callable[[], bytes]) -> None:
        if digest in self._known or len(self._waiting) >= MOST_KEPT:
            return
        self._waiting[digest] = text
        if self._counting is not None and not self._counting.done():
            return
        with contextlib.suppress(RuntimeError):  # where nothing runs, nothing is counted, and bounds do
            loop = asyncio.get_running_loop()
            if loop.time() >= self._rest_until:
                self._at_once.clear()
                self._counting = loop.create_task(self._count_all())

    async def _count_all(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._at_once.wait(), SOON_S)
        while self._waiting:
            batch = dict(islice(self._waiting.items(), BATCH))
            counts = await self._count_batch([text() for text in batch.values()])
            for digest in batch:
                self._waiting.pop(digest, None)
            if counts is None or len(counts) != len(batch):
                # Bounds do. These are tried again with the next that come, and after them: they may be to blame.
                self._waiting |= batch
                self._rest_until = asyncio.get_running_loop().time() + REST_S
                return
            if len(self._known) + len(batch) > MOST_KEPT:
                self._known = dict(_KERNEL)
            self._known.update(zip(batch, counts, strict=True))
            self.generation += 1
            self._changed()

    async def _count_batch(self, batch: Sequence[bytes]) -> list[int] | None:
        command = (sys.executable, "-P", "-m", "interlock.hub.tool_search.token_process")
        pipe = asyncio.subprocess.PIPE
        try:
            child = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        except OSError:
            return None
        lines = b"\n".join(msgspec.json.encode(text.decode("utf-8", "replace")) for text in batch)
        try:
            said, _ = await asyncio.wait_for(child.communicate(lines + b"\n"), PATIENCE_S)
            return msgspec.json.decode(b"[" + b",".join(said.split()) + b"]", type=list[int])
        except (TimeoutError, msgspec.DecodeError):
            return None
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()


def joint(definition: bytes) -> int:
    """What joining a definition to its neighbours can add: the signs at its ends and between become one piece, which
    costs its bytes at most, and each end was counted as one token at least."""
    ends = 2 * len(definition) - len(definition.lstrip(SIGNS)) - len(definition.rstrip(SIGNS))
    return max(1, ends - 1)


_KERNEL: Final = {digest_of(DEFINITIONS[name]): count for name, count in TOKENS.items()}
