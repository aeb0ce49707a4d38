"""The inbox: asks people for approvals, takes their answers, uses approvals up, and learns rules from them.

Two requests on the same matter are one. Every change is stored before anyone is notified. `inbox_reads.py` reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from interlock.events import Bus, EventFilter, Subscription
from interlock.events.types import ApprovalChanged, now_us
from interlock.hub.approvals.decision import DECISIONS, Answer, ApprovalRequest, Decision, Where, asker_of, new_id
from interlock.hub.approvals.decision_commits import add_record, follow_others, is_doubtful, too_many
from interlock.hub.approvals.due_decisions import due_decisions
from interlock.hub.approvals.inbox_reads import InboxReads
from interlock.hub.approvals.learned_rules import LearnedRules, RecordRule
from interlock.hub.approvals.rules import LEARNED, Rule
from interlock.hub.approvals.sealed_views import VIEWS, ViewSeal, with_view
from interlock.hub.approvals.states import TRANSITIONS, DecisionEvent, DecisionState
from interlock.hub.approvals.waiting_callers import WaitingCallers
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.hub.locks import acquire
from interlock.hub.repeated_commits import commit
from interlock.store import Mirror, Store, StoreDamaged, StoreError, Transaction
from interlock.wire.errors import Fault

MAX_OPEN: Final = 10_000
MAX_OPEN_PER_ASKER: Final = 64

Listener = Callable[[Decision], None]
Also = Callable[[Transaction], Awaitable[object]]
"""Adds changes to the commit of a decision. It may run several times."""
RecordDecision = Callable[[Decision, Principal], object]
"""Returns the audit record of a changed decision, or None."""


def now_ms() -> int:
    """Wall-clock time: it means the same after a restart and on another node."""
    return int(time.time() * 1000)


class Inbox(InboxReads):
    """All decisions of a hub. Used on the loop's thread, after `start`."""

    def __init__(
        self,
        valid_s: Callable[[], float],
        clock: Callable[[], int] = now_ms,
        *,
        seal: ViewSeal,
        bus: Bus | None = None,
        still_allowed: Callable[[ApprovalRequest], bool] = lambda request: True,
        record: RecordDecision = lambda decision, by: None,
        record_rule: RecordRule = lambda rule, by, made: None,
    ) -> None:
        super().__init__(clock, still_allowed, LearnedRules(record_rule))
        self._valid_s = valid_s
        self._seal = seal
        self._record = record
        """Makes the audit record, which is committed with the change."""
        self._store: Store
        self._decisions: Mirror[Decision]
        self._listeners: list[Listener] = []
        self.bus = bus or Bus()
        self._watching: set[Subscription] = set()
        self.callers = WaitingCallers()
        self._ask_lock = asyncio.Lock()

    async def start(self, store: Store) -> None:
        """Load the stored decisions: an open request stays open across restarts."""
        self._store = store
        self._decisions = await store.mirror(DECISIONS)
        await self._rules.start(store)
        for decision in sorted(self._decisions.readable(), key=lambda decision: decision.created):
            self._index.follow(decision.id, decision)
        self._decisions.on_change(self._changed)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` at every change of a decision. Returns a function that removes the listener.

        It is for parts that act on decisions and must miss none. Parts that only notify somebody subscribe to
        `ApprovalChanged` on the bus.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self) -> Subscription:
        """Subscribe to changes for a person who is present and can answer, until the subscription is closed."""
        subscription = self.bus.subscribe(EventFilter.of(ApprovalChanged))
        self._watching = {other for other in self._watching if not other.closed} | {subscription}
        return subscription

    @property
    def watched(self) -> bool:
        """Whether a person watches for requests."""
        return any(not subscription.closed for subscription in self._watching)

    # Asking and answering

    async def ask(
        self, request: ApprovalRequest, within_s: float | None = None, view: str = "", valid_s: float = float("inf")
    ) -> Decision:
        """Open a request, or join the one on the same matter. Raises RESOURCE_EXHAUSTED.

        `view` is the text that a person must read before approving, where the summary leaves something out. `valid_s`
        ends the request earlier than the configuration does.
        """
        request = await with_view(request, view)
        async with acquire(self._ask_lock, within_s, "the inbox"):
            current = self.current(request)
            if current is not None:
                return await self._with_reason(current, request)
            stale = self._index.of_matter(request.matter)
            if stale is not None and stale.deadline > self._clock():
                await self.void([stale])
            if self._index.open_count >= MAX_OPEN:
                raise too_many("", MAX_OPEN)
            if self._index.open_of(request.asker_kind, request.asker) >= MAX_OPEN_PER_ASKER:
                raise too_many(f" of {request.asker}", MAX_OPEN_PER_ASKER)
            id_ = new_id(self._index.ids, self._decisions.problems)
            decision = Decision.opened(id_, request, self._clock(), min(self._valid_s(), valid_s))

            async def insert(change: Transaction) -> Decision:
                await follow_others(change, self._decisions, request.matter)
                if (other := self.current(request)) is None:
                    await self._insert(change, decision, view, asker_of(request))
                return other or decision

            opened = await commit(self._store, insert)
            return opened if opened is decision else await self._with_reason(opened, request)

    async def _with_reason(self, current: Decision, request: ApprovalRequest) -> Decision:
        """The decision on the same matter. While it is open, it gets the reasons of the newest request."""
        asked = current.request.for_reasons_of(request)
        if current.state is not DecisionState.OPEN or asked == current.request:
            return current
        shown = msgspec.structs.replace(current, request=asked)
        return shown if await self._change(current, shown, asker_of(request)) else self.get(current.id)

    async def _insert(self, change: Transaction, decision: Decision, view: str, by: Principal) -> None:
        change.insert(DECISIONS, decision)
        if view:
            change.put(VIEWS, await self._seal.closed(decision.id, view))
        add_record(change, self._record(decision, by))

    async def view(self, decision: Decision) -> str | None:
        """The full view of an open decision; None if it has none, or this hub cannot open it."""
        if not decision.request.view:
            return None
        stored = await self._store.get(VIEWS, decision.id)
        return None if stored is None else await self._seal.opened(stored.value)

    async def ask_all(
        self, requests: Iterable[ApprovalRequest], views: Mapping[str, str] | None = None
    ) -> list[Decision]:
        """Open requests of the hub itself in one commit, or join those on the same matter. `views` are by matter."""
        asked = list(requests)
        async with self._ask_lock:
            return await commit(self._store, lambda change: self._open_all(change, asked, views or {}))

    async def _open_all(
        self, change: Transaction, requests: Iterable[ApprovalRequest], views: Mapping[str, str]
    ) -> list[Decision]:
        found, new = list[Decision](), dict[str, Decision]()
        for request in requests:
            view = views.get(request.matter, "")
            if (current := self.current(request)) is None:
                if await is_doubtful(change, self._decisions, request.matter):
                    continue
                current = self.current(request)
            if current is not None and view and not current.request.view:
                await self.void([current])  # It was asked without a view, so nobody could approve it.
                current = None
            if current is None and self._index.open_count + len(new) < MAX_OPEN:
                id_, bound = new_id(self._index.ids, self._decisions.problems, new), await with_view(request, view)
                current = Decision.opened(id_, bound, self._clock(), self._valid_s())
                await self._insert(change, current, view, NOBODY)
                new[current.id] = current
            if current is not None:
                found.append(current)
        return found

    async def answer(
        self, id: str, answer: Answer, by: Principal, where: Where, view: str = "", reason: str = ""
    ) -> Decision:
        """Answer a request. Raises Fault if it cannot be answered, or not by this principal.

        `view` is the hash of the full view that the person has seen.
        """
        decision = self.get(id)
        now = self._clock()
        after = decision.answered(answer, by, where, now, view, reason)
        if not self.still_allowed(decision.request):
            await self._change(decision, decision.after(DecisionEvent.CHANGE), NOBODY)
            message = f"approval request {id} is void: {decision.request.asker} has lost the right to ask"
            raise Fault("INVALID_PARAMS", message, hint="repeat the call with a valid key")
        learn: Also | None = None
        if answer == "always" and decision.request.kind in LEARNED:
            # Approvals of other kinds hold until they are revoked or their target changes. They need no rule.
            learn = partial(self._rules.learn, answer=after, by=by, now=now)
        async with self._rules.lock if learn is not None else contextlib.nullcontext():
            stored = await self._change(decision, after, by, learn)
        if not stored:
            hint = f"see `interlock approvals show {id}`"
            raise Fault("INVALID_PARAMS", f"approval request {id} has just been answered", hint=hint)
        return after

    async def use(self, id: str, also: Also | None = None) -> bool:
        """Use up an approval. Returns True to exactly one caller on all nodes. `also` adds to the same commit."""
        decision = self._index.get(id)
        if decision is None or decision.state is not DecisionState.APPROVED or decision.deadline <= self._clock():
            return False
        if not self.still_allowed(decision.request):
            await self._change(decision, decision.after(DecisionEvent.CHANGE), NOBODY)
            return False
        return await self._change(decision, decision.after(DecisionEvent.USE), asker_of(decision.request), also)

    async def end(self, id: str, event: DecisionEvent, reason: str) -> None:
        """End a decision because of an event outside the inbox, unless it has ended."""
        decision = self.get(id)
        if event in TRANSITIONS[decision.state]:
            await self._change(decision, msgspec.structs.replace(decision.after(event), reason=reason), NOBODY)

    async def void(self, decisions: Iterable[Decision]) -> None:
        """End decisions whose target has changed."""
        for decision in decisions:
            if decision.state in (DecisionState.OPEN, DecisionState.APPROVED):
                await self._change(decision, decision.after(DecisionEvent.CHANGE), NOBODY)

    async def make_rule(self, id: str, by: Principal) -> Rule:
        """Make a rule from an approval."""
        decision = self.get(id)
        if by.kind != "person" or decision.request.is_of(by):
            raise Fault("ACCESS_DENIED", "only a person can make a rule, and never the asker itself")
        return await self._rules.make(decision, by, self._clock())

    async def revoke_rule(self, id: str, by: Principal) -> Rule:
        """Delete a rule: the next such call asks again."""
        rule = await self._rules.revoke(id, by)
        # The approvals that led to the rule end with it; otherwise they would still allow the call.
        found = (self._index.get(made) for made in rule.decisions)
        await self.void([one for one in found if one is not None])
        return rule

    async def sweep(self) -> None:
        """Expire decisions past their deadlines and delete old ones, a bounded number each time."""
        with contextlib.suppress(StoreError):  # The next sweep tries again.
            await self._sweep()

    async def _sweep(self) -> None:
        due = await due_decisions([*self._index.all], self._clock(), self.still_allowed)
        # One whose row was damaged since it was read stays as it is, and keeps no other from its end.
        for decision in due.late:
            with contextlib.suppress(StoreDamaged):
                await self._change(decision, decision.after(DecisionEvent.EXPIRE), NOBODY)
        for decision in due.refused:
            with contextlib.suppress(StoreDamaged):
                await self.void([decision])
        try:
            await self._delete(due.old)
        except StoreDamaged:
            for decision in due.old:
                with contextlib.suppress(StoreDamaged):
                    await self._delete([decision])

    async def _delete(self, decisions: Sequence[Decision]) -> None:
        async with self._store.transaction() as change:
            for decision in decisions:
                change.delete(DECISIONS, decision.id)

    async def settled(self, id: str, within_s: float) -> Decision:
        """Wait until a decision is no longer open, or for `within_s`. Returns the decision."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_change(decision: Decision) -> None:
            if decision.id == id and decision.state is not DecisionState.OPEN and not future.done():
                future.set_result(None)

        stop = self.on_change(on_change)
        try:
            if self.get(id).state is DecisionState.OPEN:
                with contextlib.suppress(TimeoutError), self.callers.wait(id):
                    async with asyncio.timeout(within_s):
                        await future
            return self.get(id)
        finally:
            stop()

    async def _change(self, before: Decision, after: Decision, by: Principal, also: Also | None = None) -> bool:
        """Store a changed decision. Returns False if it has changed meanwhile. `also` may run several times."""
        document = self._decisions.lookup_document(before.id)
        if document is None or document.value != before:
            return False

        async def write(change: Transaction) -> bool:
            if await change.get(DECISIONS, before.id) != document:
                return False
            change.put(DECISIONS, after)
            if before.request.view and after.state is not DecisionState.OPEN:
                change.delete(VIEWS, before.id)
            add_record(change, self._record(after, by))
            if also is not None:
                await also(change)
            return True

        return await commit(self._store, write)

    def _changed(self, id: str, decision: Decision | None) -> None:
        self._index.follow(id, decision)
        if decision is None or decision.state is not DecisionState.OPEN:
            self.callers.forget(id)
        if decision is not None:
            for listener in tuple(self._listeners):
                listener(decision)
            self.publish(decision)

    def publish(self, decision: Decision) -> None:
        if self.bus.wants(ApprovalChanged):
            request, revision = decision.request, self._decisions.revision
            about = request.kind, request.asker, request.server, request.shown
            state = decision.state.value
            self.bus.publish(ApprovalChanged("approvals", revision, now_us(), decision.id, state, *about))
