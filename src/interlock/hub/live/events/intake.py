"""Takes events of servers and webhooks: recognizes repeated ones, decides what to do, and commits that with the answer.

An event is committed before it is answered, so a killed hub neither loses nor repeats an event that it accepted.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from interlock.config.live_settings import LiveSettings
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.journal import Journal
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.documents import (
    LIVE_PENDING,
    LIVE_SEEN,
    LIVE_WAKES,
    Outcome,
    PendingEvent,
    SeenEvent,
    Wake,
    day_of,
    now,
    pending_id,
    seen_id,
)
from interlock.hub.live.events.wakes import DecidedEvent, Wakes
from interlock.hub.live.features import Features
from interlock.hub.rate_meter import Meters
from interlock.hub.store_faults import as_faults, fault_of, starting
from interlock.protocols.mcpl.authorization import AuthorizedMessage
from interlock.protocols.mcpl.content import Block, TextContent, blocks
from interlock.protocols.mcpl.events import PushEvent, PushResult
from interlock.store import Conflict, Store, StoreError
from interlock.store.documents import AnyCollection
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

MAX_CONTENT_BYTES: Final = 64 * 1024
"""Bytes of the content of one event, as JSON."""
MAX_ORIGIN_BYTES: Final = 8 * 1024
RECENT: Final = 16_384
"""Answers that are kept in memory, so that a repeated event needs no look into the store."""


class IncomingEvent(msgspec.Struct, frozen=True):
    """An event from anywhere: pushed by a server, or posted to a webhook."""

    server: str
    event: str
    feature_set: str
    content: list[dict[str, Any]]
    size: int
    origin: Mapping[str, object] = {}
    tags: tuple[str, ...] = ()
    channel: str | None = None
    dated: str = ""
    """The time of the event, as the server claims."""

    @classmethod
    def pushed(cls, server: str, event: PushEvent) -> IncomingEvent:
        """The event of `push/event`. Raises TOO_LARGE."""
        content = blocks(event.payload.content)
        found = cls._bounded(server, event.event_id, event.feature_set, content, event.origin, event.tags)
        return msgspec.structs.replace(found, dated=event.timestamp)

    @classmethod
    def posted(cls, server: str, event: str, feature_set: str, text: str) -> IncomingEvent:
        """The event of a webhook, with the body as it came. Raises TOO_LARGE."""
        return cls._bounded(server, event, feature_set, (TextContent(text),))

    @classmethod
    def _bounded(
        cls,
        server: str,
        event: str,
        feature_set: str,
        content: tuple[Block, ...],
        origin: Mapping[str, object] = {},
        tags: tuple[str, ...] = (),
    ) -> IncomingEvent:
        """The event, with the size of its content as the store keeps it. Raises TOO_LARGE."""
        encoded = msgspec.json.encode(content)
        if len(encoded) > MAX_CONTENT_BYTES or len(msgspec.json.encode(origin)) > MAX_ORIGIN_BYTES:
            message = f"an event has at most {MAX_CONTENT_BYTES} bytes of content and {MAX_ORIGIN_BYTES} of origin"
            raise Fault("TOO_LARGE", message, data={"field": "payload.content"})
        decoded = msgspec.json.decode(encoded, type=list[dict[str, Any]])
        return cls(server, event, feature_set, decoded, len(encoded), origin, tags)


class _EventDecisions(msgspec.Struct):
    """The decisions about one event for all of its agents, before they are committed."""

    taken: list[DecidedEvent] = []
    outcomes: dict[str, Outcome] = {}
    pending: list[PendingEvent] = []
    wakes: list[Wake] = []
    cause: str = ""

    @property
    def answer(self) -> PushResult:
        """The answer to the server."""
        if not self.pending:
            return PushResult(False, None, f"dropped: {self.cause}")
        return PushResult(True, self.wakes[0].id if self.wakes else None, None)


class EventIntake:
    """Takes events for agents. It is the handler of `push/event` (`hub.live.server_messages.MessageHandler`)."""

    def __init__(
        self,
        settings: Callable[[], LiveSettings],
        features: Features,
        deliveries: EventDeliveries,
        wakes: Wakes,
        journal: Journal,
    ) -> None:
        self._settings = settings
        self._features = features
        self._deliveries = deliveries
        self._wakes = wakes
        self._journal = journal
        self._store: Store | None = None
        self._recent: OrderedDict[str, PushResult] = OrderedDict()
        self._meters = Meters("server")
        self._under_way: dict[str, asyncio.Future[PushResult]] = {}
        self._tasks = BackgroundTasks()
        self._pruned = 0
        """The newest day whose events are deleted."""

    def start(self, store: Store) -> None:
        """Begin to take events."""
        self._store = store

    async def serve(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage) -> PushResult:
        """Take an event that a server pushed, for every agent for which its feature set is on."""
        event = arrival.params
        assert isinstance(event, PushEvent)
        agents = live.recipients(self._features, event.feature_set)
        return await self.take(IncomingEvent.pushed(live.server, event), agents)

    async def take(self, event: IncomingEvent, agents: tuple[str, ...]) -> PushResult:
        """Take an event for these agents; a repeated one gets the recorded answer. Raises a `Fault` to refuse it."""
        key = seen_id(event.server, event.event)
        known = self._recent.get(key)
        if known is not None:
            return known
        waiting = self._under_way.get(key)
        if waiting is None:
            waiting = asyncio.get_running_loop().create_future()
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._under_way[key] = waiting
            # A server that disconnects cancels its request, but not this task: after the commit, the wake must follow.
            self._tasks.begin(self._run(key, event, agents, waiting), None)
        return await asyncio.shield(waiting)

    def count(self, server: str) -> None:
        """Count a message of a server that goes to a client directly. Raises RATE_LIMITED."""
        self._meters.take(server, self._settings().rate, time.monotonic())

    async def close(self) -> None:
        """Cancel events that are being taken. The next start finds committed ones."""
        await self._tasks.close()

    async def prune(self) -> None:
        """Delete events that are older than `keep_days`, one day at a time."""
        last = day_of(now()) - self._settings().keep_days - 1
        if self._store is None or last <= self._pruned:
            return
        collections: tuple[AnyCollection, ...] = (LIVE_WAKES, LIVE_SEEN)
        for collection in collections:
            days = sorted(map(int, await self._store.values(collection, "day")))
            for day in (day for day in days if day <= last):
                keys = [document.key for document in await self._store.find(collection, day=day)]
                for start in range(0, len(keys), 500):
                    await self._forget(collection, keys[start : start + 500])
        self._pruned = last

    async def _forget(self, collection: AnyCollection, keys: list[str]) -> None:
        assert self._store is not None
        async with self._store.transaction() as transaction:
            for key in keys:
                transaction.delete(collection, key)

    async def _run(
        self, key: str, event: IncomingEvent, agents: tuple[str, ...], waiting: asyncio.Future[PushResult]
    ) -> None:
        """Take an event, and pass its answer to everybody who waits for it."""
        try:
            answer = await self._take(key, event, agents)
        except BaseException as cause:
            waiting.set_exception(cause if isinstance(cause, Fault) else _interrupted())
            if not isinstance(cause, Fault):
                raise
        else:
            self._recent[key] = answer
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
            waiting.set_result(answer)
        finally:
            del self._under_way[key]

    async def _take(self, key: str, event: IncomingEvent, agents: tuple[str, ...]) -> PushResult:
        if self._store is None:
            raise starting()
        self._meters.take(event.server, self._settings().rate, time.monotonic())
        reserved: list[str] = []
        full: Fault | None = None
        try:
            for agent in agents:
                try:
                    self._deliveries.reserve(agent, event.server, key, event.size)
                    reserved.append(agent)
                except Fault as fault:
                    full = fault
            # A full queue of one agent must not keep the event from the others.
            if full is not None and not reserved:
                raise full
            return await self._commit(key, event, agents, frozenset(reserved))
        finally:
            for agent in reserved:
                self._deliveries.release(agent, key)

    async def _commit(
        self, key: str, event: IncomingEvent, agents: tuple[str, ...], reserved: frozenset[str]
    ) -> PushResult:
        """Decide about an event for each agent, and commit that with its answer and its wakes.

        Agents without a reservation do not get it.
        """
        assert self._store is not None
        at = now()
        decisions = self._decide(event, agents, reserved, at)
        answer, outcomes, cause = decisions.answer, decisions.outcomes, decisions.cause
        seen = SeenEvent(
            key, event.server, event.event, event.feature_set, at, day_of(at), outcomes, cause,
            answer.accepted, answer.inference_id or "", answer.reason or "", event.size,
        )  # fmt: skip
        try:
            async with self._store.transaction() as transaction:
                transaction.insert(LIVE_SEEN, seen)
                for each in decisions.pending:
                    transaction.put(LIVE_PENDING, each)
                for wake in decisions.wakes:
                    self._wakes.store(transaction, wake)
                transaction.record(
                    self._journal.live_event(
                        event.server, event.feature_set, event.event, outcomes, cause, answer.inference_id or ""
                    )
                )
        except StoreError as error:
            for decided in decisions.taken:
                self._wakes.undo(decided)
            if isinstance(error, Conflict):
                return await self._recorded(key)
            raise fault_of(error) from None
        for each in decisions.pending:
            self._wakes.join(each)
        for wake in decisions.wakes:
            self._wakes.announce(wake)
        return answer

    def _decide(
        self, event: IncomingEvent, agents: tuple[str, ...], reserved: frozenset[str], at: float
    ) -> _EventDecisions:
        """Decide about an event for each agent. This spends the wakes; `Wakes.undo` takes that back."""
        found = _EventDecisions()
        for agent in agents:
            if agent not in reserved:
                found.outcomes[agent] = "dropped"
                continue
            decided = self._wakes.take(event, agent, at)
            found.taken.append(decided)
            found.outcomes[agent], found.cause = decided.outcome, decided.cause
            if decided.outcome == "dropped":
                continue
            if decided.wake is not None:
                found.wakes.append(decided.wake)
            wake = "" if decided.wake is None else decided.wake.id
            found.pending.append(
                PendingEvent(
                    pending_id(agent, at), agent, event.server, event.event, event.feature_set, at, event.content,
                    decided.outcome, decided.cause, decided.group, event.channel, dict(event.origin), event.tags,
                    wake, event.size, dated=event.dated,
                )
            )  # fmt: skip
        if len(reserved) < len(agents):
            found.cause = f"{found.cause}; no room for {len(agents) - len(reserved)} of its agents"
        return found

    async def _recorded(self, key: str) -> PushResult:
        """The recorded answer to an event."""
        assert self._store is not None
        with as_faults():
            found = await self._store.get(LIVE_SEEN, key)
        if found is None:
            raise _interrupted()
        seen = found.value
        return PushResult(seen.accepted, seen.inference or None, seen.reason or None)


def _interrupted() -> Fault:
    return Fault("RESOURCE_EXHAUSTED", "the event was not accepted; send it again", retry_after_ms=1000)
