"""How many tokens each tool's definition costs a model. Counted in a process of its own, which ends when it is done:
the vocabulary takes more memory than the rest of the hub. Until a count is there, an estimate stands in."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import msgspec

from interlock.hub.catalog.offer import Tool, digest_of

BYTES_PER_TOKEN: Final = 4
"""The estimate: what JSON in English comes to, more or less."""
MOST_KEPT: Final = 200_000
BYTES_PER_FOREIGN_TOKEN: Final = 2
"""And what other scripts come to, at the dearest."""
BATCH: Final = 5_000
PATIENCE_S: Final = 120.0
SOON_S: Final = 1.5


class TokenCounts:
    """Counts by definition. `changed` is called when estimates have become counts."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._known: dict[bytes, int] = {}
        """Counts by the digest of a definition: the definitions themselves are long."""
        self._waiting: dict[bytes, Tool] = {}
        self._counting: asyncio.Task[None] | None = None
        self.generation = 0
        """Grows with every batch of counts."""

    def of(self, tool: Tool) -> int:
        """What a tool costs in a list of many servers."""
        return (self._known.get(tool.digest()) or estimate(tool.full)) + 1

    def of_text(self, definition: bytes) -> int:
        """What a definition costs, with the sign between it and the next; an estimate until it is counted."""
        return (self._known.get(digest_of(definition)) or estimate(definition)) + 1

    def exact(self, tools: Iterable[Tool]) -> int | None:
        """What tools cost together; None while any of them is only estimated."""
        total = 0
        for tool in tools:
            count = self._known.get(tool.digest())
            if count is None:
                return None
            total += count
        return total

    def count(self, tools: Iterable[Tool]) -> None:
        """Have these counted soon, each definition once."""
        for tool in tools:
            if tool.digest() not in self._known:
                self._waiting[tool.digest()] = tool
        if self._waiting and (self._counting is None or self._counting.done()):
            self._counting = asyncio.ensure_future(self._count_all())

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    async def _count_all(self) -> None:
        # Servers come up together: one process counts for all of them, and a hub that lives for a moment needs none.
        await asyncio.sleep(SOON_S)
        while self._waiting:
            batch = dict(islice(self._waiting.items(), BATCH))
            counts = await self._count_batch([tool.full for tool in batch.values()])
            for digest in batch:
                self._waiting.pop(digest, None)
            if counts is None or len(counts) != len(batch):
                # Estimates do until the next change brings another try.
                return
            if len(self._known) + len(batch) > MOST_KEPT:
                self._known.clear()
            self._known.update(zip(batch, counts, strict=True))
            self.generation += 1
            self._changed()

    async def _count_batch(self, batch: list[bytes]) -> list[int] | None:
        command = (sys.executable, "-P", "-m", "interlock.hub.kernel.counting")
        pipe = asyncio.subprocess.PIPE
        try:
            child = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        except OSError:
            return None
        try:
            said, _ = await asyncio.wait_for(child.communicate(b"\n".join(batch) + b"\n"), PATIENCE_S)
            return msgspec.json.decode(b"[" + b",".join(said.split()) + b"]", type=list[int])
        except (TimeoutError, msgspec.DecodeError):
            return None
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()


def estimate(definition: bytes) -> int:
    """What a definition comes to before it is counted."""
    ascii_only = definition.isascii()
    foreign = 0 if ascii_only else sum(1 for byte in definition if byte >= 0x80)
    return max(1, (len(definition) - foreign) // BYTES_PER_TOKEN + foreign // BYTES_PER_FOREIGN_TOKEN)
