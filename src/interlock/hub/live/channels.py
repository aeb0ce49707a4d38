"""Channels that servers registered (MCPL, Channels of Communication), and which conversation goes on in each.

A channel's id is unique on its connection. At the hub it is `server/channel`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import msgspec

from interlock.hub.live.channel_requests import MAX_OPEN, is_full
from interlock.hub.live.client_channels import ChannelAnnouncements
from interlock.hub.live.connection import LiveConnection
from interlock.protocols.mcpl import channels
from interlock.protocols.mcpl.authorization import AuthorizedMessage
from interlock.store import Collection
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

METHODS: Final = ("channels/register", "channels/changed", "channels/list")


class ChannelConversation(msgspec.Struct, frozen=True):
    """The conversation of a table of `[channels]`, or of one of its threads."""

    id: str
    name: str
    conversation: str


CHANNEL_CONVERSATIONS: Final = Collection(
    "channel_conversations", ChannelConversation, key="id", columns=("conversation",)
)


class RegisteredChannels:
    """Handles the messages of servers about their own channels (`hub.live.server_messages.MessageHandler`)."""

    def __init__(self, announcements: ChannelAnnouncements) -> None:
        self._announcements = announcements

    async def serve(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage) -> msgspec.Struct:
        """Register, change or list the channels of a connection."""
        params = arrival.params
        if isinstance(params, channels.ChannelsRegister):
            answer = self._put(live, params.channels, arrival)
            await self._announce(live, answer)
            return answer
        if isinstance(params, channels.ChannelsChanged):
            answer = self._put(live, (*params.added, *params.updated), arrival)
            for id_ in params.removed:
                live.channels.pop(id_, None)
            await self._announce(live, answer, params.removed, {each.id for each in params.updated})
            return answer
        return channels.ListResult(tuple(live.channels.values()))

    async def _announce(
        self,
        live: LiveConnection,
        answer: channels.RegisterResult,
        removed: tuple[str, ...] = (),
        updated: Set[str] = frozenset(),
    ) -> None:
        accepted = [live.channels[each.id] for each in answer.results if each.accepted and each.id in live.channels]
        added = tuple(each for each in accepted if each.id not in updated)
        changed = tuple(each for each in accepted if each.id in updated)
        await self._announcements.changed(live, channels.ChannelsChanged(added, removed, changed))

    def _put(
        self, live: LiveConnection, found: tuple[channels.Channel, ...], arrival: AuthorizedMessage
    ) -> channels.RegisterResult:
        results = []
        for channel, refusal in zip(found, arrival.refusals, strict=True):
            if refusal is None and is_full(live, channel.id):
                refusal = Fault("CHANNEL_OPEN_FAILED", f"a server has at most {MAX_OPEN} channels")
            if refusal is None:
                live.channels[channel.id] = channel
            reason = None if refusal is None else refusal.message
            results.append(channels.RegisteredChannel(channel.id, refusal is None, reason))
        return channels.RegisterResult(tuple(results))
