"""The tables of `[channels]`: which of them takes the messages of a channel, and the stored conversation of each."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.config.channel_settings import ChannelSettings
from interlock.host.turn_starter import TurnStarter
from interlock.hub.admin.agents import principal_of
from interlock.hub.app import HubApp
from interlock.hub.live.channels import CHANNEL_CONVERSATIONS, ChannelConversation
from interlock.protocols.mcpl.channels import hub_channel_id
from interlock.protocols.patterns import compile_pattern
from interlock.wire.errors import Fault


class ChannelTables:
    """The tables of the configuration in force."""

    def __init__(self, hub_app: HubApp, host: TurnStarter) -> None:
        self._hub_app = hub_app
        self._host = host

    @property
    def all(self) -> Mapping[str, ChannelSettings]:
        """Every table, by its name."""
        return self._hub_app.config.channels

    def has(self, agent: str) -> bool:
        """Whether an agent has a table."""
        return any(table.agent == agent for table in self.all.values())

    def of(self, server: str, channel: str) -> tuple[str, ChannelSettings]:
        """The table of `[channels]` for a channel. Raises CHANNEL_NOT_PERMITTED."""
        place = hub_channel_id(server, channel)
        for name, table in self.all.items():
            if any(compile_pattern(pattern).matches(place) for pattern in table.incoming):
                return name, table
        hint = f'add [channels.NAME] with incoming = ["{place}"]'
        raise Fault("CHANNEL_NOT_PERMITTED", "no conversation takes messages of this channel", hint=hint)

    async def conversation(self, name: str, table: ChannelSettings, thread: str | None) -> str:
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
