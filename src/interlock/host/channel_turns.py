"""Turns that begin with channel messages or events: their text, their context and their channels. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from interlock.hub.live.events.documents import PendingEvent
from interlock.judge.text import show_hidden
from interlock.protocols.mcpl.channels import hub_channel_id, split_hub_channel_id
from interlock.protocols.mcpl.content import Blocks, TextContent
from interlock.protocols.mcpl.hooks import ChannelContext, ChannelPlace, Injection
from interlock.protocols.mcpl.injections import SourcedInjection

UI: Final = "ui"
"""The terminal, in the list of channels for an answer."""
MAX_PLACES: Final = 4096


def messages_of_people(events: Sequence[PendingEvent]) -> str | None:
    """The messages of people as the user's text; None if there are only events."""
    lines = []
    for event in events:
        texts = [str(block.get("text", "")) for block in event.content if block.get("type") == "text"]
        if event.channel is not None and any(texts):
            name = str(event.origin.get("author", "")).replace(":", " ")
            author = show_hidden(" ".join(name.split()))[:100]
            # Indent continuation lines, so that no text can look like a message of somebody else.
            shown = show_hidden(" ".join(texts)).splitlines()
            lines.append(f"{author}: " + "\n    ".join(shown))
    return "\n".join(lines) or None


def context_of(events: Iterable[PendingEvent]) -> list[SourcedInjection]:
    """The other content: events, and the parts of messages that are not text."""
    found = []
    for event in events:
        content = msgspec.convert(event.content, Blocks, strict=False)
        if event.channel is not None:
            content = tuple(block for block in content if not isinstance(block, TextContent))
        if content:
            found.append(SourcedInjection(event.server, Injection(event.feature_set, "beforeUser", content)))
    return found


class ChannelPlaces:
    """The channels around the newest turn of each conversation."""

    def __init__(self) -> None:
        self._places: OrderedDict[str, tuple[str | None, PendingEvent | None]] = OrderedDict()
        """By conversation: the channel for the answer at the hub, and the newest message."""

    def set(self, conversation: str, publish: str | None, events: Sequence[PendingEvent]) -> None:
        """Note the channels of a turn that begins for these events."""
        newest = next((event for event in reversed(events) if event.channel is not None), None)
        target = publish
        if target is None and newest is not None and newest.channel is not None:
            target = hub_channel_id(newest.server, newest.channel)
        self._places.pop(conversation, None)
        self._places[conversation] = (target, newest)
        while len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)

    def take(self, conversation: str) -> str | None:
        """Forget the channels of a turn that is over. Returns the channel for its answer, by its id at the hub."""
        return self._places.pop(conversation, (None, None))[0]

    def context(self, conversation: str, server: str) -> ChannelContext | None:
        """The channels of a turn for a server: its own channels by its ids, others by the hub's ids."""
        if conversation not in self._places:
            return None
        target, newest = self._places[conversation]
        incoming = outgoing = None
        if newest is not None and newest.channel is not None:
            here = _for(server, hub_channel_id(newest.server, newest.channel))
            thread = newest.origin.get("threadId")
            incoming = ChannelPlace(here, str(newest.origin.get("messageId", "")) or None, thread)
        if target is not None:
            outgoing = ChannelPlace(_for(server, target))
        names = [UI, *([] if outgoing is None else [outgoing.channel_id])]
        return ChannelContext(incoming, outgoing, tuple(names))


def _for(server: str, channel: str) -> str:
    of, own = split_hub_channel_id(channel)
    return own if of == server else channel
