"""Operations on topics: rows for operators, changes of capabilities and modes, and tickets."""

from __future__ import annotations

from typing import Final

from interlock.hub.admin.rooms import (
    ChangeCapabilities,
    ChangedCapabilities,
    ChangedMode,
    ChangeMode,
    ParticipantRow,
    RoomRow,
    RoomTicket,
)
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpx.capabilities import CapabilitySet, check_usable
from interlock.protocols.mcpx.routing import ReceiveMode
from interlock.protocols.patterns import PatternError
from interlock.rooms.policy import unknown_participant, unknown_topic
from interlock.rooms.tickets import Admission, Tickets
from interlock.rooms.topics import Topics
from interlock.wire.errors import Fault

PATH: Final = "/ws"


class TopicOperations:
    """The operations on the topics of one hub."""

    def __init__(self, hub_app: HubApp, topics: Topics, tickets: Tickets) -> None:
        self._hub_app = hub_app
        self._topics = topics
        self._tickets = tickets

    def rows(self, topic: str | None) -> list[RoomRow]:
        """The topics with their participants."""
        self._topics.follow_configuration()
        if topic is not None and topic not in self._topics.settings.topics:
            raise unknown_topic(topic)
        return [self._row(name) for name in self._topics.settings.topics if topic in (None, name)]

    async def change_capabilities(self, by: Principal, params: ChangeCapabilities, trace: str) -> ChangedCapabilities:
        """Change what a participant may send, and store that."""
        topic, id_ = self._topic_of(params), params.id
        old = self._current(topic, id_)
        if missing := [text for text in params.remove if text not in old.texts]:
            hint = f"it has {', '.join(old.texts)}" if old.texts else "it has none"
            raise Fault("INVALID_PARAMS", f"{id_!r} does not have the capability {missing[0][:100]!r}", hint=hint)
        try:
            CapabilitySet((*(text for text in old.texts if text not in params.remove), *params.add))
            check_usable(params.add)
        except PatternError as cause:
            raise Fault("INVALID_PARAMS", str(cause), hint="see docs/rooms-protocol.md, Capabilities") from None
        record = self._hub_app.journal.room_capabilities(by, topic, id_, params.add, params.remove, trace)
        change = await self._topics.changes.change(topic, id_, params.add, params.remove, by.id, record)
        new = self._current(topic, id_)
        return ChangedCapabilities(id_, topic, list(old.texts), list(new.texts), by.id, change.at)

    def change_mode(self, params: ChangeMode) -> ChangedMode:
        """Choose which envelopes a connected participant receives, from the next one on."""
        topic = self._topic_of(params)
        room = self._topics.rooms.get(topic)
        members = [one for one in (() if room is None else room.members) if one.subject == params.id]
        if room is None or not members:
            raise unknown_participant(params.id, topic)
        for member in members:
            room.route(member.id, ReceiveMode(params.mode))
        return ChangedMode(params.id, topic, params.mode)

    def ticket(self, by: Principal, topic: str, separate: bool) -> RoomTicket:
        """A ticket for the hub's user. Joining with it checks whether the user may."""
        if topic not in self._hub_app.config.rooms.topics:
            raise unknown_topic(topic)
        url = f"ws://{self._hub_app.listen}{PATH}?topic={topic}"
        return RoomTicket(self._tickets.make(Admission(by, separate), topic), topic, url)

    def _row(self, name: str) -> RoomRow:
        settings, room = self._topics.settings.topics[name], self._topics.rooms.get(name)
        rows = []
        for member in () if room is None else room.members:
            participant = None if room is None else room.participant(member.id)
            if participant is not None:
                texts = list(participant.capabilities.texts)
                rows.append(ParticipantRow(member.id, texts, participant.mode.value, member.connected_at))
        proposals = 0 if room is None else room.open_proposals
        servers = list(settings.servers)
        return RoomRow(name, settings.visibility, settings.strict, settings.proposals, proposals, servers, rows)

    def _topic_of(self, params: ChangeCapabilities | ChangeMode) -> str:
        self._topics.follow_configuration()
        if params.topic is not None:
            if params.topic not in self._topics.settings.topics:
                raise unknown_topic(params.topic)
            return params.topic
        rooms = self._topics.rooms.values()
        found = [room.name for room in rooms if any(member.subject == params.id for member in room.members)]
        if len(found) != 1:
            hint = f"name the topic with --topic: {', '.join(sorted(found) or self._topics.settings.topics)}"
            where = "several topics" if found else "no topic at the moment"
            raise Fault("INVALID_PARAMS", f"{params.id!r} is in {where}", hint=hint)
        return found[0]

    def _current(self, topic: str, id: str) -> CapabilitySet:
        """The capabilities of a participant, connected or not. Raises NOT_FOUND for an unknown one."""
        room = self._topics.rooms.get(topic)
        for member in () if room is None else room.members:
            if member.subject == id:
                return self._topics.capabilities(topic, id, member.principal)
        settings = self._topics.settings.topics[topic]
        if id not in settings.members and self._topics.changes.get(topic, id) is None:
            raise unknown_participant(id, topic)
        return self._topics.capabilities(topic, id, Principal(id, self._hub_app.access.kind_of(id)))
