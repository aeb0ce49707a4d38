"""Takes the messages of channels (MCPL, channels/incoming): each becomes an event for the agent of its table.

Like any event, a message is taken once (`hub/live/events/intake.py`), and `[live.rules]` decide whether it wakes. A
message without a conversation of the hub goes to a client that is a host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.host.channel_tables import ChannelTables
from interlock.host.client_messages import MessagesToClients
from interlock.hub.app import HubApp
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events.intake import IncomingEvent
from interlock.protocols.mcpl.authorization import AuthorizedMessage
from interlock.protocols.mcpl.capabilities import CHANNELS_INCOMING
from interlock.protocols.mcpl.channels import ChannelsIncoming, IncomingMessage, IncomingResult, ReceivedResult
from interlock.protocols.mcpl.content import blocks
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

INCOMING: Final = "channels/incoming"
MAX_MESSAGE_BYTES: Final = 64 * 1024


class ChannelMessages:
    """The handler of `channels/incoming` (`hub.live.server_messages.MessageHandler`)."""

    def __init__(self, hub_app: HubApp, tables: ChannelTables) -> None:
        self._hub_app = hub_app
        self._tables = tables
        self._clients = MessagesToClients(hub_app)

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
            return bool(self._tables.of(server, channel))
        except Fault:
            return False

    async def _take(self, live: LiveConnection, message: IncomingMessage) -> ReceivedResult:
        name, table = self._tables.of(live.server, message.channel_id)
        feature = self._feature(live, table.agent)
        content = msgspec.json.encode(blocks(message.content))
        if len(content) > MAX_MESSAGE_BYTES:
            raise Fault("TOO_LARGE", f"a message has at most {MAX_MESSAGE_BYTES} bytes")
        conversation = await self._tables.conversation(name, table, message.thread_id)
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

    def _feature(self, live: LiveConnection, agent: str) -> str:
        """The feature set by which a server may bring messages to an agent. Raises FEATURE_SET_DISABLED."""
        features = self._hub_app.live.features
        for name, declared in live.state.offer.feature_sets.items():
            if declared.covers(CHANNELS_INCOMING) and features.enabled(live.server, agent, name):
                return name
        raise Fault("FEATURE_SET_DISABLED", "no feature set for incoming messages is enabled for this agent")
