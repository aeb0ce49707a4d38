"""Channels (MCPL, Channels of Communication): descriptors, messages about them, and the hub's channel ids."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from interlock.protocols.mcpl.content import Blocks, Content
from interlock.protocols.mcpl.decoding import Count, Line, Name, Object, Value
from interlock.protocols.mcpl.events import Tags, check_tags, check_timestamp

MAX_CHANNELS: Final = 256
"""Descriptors in one message."""
MAX_MESSAGES: Final = 256
"""Messages in one `channels/incoming`."""


class Channel(Value, frozen=True):
    """A channel descriptor. Its id is unique within its connection."""

    id: Name
    type: Name
    label: Line
    direction: Literal["outbound", "inbound", "bidirectional"]
    address: Object = msgspec.field(default_factory=dict)
    metadata: Object = msgspec.field(default_factory=dict)


Descriptors: TypeAlias = Annotated[tuple[Channel, ...], msgspec.Meta(max_length=MAX_CHANNELS)]


class ChannelsRegister(Value, frozen=True):
    """The params of `channels/register`."""

    channels: Descriptors


class ChannelsChanged(Value, frozen=True):
    """The params of `channels/changed`."""

    added: Descriptors = ()
    removed: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_CHANNELS)] = ()
    updated: Descriptors = ()


class RegisteredChannel(Value, frozen=True):
    """The result for one descriptor."""

    id: str
    accepted: bool
    reason: Line | None = None


class RegisterResult(Value, frozen=True):
    """The answer to `channels/register`, and to `channels/changed` where it is a request: one entry per descriptor."""

    results: tuple[RegisteredChannel, ...]


class ListResult(Value, frozen=True):
    """The answer to `channels/list`."""

    channels: Descriptors


class ChannelHistory(Value, frozen=True):
    """The number of earlier messages that are wanted with an opened channel."""

    limit: Count
    before_message_id: Name | None = None


class ChannelsOpen(Value, frozen=True):
    """The params of `channels/open`."""

    type: Name
    address: Object
    channel_id: Name | None = None
    metadata: Object = msgspec.field(default_factory=dict)
    history: ChannelHistory | None = None


class OpenResult(Value, frozen=True):
    """The answer to `channels/open`."""

    channel: Channel


class ChannelsClose(Value, frozen=True):
    """The params of `channels/close`."""

    channel_id: Name


class CloseResult(Value, frozen=True):
    """The answer to `channels/close`."""

    closed: bool


class OutgoingChunk(Value, frozen=True):
    """The params of `channels/outgoing/chunk`: moderated text, for observers. It delivers nothing."""

    inference_id: Name
    conversation_id: Name
    channel_id: Name
    index: Count
    delta: str


class OutgoingComplete(Value, frozen=True):
    """The params of `channels/outgoing/complete`."""

    inference_id: Name
    conversation_id: Name
    channel_id: Name
    content: Blocks


class Publish(Value, frozen=True, omit_defaults=False):
    """The params of `channels/publish`, the one message that delivers."""

    conversation_id: Name
    channel_id: Name
    content: Content
    stream: bool = False


class PublishResult(Value, frozen=True):
    """The answer to `channels/publish` where it is a request."""

    delivered: bool
    message_id: Name | None = None


class ChannelAuthor(Value, frozen=True):
    """The author of a message, as the server claims."""

    id: Name
    name: str = ""


class IncomingMessage(Value, frozen=True):
    """One message from a channel."""

    channel_id: Name
    message_id: Name
    author: ChannelAuthor
    timestamp: str
    content: Content
    thread_id: Name | None = None
    metadata: Object = msgspec.field(default_factory=dict)
    tags: Tags = ()

    def __post_init__(self) -> None:
        check_timestamp(self.timestamp)
        check_tags(self.tags)


class ChannelsIncoming(Value, frozen=True):
    """The params of `channels/incoming`."""

    messages: Annotated[tuple[IncomingMessage, ...], msgspec.Meta(min_length=1, max_length=MAX_MESSAGES)]


class ReceivedResult(Value, frozen=True):
    """The result for one incoming message."""

    message_id: str
    accepted: bool
    conversation_id: str | None = None
    reason: Line | None = None


class IncomingResult(Value, frozen=True):
    """The answer to `channels/incoming`: one entry per message."""

    results: tuple[ReceivedResult, ...]


class Typing(Value, frozen=True):
    """The params of `channels/typing` (0.5)."""

    channel_id: Name


class Acknowledge(Value, frozen=True):
    """The params of `channels/acknowledge` (0.5): a message was seen."""

    channel_id: Name
    message_id: Name
    intent: str = "seen"
    value: str | None = None


class AcknowledgeResult(Value, frozen=True):
    """The answer to `channels/acknowledge`."""

    acknowledged: bool
    representation: str | None = None
    reason: Line | None = None


def hub_channel_id(server: str, channel: str) -> str:
    """A channel's id at the hub. Server ids contain no `/`, so the first one is the separator."""
    return f"{server}/{channel}"


def split_hub_channel_id(text: str) -> tuple[str, str]:
    """Server and channel in a channel id of the hub. Raises ValueError for any other text."""
    server, found, channel = text.partition("/")
    if not (server and found and channel):
        raise ValueError("a channel's id at the hub is `server/channel`")
    return server, channel
