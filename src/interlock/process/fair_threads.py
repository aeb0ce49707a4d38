"""A few threads for the work of many peers. Peers take turns, so that much work of one does not delay the others.

A peer holds one thread at a time. The work of a second peer begins while that of the first still runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

Outcome = TypeVar("Outcome")


class Unwanted(Exception):
    """Nobody wanted the outcome of some work any more when its turn came. The work was not done."""


class FairThreads:
    """Runs work in threads, in rotation between the peers that wait."""

    def __init__(self, threads: int, name: str, pool: ThreadPoolExecutor | None = None) -> None:
        """`pool`: so many threads of another kind."""
        self._threads = threads
        self._executor = pool or ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._busy: set[object] = set()
        """Peers whose work has a thread."""
        self._waiting: dict[object, deque[asyncio.Future[None]]] = {}
        """The turns that each peer waits for. The peer that is next comes first."""

    @property
    def running(self) -> int:
        """How many threads work."""
        return len(self._busy)

    @property
    def waiting(self) -> int:
        """How much work waits for a thread."""
        return sum(len(turns) for turns in self._waiting.values())

    async def run(
        self, peer: object, work: Callable[[], Outcome], is_wanted: Callable[[], bool] | None = None
    ) -> Outcome:
        """Run some work in a thread when its peer has a turn. Raises `Unwanted` without running it, and OSError where
        the pool gets no thread."""
        await self._turn(peer)
        if is_wanted is not None and not is_wanted():
            self._give_back(peer)
            raise Unwanted
        try:
            running = self._executor.submit(work)
        except RuntimeError:  # the threads have ended
            self._give_back(peer)
            raise asyncio.CancelledError("the threads have ended") from None
        except OSError:
            self._give_back(peer)
            raise
        # A caller may stop waiting. The thread is taken until its work is done.
        running.add_done_callback(partial(self._on_done, asyncio.get_running_loop(), peer))
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """End the threads. Work that waits is cancelled."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, peer: object) -> None:
        if peer not in self._busy and len(self._busy) < self._threads:
            self._busy.add(peer)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._drop(peer, turn)
            else:
                self._give_back(peer)  # the turn came in the same moment
            raise

    def _drop(self, peer: object, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(peer, deque())
        with contextlib.suppress(ValueError):
            turns.remove(turn)
            if not turns:
                del self._waiting[peer]

    def _on_done(self, loop: asyncio.AbstractEventLoop, peer: object, _: Future[Outcome]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._give_back, peer)

    def _give_back(self, peer: object) -> None:
        """Take a thread from a peer, which is last in the rotation from now on."""
        self._busy.discard(peer)
        if peer in self._waiting:
            self._waiting[peer] = self._waiting.pop(peer)
        while len(self._busy) < self._threads:
            following = next((each for each in self._waiting if each not in self._busy), None)
            if following is None:
                return
            turns = self._waiting[following]
            turn = turns.popleft()
            if not turns:
                del self._waiting[following]
            if not turn.done():
                self._busy.add(following)
                turn.set_result(None)
