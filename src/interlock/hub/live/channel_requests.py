"""Requests of a host to a server's channels: open, close, publish, observe. The rights are those of the asker.

The asker is the operator, a conversation of the hub, or a client that is a host itself.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.live.connection import LiveConnection
from interlock.protocols.mcpl import channels
from interlock.protocols.mcpl.authorization import check_outgoing
from interlock.protocols.mcpl.capabilities import CHANNELS_PUBLISH, CHANNELS_REGISTER
from interlock.protocols.mcpl.decoding import Value
from interlock.protocols.mcpl.errors import channel_not_permitted, unknown_channel
from interlock.protocols.mcpl.grants import THINKING
from interlock.protocols.mcpl.states import McplConnection
from interlock.wire.errors import Fault
from interlock.wire.visible_text import reorders

OPEN: Final = "channels/open"
CLOSE: Final = "channels/close"
PUBLISH: Final = "channels/publish"
ANSWER_S: Final = 30.0
MAX_OPEN: Final = 1_024
"""Channels of one connection to a server."""


def is_full(live: LiveConnection, channel: str) -> bool:
    """Whether one more channel would exceed the server's limit. A known channel never does."""
    return channel not in live.channels and len(live.channels) >= MAX_OPEN


async def open_channel(live: LiveConnection, rights: McplConnection, wanted: channels.ChannelsOpen) -> channels.Channel:
    """Ask a server to open a channel. Raises CHANNEL_OPEN_FAILED, or another refusal."""
    check_outgoing(rights, OPEN)
    channel = (await live.ask(OPEN, wanted, channels.OpenResult, ANSWER_S)).channel
    if reorders(channel.id) or not rights.active.grant.allows_channel(CHANNELS_REGISTER, channel.id):
        raise channel_not_permitted("", CHANNELS_REGISTER)  # the id is the server's text
    if is_full(live, channel.id):
        raise Fault("CHANNEL_OPEN_FAILED", f"a server has at most {MAX_OPEN} channels", hint="close some of them")
    live.channels[channel.id] = channel
    return channel


async def close_channel(live: LiveConnection, rights: McplConnection, channel: str) -> channels.CloseResult:
    """Ask a server to close a channel. Raises UNKNOWN_CHANNEL."""
    if channel not in live.channels:
        raise unknown_channel(channel)
    check_outgoing(rights, CLOSE, channel=channel)
    result = await live.ask(CLOSE, channels.ChannelsClose(channel), channels.CloseResult, ANSWER_S)
    if result.closed:
        live.channels.pop(channel, None)
    return result


def check_publish(live: LiveConnection, rights: McplConnection, channel: str) -> None:
    """Refuse content that its server may not publish. Raises CHANNEL_NOT_PERMITTED or UNKNOWN_CHANNEL."""
    if channel == THINKING:
        raise channel_not_permitted(channel, CHANNELS_PUBLISH)
    if channel not in live.channels:
        raise unknown_channel(channel)
    check_outgoing(rights, PUBLISH, channel=channel)


async def publish(live: LiveConnection, publication: channels.Publish) -> channels.PublishResult:
    """Deliver content to a channel, after `check_publish`."""
    return await live.ask(PUBLISH, publication, channels.PublishResult, ANSWER_S)


def announce(live: LiveConnection, publication: channels.Publish) -> None:
    """Deliver content to a channel without an answer, after `check_publish`."""
    live.connection.tell(PUBLISH, msgspec.json.encode(publication))


def tell(
    live: LiveConnection, rights: McplConnection, method: str, channel: str, params: Value, *, own: bool = True
) -> None:
    """Notify an observer of a channel, if it may observe it. Delivery is not guaranteed.

    The scopes of a server name its own channels. Only the operator names channels of other servers, which the caller
    checks.
    """
    if own and channel != THINKING and channel not in live.channels:
        return
    try:
        check_outgoing(rights, method, channel=channel if own else None, notification=True)
        live.connection.tell(method, msgspec.json.encode(params))
    except Fault:
        return
