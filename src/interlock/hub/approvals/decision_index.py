"""An index of the hub's decisions in memory: by id, by matter, and those that wait for an answer.

The inbox reports every change of the store to it. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.history import ApprovalHistory
from interlock.hub.approvals.states import DecisionState


class DecisionIndex:
    """Finds decisions."""

    def __init__(self) -> None:
        self.history = ApprovalHistory()
        self._known: dict[str, Decision] = {}
        self._live: dict[str, str] = {}
        """By matter: the decision that is open, or whose answer holds."""
        self._about: dict[tuple[str, str], dict[str, None]] = {}
        """The matters of those by kind and server: each list of each server is compared with its own."""
        self._open: dict[str, str] = {}
        """The askers of open decisions, by decision id, in the order in which they were asked."""
        self._by_asker: dict[str, dict[str, None]] = {}
        """The ids of the open decisions of each asker."""
        self._by_kind: dict[str, dict[str, None]] = {}
        """The ids of the open decisions of each kind."""

    def follow(self, id: str, decision: Decision | None) -> None:
        """Index the new state of a decision; None if it was deleted."""
        before = self._known.pop(id, None)
        if before is not None and self._live.get(before.request.matter) == id:
            del self._live[before.request.matter]
            matters = self._about[_about(before)]
            del matters[before.request.matter]
            if not matters:
                del self._about[_about(before)]
        is_open = decision is not None and decision.state is DecisionState.OPEN
        if not is_open and (asker := self._open.pop(id, None)) is not None:
            del self._by_asker[asker][id]
            if not self._by_asker[asker]:
                del self._by_asker[asker]
            for ids in self._by_kind.values():
                ids.pop(id, None)
        self.history.follow(before, decision)
        if decision is None:
            return
        self._known[id] = decision
        if decision.state in (DecisionState.OPEN, DecisionState.APPROVED, DecisionState.DENIED):
            if (other := self.of_matter(decision.request.matter)) is not None:
                self._about[_about(other)].pop(decision.request.matter)
            self._live[decision.request.matter] = id
            self._about.setdefault(_about(decision), {})[decision.request.matter] = None
        if is_open:
            asker = f"{decision.request.asker_kind}:{decision.request.asker}"
            self._open[id] = asker
            self._by_asker.setdefault(asker, {})[id] = None
            self._by_kind.setdefault(decision.request.kind, {})[id] = None

    def get(self, id: str) -> Decision | None:
        """A decision by its id."""
        return self._known.get(id)

    def of_matter(self, matter: str) -> Decision | None:
        """The decision on a matter that is open, or whose answer held when it was given."""
        return self._known.get(self._live.get(matter, ""))

    @property
    def ids(self) -> Collection[str]:
        return self._known.keys()

    @property
    def all(self) -> Iterable[Decision]:
        return self._known.values()

    @property
    def open(self) -> list[Decision]:
        """Decisions that wait for an answer, also past their deadlines."""
        return [self._known[id_] for id_ in self._open]

    def oldest_first(self, kind: str = "") -> Iterator[Decision]:
        """Open decisions of one kind, or of all, the oldest first."""
        return (self._known[id_] for id_ in (self._by_kind.get(kind, {}) if kind else self._open))

    def newest_first(self) -> Iterator[Decision]:
        """Open decisions, the newest first."""
        return (self._known[id_] for id_ in reversed(self._open))

    def in_turns(self) -> Iterator[Decision]:
        """Open decisions: the oldest of every asker, then the second oldest of each, so that no asker comes first."""
        askers = [iter(ids) for ids in self._by_asker.values()]
        while askers:
            left = []
            for ids in askers:
                if (id_ := next(ids, None)) is not None:
                    left.append(ids)
                    yield self._known[id_]
            askers = left

    def is_open(self, id: str) -> bool:
        """Whether a decision waits for an answer."""
        return id in self._open

    @property
    def open_count(self) -> int:
        return len(self._open)

    def open_of(self, asker_kind: str, asker: str) -> int:
        """How many requests of an asker wait."""
        return len(self._by_asker.get(f"{asker_kind}:{asker}", ()))

    def has_about(self, kind: str, server: str) -> bool:
        """Whether there are current decisions of one kind about one server."""
        return (kind, server) in self._about

    def about(self, kind: str, server: str) -> list[Decision]:
        """The current decisions of one kind about one server."""
        return [self._known[self._live[matter]] for matter in self._about.get((kind, server), ())]


def _about(decision: Decision) -> tuple[str, str]:
    return decision.request.kind, decision.request.server
