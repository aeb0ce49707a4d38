"""Conversations that begin turns by themselves: for messages of channels, and for events that wake their agent.

Like any event, a message is taken once (`hub/live/events/intake.py`), and `[live.rules]` decide whether it wakes. An
answer goes to a channel only after every server that may rewrite it has seen it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.config.channel_settings import ChannelSettings
from interlock.events import EventFilter, SubscriberTask
from interlock.events.types import AgentWoken, Delivery
from interlock.host.channel_turns import ChannelPlaces, context_of, messages_of_people
from interlock.host.client_messages import MessagesToClients
from interlock.host.publishing import ChannelPublisher
from interlock.host.turn import Turn
from interlock.host.turn_starter import TurnStarter
from interlock.hub.admin.agents import principal_of
from interlock.hub.app import HubApp
from interlock.hub.live.channels import CHANNEL_CONVERSATIONS, ChannelConversation
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events.documents import PendingEvent
from interlock.hub.live.events.intake import IncomingEvent
from interlock.hub.live.hook_injections import judged
from interlock.protocols.mcpl.authorization import AuthorizedMessage
from interlock.protocols.mcpl.capabilities import CHANNELS_INCOMING
from interlock.protocols.mcpl.channels import (
    ChannelsIncoming,
    IncomingMessage,
    IncomingResult,
    ReceivedResult,
    hub_channel_id,
)
from interlock.protocols.mcpl.content import blocks
from interlock.protocols.mcpl.injections import SourcedInjection
from interlock.protocols.patterns import compile_pattern
from interlock.store import StoreError
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

INCOMING: Final = "channels/incoming"
MAX_MESSAGE_BYTES: Final = 64 * 1024
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
    """The conversations of `[channels]` (`hub.live.server_messages.MessageHandler` for `channels/incoming`)."""

    def __init__(self, hub_app: HubApp, host: TurnStarter, places: ChannelPlaces) -> None:
        self._hub_app = hub_app
        self._host = host
        self._places = places
        self._publishing = ChannelPublisher(hub_app)
        self._clients = MessagesToClients(hub_app)
        self._wakes: SubscriberTask | None = None
        self._started = 0.0
        self._turns: dict[str, asyncio.Task[None]] = {}
        """Turns under way, by agent."""
        self._woken: dict[str, asyncio.Event] = {}
        """By agent, set by an event that comes after its turns began: no pause before another try outlasts it."""

    def start(self) -> None:
        """Begin to take messages, and begin turns for events, also for those of an earlier run."""
        self._started = time.monotonic()
        self._hub_app.live.connections.messages.serve_with(INCOMING, self)
        subscription = self._hub_app.bus.subscribe(EventFilter.of(AgentWoken), 1024)
        self._wakes = SubscriberTask(subscription, self._on_wakes)
        for agent in {table.agent for table in self._tables.values()}:
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

    # Messages of channels.

    async def serve(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage) -> msgspec.Struct:
        """Take messages of a channel, one by one."""
        incoming = arrival.params
        assert isinstance(incoming, ChannelsIncoming)
        passed = await self._passed_on(live, incoming.messages, arrival.refusals)
        results = []
        for place, (message, refusal) in enumerate(zip(incoming.messages, arrival.refusals, strict=True)):
            try:
                if refusal is not None:
                    raise refusal
                found = passed.get(place) or await self._take(live, message)
                if isinstance(found, Fault):
                    raise found
                results.append(found)
            except Fault as fault:
                self._hub_app.live.refusals.add(live.server, INCOMING, "", message.message_id, fault)
                results.append(ReceivedResult(message.message_id, False, reason=fault.message[:1000]))
        return IncomingResult(tuple(results))

    async def _passed_on(
        self, live: LiveConnection, messages: Sequence[IncomingMessage], refusals: Sequence[Fault | None]
    ) -> dict[int, ReceivedResult | Fault]:
        """Pass messages without a conversation to a client that is a host. Returns the outcomes by position."""
        groups: dict[int, tuple[ClientHost, list[int]]] = {}
        for place, message in enumerate(messages):
            if refusals[place] is not None or self._is_taken(live.server, message.channel_id):
                continue
            host = self._clients.host(live, message.channel_id)
            if host is not None:
                groups.setdefault(id(host), (host, []))[1].append(place)
        outcomes: dict[int, ReceivedResult | Fault] = {}
        for host, places in groups.values():
            try:
                received = await self._clients.take(live, host, [messages[place] for place in places])
                outcomes |= dict(zip(places, received, strict=True))
            except Fault as fault:
                outcomes |= dict.fromkeys(places, fault)
        return outcomes

    def _is_taken(self, server: str, channel: str) -> bool:
        try:
            return bool(self._table_of(server, channel))
        except Fault:
            return False

    async def _take(self, live: LiveConnection, message: IncomingMessage) -> ReceivedResult:
        name, table = self._table_of(live.server, message.channel_id)
        feature = self._feature(live, table.agent)
        content = msgspec.json.encode(blocks(message.content))
        if len(content) > MAX_MESSAGE_BYTES:
            raise Fault("TOO_LARGE", f"a message has at most {MAX_MESSAGE_BYTES} bytes")
        conversation = await self._conversation(name, table, message.thread_id)
        origin = {
            "author": message.author.name[:100] or message.author.id,
            "messageId": message.message_id,
            "threadId": message.thread_id,
        }
        decoded = msgspec.json.decode(content, type=list[dict[str, object]])
        event = IncomingEvent(
            live.server, f"{message.channel_id}/{message.message_id}", feature, decoded, len(content), origin,
            message.tags, message.channel_id,
        )  # fmt: skip
        answer = await self._hub_app.live.intake.take(event, (table.agent,))
        shown = conversation if answer.accepted else None
        return ReceivedResult(message.message_id, answer.accepted, shown, answer.reason)

    def _table_of(self, server: str, channel: str) -> tuple[str, ChannelSettings]:
        """The table of `[channels]` for a channel. Raises CHANNEL_NOT_PERMITTED."""
        place = hub_channel_id(server, channel)
        for name, table in self._tables.items():
            if any(compile_pattern(pattern).matches(place) for pattern in table.incoming):
                return name, table
        hint = f'add [channels.NAME] with incoming = ["{place}"]'
        raise Fault("CHANNEL_NOT_PERMITTED", "no conversation takes messages of this channel", hint=hint)

    def _feature(self, live: LiveConnection, agent: str) -> str:
        """The feature set by which a server may bring messages to an agent. Raises FEATURE_SET_DISABLED."""
        features = self._hub_app.live.features
        for name, declared in live.state.offer.feature_sets.items():
            if declared.covers(CHANNELS_INCOMING) and features.enabled(live.server, agent, name):
                return name
        raise Fault("FEATURE_SET_DISABLED", "no feature set for incoming messages is enabled for this agent")

    # Turns.

    async def _on_wakes(self, batch: Sequence[Delivery]) -> None:
        agents = {table.agent for table in self._tables.values()}
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
        while self._has_table(agent) and deliveries.is_woken(agent) and self._hub_app.config.models:
            events, _ = await deliveries.take(agent, MAX_EVENTS, MAX_BYTES, on_way=True)
            left.update((event.id, event) for event in events)
            await self._turns_for(agent, events, left)
            await self._put_back(agent, left)

    async def _turns_for(self, agent: str, events: Sequence[PendingEvent], left: dict[str, PendingEvent]) -> None:
        """Run turns for events, one after the other."""
        deliveries = self._hub_app.live.deliveries
        tables = self._tables  # The same ones for all of these events, also if the configuration changes meanwhile.
        if not self._has_table(agent):
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
        mine = [name for name, table in self._tables.items() if table.agent == agent]
        found: dict[tuple[str, str | None], list[PendingEvent]] = {}
        for event in events:
            name = mine[0]
            if event.channel is not None:
                try:
                    name, table = self._table_of(event.server, event.channel)
                except Fault:
                    continue
                if table.agent != agent:
                    continue
            thread = event.origin.get("threadId") if self._tables[name].threads else None
            found.setdefault((name, thread), []).append(event)
        return found

    def _has_table(self, agent: str) -> bool:
        return any(table.agent == agent for table in self._tables.values())

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
        conversation = await self._conversation(name, table, thread)
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

    async def _conversation(self, name: str, table: ChannelSettings, thread: str | None) -> str:
        """The stored conversation of a table, or of a thread. The first message creates it."""
        id_ = f"{name}\x1f{thread or ''}" if table.threads else name
        store = self._hub_app.store
        known = await store.get(CHANNEL_CONVERSATIONS, id_)
        if known is not None:
            try:
                found = await self._host.conversations.get(known.value.conversation)
                if found.principal.id == table.agent:
                    return known.value.conversation
            except Fault:
                pass  # It was deleted, so create a new one.
        principal = principal_of(self._hub_app, table.agent)
        if principal.decides:
            raise Fault("ACCESS_DENIED", f"a model does not act as {principal.id}, who is a {principal.kind}")
        begun = await self._host.create(principal, table.model)
        async with store.transaction() as transaction:
            transaction.put(CHANNEL_CONVERSATIONS, ChannelConversation(id_, name, begun.id))
        return begun.id

    @property
    def _tables(self) -> dict[str, ChannelSettings]:
        return self._hub_app.config.channels


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    """Wait for a while. Returns whether the event was set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
    return event.is_set()
