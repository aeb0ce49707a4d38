"""Traces which wakes led to an event: a woken agent calls a server, and that server pushes an event.

Without the trace an agent and a server could wake each other for ever, also through other agents and servers.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

WOKEN_TURN_S: Final = 600.0
"""Calls of an agent within this time after a wake belong to the turn that the wake began."""
CAUSE_S: Final = 600.0
"""Events of a server within this time after such a call count as caused by it."""
MAX_CHAIN: Final = 32


class _Turn(msgspec.Struct, frozen=True):
    """A turn that a wake began, or the latest call in one: when, and the agents whose wakes led to it."""

    at: float
    chain: tuple[str, ...]


class WakeChains:
    """The turns that wakes began, and the servers called in them.

    It is kept in memory. Stored wakes contain their chain, so a restart restores the turns.
    """

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        """By agent."""
        self._calls: dict[str, dict[str, _Turn]] = {}
        """By server, and by the agent that called it."""

    def led_to(self, server: str, agent: str) -> tuple[str, ...]:
        """The chain of a wake for an event of a server: the agents whose wakes led to it, and the woken one."""
        return (*self.chain(server, agent), agent)[-MAX_CHAIN:]

    def on_woken(self, agent: str, chain: tuple[str, ...], ago_s: float = 0.0) -> None:
        """Note that a wake began a turn of an agent, `ago_s` seconds ago."""
        self._turns[agent] = _Turn(time.monotonic() - ago_s, chain)

    def on_called(self, agent: str, server: str) -> None:
        """Note that an agent called a server in a turn that a wake began. Other turns are ignored."""
        turn = self._turns.get(agent)
        if turn is None:
            return
        now = time.monotonic()
        if now - turn.at > WOKEN_TURN_S:
            del self._turns[agent]
        else:
            self._calls.setdefault(server, {})[agent] = _Turn(now, turn.chain)

    def chain(self, server: str, agent: str) -> tuple[str, ...]:
        """The agents whose wakes led to an event that a server pushes to this agent now."""
        calls = self._calls.get(server)
        if not calls:
            return ()
        oldest = time.monotonic() - CAUSE_S
        for caller in [caller for caller, call in calls.items() if call.at < oldest]:
            del calls[caller]
        chains = [call.chain for call in calls.values()]
        return max(chains, key=lambda chain: (chain.count(agent), len(chain)), default=())
