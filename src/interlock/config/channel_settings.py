"""The settings of `[channels]`: conversations that go on where people and events are."""

from __future__ import annotations

import msgspec


class ChannelWebhookSettings(msgspec.Struct, frozen=True):
    """`[channels.NAME.webhook]`: an address of yours that gets the answers of a conversation too, besides the channel
    that they go to. Signed as Standard Webhooks says, and sent again if it is not taken."""

    url: str | None = None
    """The address; unset: none. Redirects are not followed."""
    secret_env: str = "INTERLOCK_CHANNELS_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable of the hub with the signing secret: base64 of 24 bytes or more, with or without
    `whsec_` before it."""


class ChannelSettings(msgspec.Struct, frozen=True):
    """`[channels.NAME]`: a conversation of one agent that begins turns by itself: for messages of channels that servers
    register, and for everything else that wakes the agent. Which of them wake is in `[live.rules]`. See
    [Host](host.md#channels)."""

    agent: str = ""
    """The agent whose rights the conversation has. Its events go to the conversation."""
    incoming: tuple[str, ...] = ()
    """Channels whose messages belong to this conversation, as patterns over `server/channel` (`chat/**`). Of
    several tables the first that matches takes a message; the agent's first table takes all other events."""
    room: str | None = None
    """A topic of `[rooms]` that the agent joins: chats that are addressed to it begin turns, and get the answers there.
    It holds from the next start of the hub."""
    threads: bool = False
    """Whether each thread of a channel is a conversation of its own."""
    publish: str | None = None
    """The channel that answers go to, as `server/channel`; unset: the one that the newest message came from."""
    webhook: ChannelWebhookSettings = ChannelWebhookSettings()
    model: str | None = None
    """Its model; unset: as in `[host]`."""
