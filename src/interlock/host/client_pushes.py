"""Pushes events to clients that are hosts, as `push/event`: judged, labelled, and each once.

`hub/live/events/intake.py` has taken the event before, and `[live.rules]` decided about it. It is pushed when it wakes
its agent, and a client of that agent selected the feature set and listens. Until then it waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from interlock.events import EventFilter, SubscriberTask
from interlock.events.types import AgentWoken, Delivery
from interlock.hub.app import HubApp
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.events.documents import PendingEvent
from interlock.hub.live.hook_injections import judged
from interlock.judge.results import made_visible
from interlock.protocols.mcpl.capabilities import PUSH
from interlock.protocols.mcpl.content import Blocks
from interlock.protocols.mcpl.decoding import decode_answer
from interlock.protocols.mcpl.events import PushResult
from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.injections import SourcedInjection
from interlock.store import StoreError
from interlock.wire.errors import Fault

METHOD: Final = "push/event"
MAX_BYTES: Final = 128 * 1024
MAX_EVENTS: Final = 16
"""Events that are taken from the store at a time. Each is pushed in its own request."""
RETRIES: Final = 6
"""How often undelivered events are pushed again. After that, they wait for the next event or client."""
RETRY_S: Final = 1.0
"""The pause before the first retry. Each further pause is twice as long."""

_log = logging.getLogger(__name__)


class ClientPushes:
    """Pushes events to the clients of one hub that are hosts (`hub.live.client_hosts.HostListener`)."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._wakes: SubscriberTask | None = None
        self._running: dict[str, asyncio.Task[bool]] = {}
        """By agent."""
        self._tries: Counter[str] = Counter()
        """How often an agent's events were pushed again since the last event or client."""
        self._retries: dict[str, asyncio.TimerHandle] = {}
        """The next of these, by agent."""
        self._again: set[str] = set()
        """Agents whose task began before their last event, or their last client."""

    def start(self) -> None:
        """Begin to push events, also those of an earlier run."""
        subscription = self._hub_app.bus.subscribe(EventFilter.of(AgentWoken), 1024)
        self._wakes = SubscriberTask(subscription, self._on_wakes)
        self._hub_app.live.hosts.follow_with(self)

    async def close(self) -> None:
        """Cancel the pushes under way and the retries that wait."""
        if self._wakes is not None:
            await self._wakes.close()
        for agent in list(self._retries):
            self._retries.pop(agent).cancel()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_host(self, agent: str) -> None:
        """Push waiting events, because a client of this agent can take them now."""
        self._tries.pop(agent, None)
        self._begin(agent)

    def _begin(self, agent: str) -> None:
        if (retry := self._retries.pop(agent, None)) is not None:
            retry.cancel()
        config, deliveries = self._hub_app.config, self._hub_app.live.deliveries
        taken = bool(config.models) and any(table.agent == agent for table in config.channels.values())
        if agent in self._running:
            self._again.add(agent)
        # The conversations of [channels] take the events of their agents.
        elif not taken and deliveries.is_woken(agent):
            task = self._running[agent] = asyncio.ensure_future(self._run(agent))
            task.add_done_callback(partial(self._done, agent))

    def _done(self, agent: str, task: asyncio.Task[bool]) -> None:
        del self._running[agent]
        begins_again = agent in self._again
        self._again.discard(agent)
        if task.cancelled():
            return
        if (cause := task.exception()) is not None:
            _log.error("events were not pushed", exc_info=cause)
        if begins_again:
            self.on_host(agent)
        elif cause is None and task.result():
            self._try_again(agent)
        else:
            self._tries.pop(agent, None)

    def _try_again(self, agent: str) -> None:
        """Push waiting events again after a pause, up to `RETRIES` times."""
        tries = self._tries[agent]
        if tries >= RETRIES:
            del self._tries[agent]
            return
        self._tries[agent] = tries + 1
        pause_s = RETRY_S * 2**tries
        self._retries[agent] = asyncio.get_running_loop().call_later(pause_s, self._begin, agent)

    async def _on_wakes(self, batch: Sequence[Delivery]) -> None:
        for event in batch:
            # A gap names nobody, so everybody is looked after.
            agents = [event.agent] if isinstance(event, AgentWoken) else self._hub_app.live.hosts.agents
            for agent in agents:
                self.on_host(agent)

    async def _run(self, agent: str) -> bool:
        """Push the events of an agent to the newest client that takes them. Returns whether some were not delivered."""
        hosts, deliveries = self._hub_app.live.hosts, self._hub_app.live.deliveries
        failed = False
        try:
            for host in hosts.for_agent(agent):
                while deliveries.is_woken(agent) and (wanted := self._wanted(host)):
                    events, _ = await deliveries.take(agent, MAX_EVENTS, MAX_BYTES, wanted, on_way=True)
                    if not events:
                        break
                    if not await self._push_all(host, events):
                        failed = True
                        break
        except (Fault, StoreError) as cause:
            self._hub_app.logs.add("hub", "hub", f"events were not pushed to {agent}: {cause.for_operators}"[:500])
            failed = True
        return failed and deliveries.is_woken(agent)

    def _wanted(self, host: ClientHost) -> set[tuple[str, str]]:
        """The feature sets whose events a client takes now, with their servers."""
        hosts = self._hub_app.live.hosts
        return {
            (live.server, name)
            for live in hosts.offers.connections(host)
            for name in live.state.offer.feature_sets
            if hosts.offers.allows(host, live, PUSH, name)
            and hosts.reachable(host, METHOD, host.name(live.server, name))
        }

    async def _push_all(self, host: ClientHost, events: list[PendingEvent]) -> bool:
        """Push events one after the other. Unanswered events wait again, also when the hub stops.

        A client may get such an event a second time, with the same id.
        """
        deliveries, agent, left = self._hub_app.live.deliveries, events[0].agent, events
        try:
            for place, event in enumerate(events):
                failed: Fault | None = None
                try:
                    answer = await self._answer(host, event)
                    result = decode_answer(PushResult, answer, "the client")
                    self._record(host, event, "accepted" if result.accepted else "declined", result.reason or "")
                except _NotAnsweredError as cause:
                    self._record(host, event, "failed", cause.fault.summary)
                    return False
                except Fault as fault:
                    failed = fault
                    self._record(host, event, "failed", fault.summary)
                await deliveries.arrived(agent, [event])
                left = events[place + 1 :]
                if failed is not None:
                    return False
            return True
        finally:
            if left:
                await deliveries.put_back(agent, left)

    async def _answer(self, host: ClientHost, event: PendingEvent) -> bytes:
        """The client's answer to an event. Raises the client's own refusal, or `_NotAnsweredError` if there is none."""
        try:
            return await self._push(host, event)
        except Fault as fault:
            if fault.foreign_code is not None:
                raise
            raise _NotAnsweredError(fault) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The end of the session cancelled the request.
            raise _NotAnsweredError(Fault("UPSTREAM_UNAVAILABLE", "the client's session has ended")) from None

    async def _push(self, host: ClientHost, event: PendingEvent) -> bytes:
        hosts, maskers = self._hub_app.live.hosts, self._hub_app.inference_hooks.maskers()
        content = msgspec.convert(event.content, Blocks, strict=False)
        origin = {key: value for key, value in event.origin.items() if key != "dev.interlock/server"}
        sourced = SourcedInjection(event.server, Injection(event.feature_set, "beforeUser", content, origin))
        checked = await self._hub_app.judging.run_result(host.principal.name, lambda: judged([sourced], maskers))
        if not checked.kept or (event.server, event.feature_set) not in self._wanted(host):
            raise Fault("UPSTREAM_UNAVAILABLE", "the client no longer takes this event")
        injection = checked.kept[0].injection
        name = host.name(event.server, event.feature_set)
        params = {
            "featureSet": name,
            "eventId": event.event if host.bare else f"{event.server}/{event.event}"[:256],
            "timestamp": event.dated or datetime.fromtimestamp(event.at, UTC).isoformat(),
            "origin": {**injection.metadata, "dev.interlock/server": event.server},
            "payload": {"content": injection.content},
        }
        if event.tags:
            params["tags"] = made_visible(list(event.tags))
        return await hosts.requests.ask(host.key, METHOD, name, msgspec.json.encode(params))

    def _record(self, host: ClientHost, event: PendingEvent, outcome: str, reason: str) -> None:
        self._hub_app.journal.live_passed(event.server, host.principal.id, METHOD, event.event, outcome, reason)


class _NotAnsweredError(Exception):
    """No client answered for an event, so it is not delivered."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault
