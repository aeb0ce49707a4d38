"""Operations on the channels of servers (MCPL): list, open and close them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.hub.admin.operation import Nothing, Text
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.live.channel_requests import close_channel, open_channel
from interlock.hub.live.connection import LiveConnection
from interlock.protocols.mcpl import channels
from interlock.protocols.patterns import compile_pattern
from interlock.wire.errors import Fault


class ChannelRow(msgspec.Struct):
    """A channel that a server registered."""

    id: str
    """`server/channel`."""
    type: str
    label: str
    direction: str
    table: str
    """The table of `[channels]` that takes its messages; empty for none."""


class ChannelRows(msgspec.Struct):
    """Channels, by id."""

    channels: list[ChannelRow]


class OpenChannel(msgspec.Struct):
    """The channel that a server shall open."""

    server: Text
    type: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    address: dict[str, Any] = {}
    """Where it is, as the server wants it: `{"channel": "#general"}`."""


class CloseChannel(msgspec.Struct):
    """A channel."""

    id: Text
    """`server/channel`."""


class Closed(msgspec.Struct):
    """Whether the server closed it."""

    closed: bool


class ChannelOperations:
    """The operations on the channels of one hub's servers."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def list(self, by: Principal, params: Nothing, trace: str) -> ChannelRows:
        """The channels of all servers."""
        found = self._hub_app.live.connections.all()
        rows = {row.id: row for live in found for row in [self._row(live, each) for each in live.channels.values()]}
        return ChannelRows([rows[id_] for id_ in sorted(rows)])

    async def open(self, by: Principal, params: OpenChannel, trace: str) -> ChannelRow:
        """Have a server open a channel. Raises CHANNEL_OPEN_FAILED, or another refusal."""
        live = self._live(params.server)
        channel = await open_channel(live, live.state, channels.ChannelsOpen(params.type, params.address))
        return self._row(live, channel)

    async def close(self, by: Principal, params: CloseChannel, trace: str) -> Closed:
        """Have a server close a channel."""
        try:
            server, channel = channels.split_hub_channel_id(params.id)
        except ValueError as wrong:
            raise Fault("INVALID_PARAMS", str(wrong)) from None
        live = self._live(server)
        return Closed((await close_channel(live, live.state, channel)).closed)

    def _live(self, server: str) -> LiveConnection:
        live = self._hub_app.live.connections.shared(server)
        if live is None:
            hint = "`interlock features list` shows servers that do"
            raise Fault("NOT_FOUND", f"{server[:100]!r} is no server that speaks MCPL", hint=hint)
        return live

    def _row(self, live: LiveConnection, channel: channels.Channel) -> ChannelRow:
        id_ = channels.hub_channel_id(live.server, channel.id)
        return ChannelRow(id_, channel.type, channel.label, channel.direction, self._table_of(id_))

    def _table_of(self, id: str) -> str:
        for name, table in self._hub_app.config.channels.items():
            if any(compile_pattern(each).matches(id) for each in table.incoming):
                return name
        return ""
