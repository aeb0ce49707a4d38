"""Channels for clients that are hosts: each request goes to the one server that it names.

For a client, a channel's id is `server/channel`; at the address of one server, it is the server's own id. A channel
that a client may not use is unknown to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from interlock.hub.audit.record import SUCCEEDED, TOOL_FAILED
from interlock.hub.calls.call import Call
from interlock.hub.calls.pipeline.judged_sends import JudgedSends
from interlock.hub.catalog.target import Target
from interlock.hub.live import channel_requests
from interlock.hub.live.client_host import ClientHost, HostMessage
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.server_texts import ServerTexts
from interlock.protocols.mcpl import channels
from interlock.protocols.mcpl.authorization import check_outgoing
from interlock.protocols.mcpl.capabilities import CHANNELS_LIFECYCLE, CHANNELS_REGISTER
from interlock.protocols.mcpl.decoding import Value, decode
from interlock.protocols.mcpl.errors import channel_not_permitted, unknown_channel
from interlock.protocols.mcpl.grants import THINKING
from interlock.protocols.mcpl.merged_features import private_id
from interlock.protocols.mcpl.states import McplConnection
from interlock.wire.errors import Fault

SERVER: Final = "dev.interlock/server"
"""Member of the metadata of `channels/open`: the server that is to open the channel."""

ACKNOWLEDGE: Final = "channels/acknowledge"
CHANGED: Final = "channels/changed"
PUBLISHING: Final = "channels/publish needs a channel of an enabled feature set"

Outgoing = TypeVar("Outgoing", channels.OutgoingChunk, channels.OutgoingComplete)


class ClientChannels:
    """The channels of servers, for clients."""

    def __init__(self, hosts: ClientHosts, sends: JudgedSends, texts: ServerTexts) -> None:
        self._hosts = hosts
        self._texts = texts
        self._sends = sends

    async def listed(self, host: ClientHost, params: bytes) -> channels.ListResult:
        """The channels that the servers of a client registered and the client may have."""
        return channels.ListResult((await self._all(host, "channels/list"))[: channels.MAX_CHANNELS])

    async def open(self, host: ClientHost, params: bytes) -> channels.OpenResult:
        """Ask a server to open a channel: the server in the metadata, or the only one that can."""
        request = decode(channels.ChannelsOpen, params)
        live, rights = self._opener(host, request)
        own = None if request.channel_id is None else self._own(host, live.server, request.channel_id)
        opening = channel_requests.open_channel(live, rights, msgspec.structs.replace(request, channel_id=own))
        channel = await self._texts.answered(host, live.server, channel_requests.OPEN, opening)
        if channel.id not in live.channels:
            raise channel_not_permitted(channel.id, CHANNELS_REGISTER)
        return channels.OpenResult(self._shown(host, live, channel))

    async def close(self, host: ClientHost, params: bytes) -> channels.CloseResult:
        """Ask a server to close a channel."""
        live, rights, channel = self._of(host, decode(channels.ChannelsClose, params).channel_id)
        closing = channel_requests.close_channel(live, rights, channel)
        return await self._texts.answered(host, live.server, channel_requests.CLOSE, closing)

    async def publish(self, message: HostMessage) -> channels.PublishResult:
        """Deliver a client's content to a channel. The server answers whether it was delivered."""
        live, own, call = await self._admitted(message)
        with self._recorded_failure(call, own):
            publishing = channel_requests.publish(live, own)
            result = await self._texts.answered(message.host, live.server, channel_requests.PUBLISH, publishing)
        outcome = "delivered" if result.delivered else "not delivered"
        self._sends.ended(call, SUCCEEDED if result.delivered else TOOL_FAILED, _details(own, outcome))
        return result

    async def announce(self, message: HostMessage) -> None:
        """Deliver a client's content to a channel by a notification, which has no answer."""
        live, own, call = await self._admitted(message)
        with self._recorded_failure(call, own):
            channel_requests.announce(live, own)
        self._sends.ended(call, SUCCEEDED, _details(own, "sent"))

    async def chunk(self, host: ClientHost, params: bytes) -> None:
        """Tell observers of a piece of an answer."""
        self._tell(host, "channels/outgoing/chunk", decode(channels.OutgoingChunk, params))

    async def complete(self, host: ClientHost, params: bytes) -> None:
        """Tell observers of a whole answer."""
        self._tell(host, "channels/outgoing/complete", decode(channels.OutgoingComplete, params))

    async def typing(self, host: ClientHost, params: bytes) -> None:
        """Show in a channel that an answer is being written (0.5)."""
        request = decode(channels.Typing, params)
        live, rights, channel = self._of(host, request.channel_id)
        own = msgspec.structs.replace(request, channel_id=channel)
        channel_requests.tell(live, rights, "channels/typing", channel, own)

    async def acknowledge(self, host: ClientHost, params: bytes) -> channels.AcknowledgeResult:
        """Tell a channel that a message was seen (0.5)."""
        request = decode(channels.Acknowledge, params)
        live, rights, channel = self._of(host, request.channel_id)
        if channel not in live.channels:
            raise unknown_channel(request.channel_id)
        check_outgoing(rights, ACKNOWLEDGE, channel=channel)
        own = msgspec.structs.replace(request, channel_id=channel)
        asking = live.ask(ACKNOWLEDGE, own, channels.AcknowledgeResult, channel_requests.ANSWER_S)
        return await self._texts.answered(host, live.server, ACKNOWLEDGE, asking)

    async def register(self, host: ClientHost, update: bytes) -> None:
        """Tell a client of the channels that it may have after its `featureSets/update`."""
        await self._hosts.settled(host)
        if not host.can(CHANNELS_REGISTER):
            return
        found = (await self._all(host, "channels/register"))[: channels.MAX_CHANNELS]
        if not found:
            return
        try:
            registration = msgspec.json.encode(channels.ChannelsRegister(found))
            await self._hosts.requests.ask(host.key, "channels/register", None, registration)
        except Fault:
            return  # The client does not listen now. It can ask with `channels/list`.

    async def _all(self, host: ClientHost, method: str) -> tuple[channels.Channel, ...]:
        found: list[channels.Channel] = []
        for live in self._hosts.offers.connections(host):
            grant = self._hosts.offers.rights(host, live).active.grant
            mine = [each for each in live.channels.values() if grant.allows_channel(CHANNELS_REGISTER, each.id)]
            clean = await self._texts.channels(host, live.server, method, mine[: channels.MAX_CHANNELS])
            found += [self._shown(host, live, channel) for channel in clean]
        return tuple(found)

    async def _admitted(self, message: HostMessage) -> tuple[LiveConnection, channels.Publish, Call]:
        """Admit a client's publication: its feature sets and the gates allow it, and its intent is recorded."""
        live, rights, own = self._publication(message.host, message.params)
        target = Target("channel", live.server, own.channel_id)
        call = self._sends.of(message.exchange, message.caller, target, msgspec.json.encode(own))
        try:
            channel_requests.check_publish(live, rights, own.channel_id)
        except Fault as fault:
            self._sends.refuse(call, fault, PUBLISHING)
            raise
        await self._sends.admit(call)
        with self._recorded_failure(call, own):
            # While a person decided, the set may have been switched off, or the server restarted.
            live, rights, own = self._publication(message.host, message.params)
            channel_requests.check_publish(live, rights, own.channel_id)
        return live, own, call

    def _publication(self, host: ClientHost, params: bytes) -> tuple[LiveConnection, McplConnection, channels.Publish]:
        """The server of a publication, its rights with the client, and the publication with the server's ids."""
        request = decode(channels.Publish, params)
        live, rights, channel = self._of(host, request.channel_id)
        conversation = host.conversation(request.conversation_id)
        return live, rights, msgspec.structs.replace(request, conversation_id=conversation, channel_id=channel)

    @contextlib.contextmanager
    def _recorded_failure(self, call: Call, own: channels.Publish) -> Iterator[None]:
        try:
            yield
        except Fault as fault:
            self._sends.failed(call, fault, _details(own, "failed"))
            raise
        except asyncio.CancelledError:
            self._sends.given_up(call, _details(own, "unknown"))
            raise

    def _tell(self, host: ClientHost, method: str, outgoing: Outgoing) -> None:
        conversation = host.conversation(outgoing.conversation_id)
        inference = private_id("inf", host.principal_name, outgoing.inference_id)
        for live in self._hosts.offers.connections(host):
            channel = THINKING if outgoing.channel_id == THINKING else self._own(host, live.server, outgoing.channel_id)
            if channel is not None:
                own: Value = msgspec.structs.replace(
                    outgoing, inference_id=inference, conversation_id=conversation, channel_id=channel
                )
                channel_requests.tell(live, self._hosts.offers.rights(host, live), method, channel, own)

    def _of(self, host: ClientHost, id: str) -> tuple[LiveConnection, McplConnection, str]:
        """The server of a channel, its rights with the client, and its own id of the channel."""
        for live in self._hosts.offers.connections(host):
            channel = self._own(host, live.server, id)
            if channel is not None:
                return live, self._hosts.offers.rights(host, live), channel
        raise unknown_channel(id)

    def _opener(self, host: ClientHost, request: channels.ChannelsOpen) -> tuple[LiveConnection, McplConnection]:
        named = request.metadata.get(SERVER)
        if named is None and request.channel_id is not None and not host.bare:
            named = request.channel_id.partition("/")[0]
        able = [(live, self._hosts.offers.rights(host, live)) for live in self._hosts.offers.connections(host)]
        able = [(live, rights) for live, rights in able if rights.active.grant.allows(CHANNELS_LIFECYCLE)]
        found = [(live, rights) for live, rights in able if named in (None, live.server)]
        if len(found) == 1:
            return found[0]
        if not able:
            raise Fault("FEATURE_SET_DISABLED", "no selected feature set opens channels")
        names = ", ".join(live.server for live, _ in able)
        hint = f'name the server in metadata["{SERVER}"]: {names}'
        raise Fault("CHANNEL_OPEN_FAILED", "it is not clear which server shall open the channel", hint=hint)

    def _shown(self, host: ClientHost, live: LiveConnection, channel: channels.Channel) -> channels.Channel:
        return msgspec.structs.replace(channel, id=shown_id(host, live.server, channel.id))

    def _own(self, host: ClientHost, server: str, id: str) -> str | None:
        """A server's own id of a channel; None for another server's."""
        if host.bare:
            return id if host.server == server else None
        prefix = channels.hub_channel_id(server, "")
        return id.removeprefix(prefix) if id.startswith(prefix) and len(id) > len(prefix) else None


