"""Budgets for inferences of servers: requests and tokens per hour, and concurrent inferences, for each server.

A running inference counts with the most tokens that it may take, so that concurrent requests cannot exceed the limit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from interlock.config.model_settings import InferenceSettings
from interlock.hub.conversation_documents import StoredInference
from interlock.protocols.mcpl.budgets import HourlyBudget, SpendingLedger, fits, fits_from
from interlock.wire.errors import Fault


class Budgets:
    """The spending of one hub's servers."""

    def __init__(self, settings: Callable[[], InferenceSettings], clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._ledger = SpendingLedger()
        self._open: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._held_until = 0.0

    def load(self, inferences: Iterable[StoredInference]) -> None:
        """Count the inferences of an earlier run. Old ones have no effect."""
        for found in sorted(inferences, key=lambda each: each.at):
            tokens = found.input_tokens_count + found.output_tokens_count
            self._ledger = self._ledger.add((found.server,), found.at, wakes=1, tokens=tokens)

    def hold_until(self, at: float) -> None:
        """Count every budget as used up until then: it is not known which inferences were made."""
        self._held_until = at

    @contextmanager
    def inference(self, server: str, tokens: int) -> Iterator[None]:
        """Reserve tokens for one inference. Raises QUOTA_EXCEEDED or RESOURCE_EXHAUSTED."""
        settings, now = self._settings(), self._clock()
        if self._open[server] >= settings.at_once:
            message = f"{server} has {settings.at_once} inferences under way"
            raise Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=1000)
        budget, spent = HourlyBudget(settings.requests_per_hour, settings.tokens_per_hour), self._ledger.of(server)
        wanted = self._reserved[server] + tokens
        held = now < self._held_until
        if held or not fits(budget, spent, now, wanted):
            free = self._held_until if held else fits_from(budget, spent, now, wanted)
            wait_ms = None if free is None else int((free - now) * 1000) + 1
            hint = "an operator can raise it in [host.inference]"
            raise Fault(
                "QUOTA_EXCEEDED", f"the hourly budget of {server} is used up", hint=hint, retry_after_ms=wait_ms
            )
        self._ledger = self._ledger.add((server,), now, wakes=1)
        self._open[server] += 1
        self._reserved[server] += tokens
        try:
            yield
        finally:
            self._open[server] -= 1
            self._reserved[server] -= tokens

    def spend(self, server: str, tokens: int) -> None:
        """Count the tokens that an inference took."""
        self._ledger = self._ledger.add((server,), self._clock(), tokens=tokens)
