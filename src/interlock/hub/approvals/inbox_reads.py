"""Reads the inbox: requests that wait for a person, answers that still hold, and rules. All come from memory.

A request holds only while its asker may still ask for the same, with the same credential.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.decision_index import DecisionIndex
from interlock.hub.approvals.learned_rules import LearnedRules
from interlock.hub.approvals.open_part import EXACT, MAX_LOOKED_AT, OpenPart, WantedRequests
from interlock.hub.approvals.rules import LEARNED, OFFER_AFTER, Rule
from interlock.hub.approvals.states import DecisionState
from interlock.wire.errors import Fault


class InboxReads:
    """The decisions and rules of a hub. `Inbox` changes them."""

    def __init__(
        self, clock: Callable[[], int], still_allowed: Callable[[ApprovalRequest], bool], rules: LearnedRules
    ) -> None:
        self._clock = clock
        self.still_allowed = still_allowed
        """Whether the asker may still ask for the same, with the same credential."""
        self._rules = rules
        self._index = DecisionIndex()
        self.history = self._index.history

    def get(self, id: str) -> Decision:
        """A decision by its id. Raises NOT_FOUND."""
        found = self._index.get(id)
        if found is None:
            raise Fault("NOT_FOUND", f"no approval request {id[:40]!r}", hint="`interlock approvals list` shows them")
        return found

    def all(self, *, only_open: bool) -> list[Decision]:
        """Decisions, the oldest first."""
        found = self.unsorted(only_open=only_open)
        return sorted((one for one in found if not only_open or self.is_open(one)), key=lambda one: one.created)

    def unsorted(self, *, only_open: bool) -> list[Decision]:
        """All decisions, or the unanswered ones, some of which may have expired. There may be thousands."""
        return self._index.open if only_open else [*self._index.all]

    def is_open(self, decision: Decision) -> bool:
        """Whether an unanswered decision may still be answered."""
        return decision.deadline > self._clock() and self.still_allowed(decision.request)

    def part(self, wanted: WantedRequests) -> OpenPart:
        """A part of the open requests. Its cost depends on the length of the part, not on the number of requests."""
        found, count = list[Decision](), self._index.open_count
        candidates, place = iter(wanted.candidates(self._index)), wanted.first
        for one in islice(candidates, wanted.first, wanted.first + MAX_LOOKED_AT):
            place += 1
            if self.is_open(one):
                found.append(one)
            if len(found) == wanted.most:
                break
        if wanted.selects or count <= EXACT:
            count = sum(self.is_open(one) for one in islice(wanted.candidates(self._index), EXACT))
        return OpenPart(found, count, None if next(candidates, None) is None else place)

    @property
    def open_count(self) -> int:
        """How many requests wait for an answer."""
        return self._index.open_count

    def current(self, request: ApprovalRequest) -> Decision | None:
        """The decision on the same matter that is open, or whose answer holds.

        An approval from before a taint does not hold for a request that is asked every time.
        """
        found = self._index.of_matter(request.matter)
        if found is None or found.deadline <= self._clock() or not self.still_allowed(found.request):
            return None
        is_earlier = request.every_time and not found.request.every_time
        return None if is_earlier and found.state is DecisionState.APPROVED else found

    def rule_for(self, request: ApprovalRequest) -> Rule | None:
        """The rule that allows exactly this call; None for a request that is asked every time."""
        return None if request.every_time else self._rules.covering(request)

    def rules(self) -> list[Rule]:
        """Every rule, the oldest first."""
        return self._rules.all()

    def offers_rule(self, decision: Decision) -> bool:
        """Whether the same call was approved often enough to offer a rule."""
        request = decision.request
        if request.kind not in LEARNED or request.every_time or self.rule_for(request) is not None:
            return False
        return self.history.times_approved(request) >= OFFER_AFTER

    def has_about(self, kind: str, server: str) -> bool:
        """Whether there are current decisions of one kind about one server."""
        return self._index.has_about(kind, server)

    def about(self, kind: str, server: str) -> list[Decision]:
        """The current decisions of one kind about one server."""
        return self._index.about(kind, server)
