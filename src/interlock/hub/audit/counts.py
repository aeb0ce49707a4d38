"""Counts calls and their durations from committed audit entries, so that counting delays no call.

Every label is bounded: the numbers of servers and rules are limited, and no caller can choose a label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.hub.audit.entries import Entry, Ticket
from interlock.hub.audit.record import INTENDED, Outcome, Record

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_SERVERS: Final = 1000
MAX_RULES: Final = 256
OTHER: Final = "other"
"""The label of servers and rules beyond those numbers."""

_BOUNDS_US: Final = tuple(int(bound * 1_000_000) for bound in BOUNDS_S)


class Durations:
    """The durations of one server's calls."""

    __slots__ = ("buckets", "sum_us")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        """One count for each bound, of calls above the bound before it; the last counts calls above all bounds."""
        self.sum_us = 0


class Counts:
    """The counts of one recorder."""

    def __init__(self) -> None:
        self.entries = 0
        self.calls: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """By server, kind of target and outcome."""
        self.refusals: dict[tuple[str, str], int] = {}
        """By gate and rule."""
        self.durations: dict[str, Durations] = {}
        """By server."""

    def count(self, entries: Sequence[Entry]) -> None:
        """Count committed entries."""
        self.entries += len(entries)
        calls, durations = self.calls, self.durations
        for entry in entries:
            outcome = entry.outcome
            if outcome is None:
                if isinstance(entry, Record) and entry.gate and entry.event != INTENDED:
                    self._refused(entry)
                continue
            kind: str
            if type(entry) is Ticket:
                target, duration = entry.target, entry.took_us
                server, kind = target.server, target.kind
            else:
                assert isinstance(entry, Record)
                server, kind, duration = entry.server, entry.kind, entry.duration_us or 0
            taken = durations.get(server)
            if taken is None:
                server, taken = self._add_server(server)
            key = (server, kind, outcome_word(outcome))
            calls[key] += 1
            taken.buckets[bisect_left(_BOUNDS_US, duration)] += 1
            taken.sum_us += duration

    def _refused(self, entry: Record) -> None:
        key = (entry.gate, rule_word(entry.rule))
        if key not in self.refusals and len(self.refusals) >= MAX_RULES:
            key = (OTHER, OTHER)
        self.refusals[key] = self.refusals.get(key, 0) + 1

    def _add_server(self, server: str) -> tuple[str, Durations]:
        name = server if len(self.durations) < MAX_SERVERS else OTHER
        return name, self.durations.setdefault(name, Durations())


def outcome_word(outcome: Outcome) -> str:
    """The metric label of an outcome."""
    if outcome.transport != "answered":
        return outcome.transport
    if outcome.protocol == "error":
        return "error"
    return "tool_error" if outcome.tool == "error" else "ok"


def rule_word(rule: str) -> str:
    """The metric label of a rule: without who granted it and how much it allows."""
    return rule.partition(": ")[0].partition(" by ")[0][:64]


class Snapshot(msgspec.Struct, frozen=True):
    """A copy of the counts, to be rendered on another thread."""

    entries: int
    calls: dict[tuple[str, str, str], int]
    refusals: dict[tuple[str, str], int]
    durations: dict[str, tuple[list[int], int]]

    @classmethod
    def of(cls, counts: Counts) -> Snapshot:
        durations = {server: (list(taken.buckets), taken.sum_us) for server, taken in counts.durations.items()}
        return cls(counts.entries, dict(counts.calls), dict(counts.refusals), durations)
