"""Channels that servers registered (MCPL, Channels of Communication), and which conversation goes on in each.

A channel's id is unique on its connection. At the hub it is `server/channel`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.live.connection import LiveConnection
from interlock.protocols.mcpl import channels
from interlock.protocols.mcpl.authorization import Arrival
from interlock.store import Collection
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
    """Takes the messages of servers about their own channels (`hub.live.connections.Handler`)."""

    async def serve(self, live: LiveConnection, request: Request, arrival: Arrival) -> msgspec.Struct:
        """Register, change or list the channels of a connection."""
        said = arrival.params
        if isinstance(said, channels.Register):
            return self._put(live, said.channels, arrival)
        if isinstance(said, channels.Changed):
            answer = self._put(live, (*said.added, *said.updated), arrival)
            for id_ in said.removed:
                live.channels.pop(id_, None)
            return answer
        return channels.ListResult(tuple(live.channels.values()))

    def _put(
        self, live: LiveConnection, found: tuple[channels.Channel, ...], arrival: Arrival
    ) -> channels.RegisterResult:
        results = []
        for channel, refusal in zip(found, arrival.refusals, strict=True):
            if refusal is None:
                live.channels[channel.id] = channel
            reason = None if refusal is None else refusal.message
            results.append(channels.Registered(channel.id, refusal is None, reason))
        return channels.RegisterResult(tuple(results))
