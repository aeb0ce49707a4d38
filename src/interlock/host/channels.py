"""Conversations that begin turns by themselves: for messages of channels, and for events that wake their agent.

`channel_messages.py` takes the messages. An answer goes to a channel only after every server that may rewrite it has
seen it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

from interlock.config.channel_settings import ChannelSettings
from interlock.events import EventFilter, SubscriberTask
from interlock.events.types import AgentWoken, Delivery
from interlock.host.channel_messages import INCOMING, ChannelMessages
from interlock.host.channel_tables import ChannelTables
from interlock.host.channel_turns import ChannelPlaces, context_of, messages_of_people
from interlock.host.publishing import ChannelPublisher
from interlock.host.turn import Turn
from interlock.host.turn_starter import TurnStarter
from interlock.hub.admin.agents import principal_of
from interlock.hub.app import HubApp
from interlock.hub.live.events.documents import PendingEvent
from interlock.hub.live.hook_injections import judged
from interlock.protocols.mcpl.injections import SourcedInjection
from interlock.store import StoreError
from interlock.wire.errors import Fault

MAX_EVENTS: Final = 32
MAX_BYTES: Final = 128 * 1024
"""Bytes of the events of one turn."""
REGISTERED_S: Final = 30.0
"""How long servers may take after a start to register their channels again."""
FIRST_PAUSE_S: Final = 1.0
LAST_PAUSE_S: Final = 64.0
"""A turn that could not begin is tried again after pauses that double. After that, the next event begins it."""
BUSY_S: Final = 3600.0
"""How long events wait for a conversation whose turn is under way."""


class ChannelConversations:
    """The conversations of `[channels]`."""

    def __init__(self, hub_app: HubApp, host: TurnStarter, places: ChannelPlaces) -> None:
        self._hub_app = hub_app
        self._host = host
        self._places = places
        self._tables = ChannelTables(hub_app, host)
        self._messages = ChannelMessages(hub_app, self._tables)
        self._publishing = ChannelPublisher(hub_app)
        self._wakes: SubscriberTask | None = None
        self._started = 0.0
        self._turns: dict[str, asyncio.Task[None]] = {}
        """Turns under way, by agent."""
        self._woken: dict[str, asyncio.Event] = {}
        """By agent, set by an event that comes after its turns began: no pause before another try outlasts it."""

    def start(self) -> None:
        """Begin to take messages, and begin turns for events, also for those of an earlier run."""
        self._started = time.monotonic()
        self._hub_app.live.connections.messages.serve_with(INCOMING, self._messages)
        subscription = self._hub_app.bus.subscribe(EventFilter.of(AgentWoken), 1024)
        self._wakes = SubscriberTask(subscription, self._on_wakes)
        for agent in {table.agent for table in self._tables.all.values()}:
            self._begin(agent)

    async def close(self) -> None:
        """Begin no more turns."""
        if self._wakes is not None:
            await self._wakes.close()
        tasks = list(self._turns.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._publishing.close()

    async def _on_wakes(self, batch: Sequence[Delivery]) -> None:
        agents = {table.agent for table in self._tables.all.values()}
        for event in batch:
            # A gap does not name agents, so check all of them.
            for agent in {event.agent} & agents if isinstance(event, AgentWoken) else agents:
                self._begin(agent)

    def _begin(self, agent: str) -> None:
        if agent in self._turns:
            self._woken[agent].set()
            return
        woken = self._woken[agent] = asyncio.Event()
        task = self._turns[agent] = asyncio.ensure_future(self._run(agent, woken))
        task.add_done_callback(lambda _: self._turns.pop(agent, None))

    async def _run(self, agent: str, woken: asyncio.Event) -> None:
        """Begin turns while the agent is woken. A failure is tried again with the next event, or after a pause."""
        left: dict[str, PendingEvent] = {}
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                woken.clear()
                try:
                    await self._put_back(agent, left)
                    await self._run_turns(agent, left)
                    return
                except (Fault, StoreError) as cause:
                    again = f"in {pause_s:g} s" if pause_s <= LAST_PAUSE_S else "with the next event"
                    text = f"the events of {agent} began no turn, the next try is {again}: {cause.for_operators}"
                    self._hub_app.logs.add("hub", "hub", text[:500])
                with contextlib.suppress(Fault, StoreError):
                    await self._put_back(agent, left)
                if await _is_set(woken, pause_s if pause_s <= LAST_PAUSE_S else 0):
                    pause_s = FIRST_PAUSE_S
                elif pause_s <= LAST_PAUSE_S:
                    pause_s *= 2
                else:
                    return
        finally:
            with contextlib.suppress(Fault, StoreError):
                await self._put_back(agent, left)

    async def _put_back(self, agent: str, left: dict[str, PendingEvent]) -> None:
        """Let events wait again whose turn did not begin, or did nothing."""
        if left:
            await self._hub_app.live.deliveries.put_back(agent, left.values())
            left.clear()

    async def _run_turns(self, agent: str, left: dict[str, PendingEvent]) -> None:
        """Take events and run their turns while the agent is woken. `left` has those whose turn has not acted yet."""
        deliveries = self._hub_app.live.deliveries
        while self._tables.has(agent) and deliveries.is_woken(agent) and self._hub_app.config.models:
            events, _ = await deliveries.take(agent, MAX_EVENTS, MAX_BYTES, on_way=True)
            left.update((event.id, event) for event in events)
            await self._turns_for(agent, events, left)
            await self._put_back(agent, left)

    async def _turns_for(self, agent: str, events: Sequence[PendingEvent], left: dict[str, PendingEvent]) -> None:
        """Run turns for events, one after the other."""
        deliveries = self._hub_app.live.deliveries
        tables = self._tables.all  # The same ones for all of these events, also if the configuration changes meanwhile.
        if not self._tables.has(agent):
            return
        groups = self._grouped(agent, events)
        grouped = {event.id for group in groups.values() for event in group}
        # The rest belongs to no table of this agent any more. Put back, it would be taken again for ever.
        if gone := [event for event in events if event.id not in grouped]:
            await deliveries.discard(agent, gone)
            for event in gone:
                del left[event.id]
        for (name, thread), group in groups.items():
            await self._are_registered(agent, group)
            turn = await self._begin_turn(name, tables[name], thread, group)
            # A turn that did nothing before its hub ended may begin again. So no message stays without an answer.
            await turn.acted()
            for event in group:
                del left[event.id]
            try:
                await deliveries.arrived(agent, group)
            except (Fault, StoreError) as cause:
                text = f"the next run may begin a turn for events of {agent} again: {cause.for_operators}"
                self._hub_app.logs.add("hub", "hub", text[:500])
            # A call is made after the mark: a hub that dies in it does not begin the turn, and the call, again.
            turn.let_call()
            await self._answer(turn, name, tables[name])

    def _grouped(self, agent: str, events: Sequence[PendingEvent]) -> dict[tuple[str, str | None], list[PendingEvent]]:
        """Group events by the agent's tables, and by thread if each thread has a conversation.

        An event whose channel has no table of this agent is in no group, because nobody else may read it.
        """
        mine = [name for name, table in self._tables.all.items() if table.agent == agent]
        found: dict[tuple[str, str | None], list[PendingEvent]] = {}
        for event in events:
            name = mine[0]
            if event.channel is not None:
                try:
                    name, table = self._tables.of(event.server, event.channel)
                except Fault:
                    continue
                if table.agent != agent:
                    continue
            thread = event.origin.get("threadId") if self._tables.all[name].threads else None
            found.setdefault((name, thread), []).append(event)
        return found

    async def _are_registered(self, agent: str, events: Sequence[PendingEvent]) -> None:
        """Wait until servers have registered the channels of these messages again, because answers go there."""
        wanted = {(event.server, event.channel) for event in events if event.channel is not None}
        while time.monotonic() < self._started + REGISTERED_S:
            open_now = self._hub_app.live.connections.of_agent(agent)
            if wanted <= {(live.server, channel) for live in open_now for channel in live.channels}:
                return
            await asyncio.sleep(0.1)

    async def _begin_turn(
        self, name: str, table: ChannelSettings, thread: str | None, events: list[PendingEvent]
    ) -> Turn:
        principal_name = principal_of(self._hub_app, table.agent).name
        context, said = await self._hub_app.judging.run_result(
            principal_name, lambda: (judged(context_of(events)), messages_of_people(events))
        )
        return await self.begin(name, table, thread, said, context.kept, events)

    async def _answer(self, turn: Turn, name: str, table: ChannelSettings) -> None:
        """Send the answer of a turn to its channel and to the webhook."""
        try:
            answer = await turn.answer()
        except Fault:
            return  # The stored turn has its error.
        finally:
            target = self._places.take(turn.conversation.id)
        if target is not None and answer:
            await self._publishing.publish(turn, target, answer)
        if answer:
            self._publishing.post(turn, name, table.webhook, answer)

    async def begin(
        self,
        name: str,
        table: ChannelSettings,
        thread: str | None,
        text: str | None,
        context: tuple[SourcedInjection, ...] = (),
        events: Sequence[PendingEvent] = (),
    ) -> Turn:
        """Begin a turn in the conversation of a table, after its current turn. Raises a `Fault`."""
        conversation = await self._tables.conversation(name, table, thread)
        ends = time.monotonic() + BUSY_S
        while True:
            await self._host.idle(conversation, max(ends - time.monotonic(), 0))
            if events:
                self._places.set(conversation, table.publish, events)
            try:
                return await self._host.send(conversation, text, context, calls_wait=bool(events))
            except Fault as fault:
                if fault.name != "RESOURCE_EXHAUSTED" or time.monotonic() > ends:
                    raise
                await asyncio.sleep((fault.retry_after_ms or 1000) / 1000)


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    """Wait for a while. Returns whether the event was set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
    return event.is_set()