def _details(own: channels.Publish, outcome: str) -> dict[str, object]:
    return {"channelId": own.channel_id, "conversationId": own.conversation_id, "outcome": outcome}


def shown_id(host: ClientHost, server: str, channel: str) -> str:
    """A client's id of a channel."""
    return channel if host.bare else channels.hub_channel_id(server, channel)


class ChannelAnnouncements:
    """Tells clients of changed channels."""

    def __init__(self, hosts: ClientHosts, texts: ServerTexts) -> None:
        self._hosts = hosts
        self._texts = texts
        self._order = asyncio.Lock()
        """Clients are told of changes in their order."""

    async def changed(self, live: LiveConnection, change: channels.ChannelsChanged) -> None:
        """A server registered, removed or changed channels."""
        async with self._order:
            await self._tell(live, change)

    async def _tell(self, live: LiveConnection, change: channels.ChannelsChanged) -> None:
        hosts = self._hosts
        for host in list(hosts.of_connection(live)):
            if not host.can(CHANNELS_REGISTER) or live not in hosts.offers.connections(host):
                continue
            grant = hosts.offers.rights(host, live).active.grant
            if not grant.allows(CHANNELS_REGISTER):
                continue
            added, updated = [
                tuple(
                    msgspec.structs.replace(each, id=shown_id(host, live.server, each.id))
                    for each in await self._texts.channels(host, live.server, CHANGED, found)
                    if grant.allows_channel(CHANNELS_REGISTER, each.id)
                )
                for found in (change.added, change.updated)
            ]
            removed = await self._texts.ids(host, live.server, CHANGED, change.removed)
            gone = tuple(shown_id(host, live.server, id_) for id_ in removed)
            if added or updated or gone:
                notice = channels.ChannelsChanged(added, gone, updated)
                hosts.requests.tell(host.key, CHANGED, msgspec.json.encode(notice))
