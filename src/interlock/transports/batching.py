"""What comes in one turn of the loop is read first, gone through next, then sent on, and written last: a few steps, and
each of them for all of it.

A step is the same work many times over, which a processor does faster than many kinds of work in turn, and whoever
waits at the other end is woken once for many messages and not once for each. Under load that is a third of what a
call costs. Where nothing comes together there is nothing to gain: then everything is done as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol, TypeVarTuple
from weakref import WeakKeyDictionary

TOGETHER_S: Final = 0.00001
"""What comes so soon after the last was gone through was there already when that was read."""
OFTEN: Final = 3
SELDOM: Final = 64
"""How many times in a row they must have come together, or alone, before that is taken for granted."""
TOGETHER: Final = 32
"""A round is of so many pieces at most, so that the first need not wait for the last of very many."""
LARGE: Final = 64 * 1024
"""Pieces of this size are taken as they come: more of the same stream follow, and whoever takes them may stop that."""


_Args = TypeVarTuple("_Args")


class Receiver(Protocol):
    """One end of a connection."""

    def take_in(self, data: bytes) -> None:
        """Bytes, in the order in which they came."""

    def give_up(self) -> None:
        """They could not be gone through, which is a fault of ours: end the connection."""


class Batching:
    """The rounds of one loop. Everything is taken in the order in which it came, and written in that in which it was
    given; `settle` before anything that must not overtake it, such as the end of a stream."""

    def __init__(self) -> None:
        self._pile: list[tuple[Receiver, bytes]] = []
        self._out: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._next: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self.running = False
        """Whether a round is under way."""
        self._at_once = True
        self._ended = 0.0
        """When the last piece that was taken at once had been gone through."""
        self._streak = 0

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Batching:
        """Those of a loop: one for all of its connections."""
        rounds = _ROUNDS.get(loop)
        if rounds is None:
            rounds = _ROUNDS[loop] = cls()
        return rounds

    def received(self, receiver: Receiver, data: bytes) -> None:
        """Bytes came: hand them over in this round, or at once."""
        if self._at_once:
            self._streak = self._streak + 1 if perf_counter() - self._ended <= TOGETHER_S else 0
            if self._streak < OFTEN:
                receiver.take_in(data)
                self._ended = perf_counter()
                return
            self._at_once = False
            self._streak = 0
        if len(data) < LARGE:
            pile = self._pile
            if not pile:
                asyncio.get_running_loop().call_soon(self._run)
            pile.append((receiver, data))
        else:
            self.settle()
            receiver.take_in(data)

    def write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write at the end of the round, or at once where none is under way."""
        if self.running:
            self._out.append((transport, data))
        else:
            transport.write(data)

    def then(self, do: Callable[[*_Args], None], *args: *_Args) -> None:
        """Do this in the next step of the round, or at once where none is under way."""
        if self.running:
            self._next.append((do, args))
        else:
            do(*args)

    def settle(self) -> None:
        """Hand over and write all there is, now."""
        if self._pile and not self.running:
            self._run()
        self._write_all()

    def _run(self) -> None:
        pile, self._pile = self._pile, []
        if len(pile) > 1:
            self._streak = 0
        elif pile:
            self._streak += 1
            if self._streak >= SELDOM:
                self._at_once = True
                self._streak = 0
        for at in range(0, len(pile), TOGETHER):
            self.running = True
            for receiver, data in pile[at : at + TOGETHER]:
                try:
                    receiver.take_in(data)
                except Exception as cause:
                    self._failed(cause)
                    receiver.give_up()
            while self._next:
                steps, self._next = self._next, []
                for do, args in steps:
                    try:
                        do(*args)
                    except Exception as cause:
                        self._failed(cause)
            self.running = False
            self._write_all()

    def _failed(self, cause: Exception) -> None:
        """As the loop itself tells of it; the others in the round are not to suffer for it."""
        asyncio.get_running_loop().call_exception_handler({"message": "a connection failed", "exception": cause})

    def _write_all(self) -> None:
        out, self._out = self._out, []
        for transport, data in out:
            try:
                transport.write(data)
            except RuntimeError as cause:  # it was closed meanwhile
                self._failed(cause)


_ROUNDS: WeakKeyDictionary[asyncio.AbstractEventLoop, Batching] = WeakKeyDictionary()
