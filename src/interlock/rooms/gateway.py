"""The rooms of one hub: admits connections, follows configuration and access, and performs operators' changes.

Rule: what authorizes is read at every envelope. A key that was revoked, a topic that was closed or a capability that
was taken away holds for the next envelope, whether or not a tick came first.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.config.settings import Rooms as RoomSettings
from interlock.config.settings import Topic as TopicSettings
from interlock.events.types import ResourceUpdated, now_us
from interlock.hub.admin.rooms import (
    ChangeCapabilities,
    ChangedCapabilities,
    ChangedMode,
    ChangeMode,
    ParticipantRow,
    ProposalAnswer,
    RoomRow,
    Ticket,
)
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import Decision
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.own_resources import ROOMS
from interlock.hub.handlers.rooms import RoomResult
from interlock.hub.sessions.session import Session
from interlock.hub.stored.room_capabilities import CapabilityChange, RoomCapabilities, change_id
from interlock.hub.tool_search.room_definitions import ROOM_URI
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import why_bad_participant
from interlock.protocols.mcpx.errors import Reason, Refusal
from interlock.protocols.mcpx.routing import Mode
from interlock.protocols.mcpx.system import INBOX
from interlock.protocols.patterns import PatternError
from interlock.rooms.fulfilment import end_former_proposals
from interlock.rooms.histories import Histories
from interlock.rooms.member import APART, Member, subject_of
from interlock.rooms.policy import GUEST, capabilities_of, check_member, unknown_participant, unknown_topic
from interlock.rooms.tickets import Admitted, Tickets
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.local_participant import LocalParticipant
    from interlock.rooms.proposal_inbox import ProposalInbox
    from interlock.rooms.room import Room
    from interlock.rooms.tool_participants import ToolParticipants
    from interlock.rooms.visitors import Visitors

TICK_S: Final = 1.0
PATH: Final = "/ws"


class Gateway:
    """Every room of a hub (`hub.admin.rooms.RoomGateway`, `hub.handlers.rooms.RoomClients`)."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._rooms: dict[str, Room] = {}
        self._inboxes: dict[str, ProposalInbox] = {}
        """The inbox of each topic that has one."""
        self._applied: RoomSettings = hub_app.config.rooms
        self._applied_servers = hub_app.config.servers
        self._changes = RoomCapabilities()
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[ModuleType] | None = None
        self._tool_participants: ToolParticipants | None = None
        self._visitors: Visitors | None = None
        self._told: dict[str, int] = {}
        """The activity of each topic that subscribers of its resource were told of."""
        self._histories = Histories(hub_app)
        self.tickets = Tickets()

    async def start(self) -> None:
        """Load the changes of capabilities. The hub has started."""
        await self._changes.start(self._hub_app.store, self._on_change)
        await end_former_proposals(self._hub_app)
        await self._histories.load(self._applied)
        self._hub_app.hub.rooms.open(self)
        if (loading := self._load()) is not None:
            await loading
        self._tick()

    def stop(self) -> None:
        """Follow nothing more. The listener closes the connections."""
        if self._timer is not None:
            self._timer.cancel()

    async def close(self) -> None:
        """Store the histories. All connections have ended, and the store is open."""
        await self._histories.close()

    @property
    def rooms(self) -> Iterable[Room]:
        """The topics that somebody joined since the hub started."""
        return self._rooms.values()

    def check_loaded(self) -> None:
        """Raises SERVER_NOT_READY until the WebSocket library is loaded: a hub without topics does without it."""
        self._follow_configuration()
        loading = self._load()
        if loading is not None and not loading.done():
            raise Fault("SERVER_NOT_READY", "rooms are being opened", retry_after_ms=500)

    def admit(self, topic: str, admitted: Admitted, mode: Mode, since: str | None = None) -> Member:
        """Admit a connection that is being upgraded, or a participant in this process. Raises Fault."""
        if (refusal := self._hub_app.refusal) is not None:
            raise refusal[1]
        self._follow_configuration()
        principal = admitted.principal
        settings = check_member(topic, self._applied.topics.get(topic), principal)
        id_ = GUEST + secrets.token_hex(8) if principal is None else principal.id
        if admitted.apart:
            id_ += APART + secrets.token_hex(4)
        if (why := why_bad_participant(id_)) is not None:
            message = f"{id_[:40]!r} cannot be a participant: {why}"
            raise Fault("ACCESS_DENIED", message, hint="use a key with another name")
        room = self._rooms.get(topic)
        if room is None:
            room = self._open_room(topic, settings)
        try:
            capabilities = self.capabilities(topic, subject_of(id_, principal), principal)
            return room.admit(id_, principal, capabilities, mode, since)
        except Refusal as refusal_:
            name = "RATE_LIMITED" if refusal_.reason is Reason.RATE_LIMITED else "RESOURCE_EXHAUSTED"
            raise Fault(name, refusal_.message, hint=refusal_.fix, retry_after_ms=1000) from None

    def _open_room(self, topic: str, settings: TopicSettings) -> Room:
        from interlock.rooms.room import Room

        history = self._histories.of(topic, settings)
        room = self._rooms[topic] = Room(topic, settings, self._hub_app.journal, self._check, history)
        self._seat(room)
        return room

    def _seat(self, room: Room) -> None:
        """Seat the inbox, and the servers that the configuration puts into a topic, and unseat others."""
        from interlock.rooms.proposal_inbox import ProposalInbox
        from interlock.rooms.server_participant import PREFIX, ServerParticipant

        arbitrates = room.settings.proposals == "gateway"
        if arbitrates and INBOX not in room.residents:
            inbox = self._inboxes[room.name] = ProposalInbox(room, self, self._hub_app)
            room.seat(inbox)
        elif not arbitrates and INBOX in room.residents:
            room.unseat(INBOX)
            del self._inboxes[room.name]

        known = self._hub_app.config.servers
        wanted = {PREFIX + name: name for name in room.settings.servers if name in known and known[name].enabled}
        for id_ in room.residents:
            if id_.startswith(PREFIX) and id_ not in wanted:
                room.unseat(id_)
        for id_, name in wanted.items():
            if id_ not in room.residents:
                room.seat(ServerParticipant(room, name, self._hub_app))

    # Participants that join through MCP tools.

    async def perform(
        self, caller: Caller, session: Session | None, name: str, arguments: dict[str, Any]
    ) -> RoomResult:
        """Perform one of the tools for rooms. Raises Fault."""
        return await self._tools().perform(caller, session, name, arguments)

    def describe(self, caller: Caller, session: Session | None, topic: str) -> dict[str, object]:
        """The state of a room, for its resource."""
        return self._tools().describe(caller, session, topic)

    def participants(self, topic: str) -> dict[str, tuple[str, ...]]:
        """Everyone who is in a topic, with their capabilities."""
        room = self._rooms.get(topic)
        return {} if room is None else {one.id: one.capabilities.texts for one in room.participants}

    def _tools(self) -> ToolParticipants:
        self.check_loaded()
        if self._tool_participants is None:
            from interlock.rooms.tool_participants import ToolParticipants

            self._tool_participants = ToolParticipants(self)
        return self._tool_participants

    def visitors(self) -> Visitors:
        """Principals that watch topics and speak there through operations."""
        if self._visitors is None:
            from interlock.rooms.visitors import Visitors

            self._visitors = Visitors(self)
        return self._visitors

    def _tell_subscribers(self) -> None:
        """Tell subscribers of the resources of rooms that something happened since the last tick."""
        bus = self._hub_app.bus
        for name, room in self._rooms.items():
            if self._told.get(name, 0) != room.activity and bus.wants(ResourceUpdated):
                self._told[name] = room.activity
                bus.publish(ResourceUpdated(ROOMS, bus.next(), now_us(), ROOM_URI + name))

    def join_locally(self, topic: str, by: Principal, *, apart: bool = True) -> LocalParticipant:
        """Join a topic in this process: `apart`, or under the principal's own id if nobody has it. Raises Fault."""
        from interlock.rooms.local_participant import LocalParticipant

        taken = apart or by.id in self.participants(topic)
        return LocalParticipant(self.admit(topic, Admitted(by, apart=taken), Mode.DIRECTED))

    async def answer_proposal(self, by: Principal, decision: Decision, given: ProposalAnswer) -> msgspec.Raw | None:
        """Fulfil or reject a proposal in a person's name. Returns the payload of the response, if one came in time."""
        inbox = self._inboxes.get(decision.question.server.removeprefix("room:"))
        if decision.question.node != self._hub_app.node or inbox is None:
            raise Fault("INVALID_PARAMS", f"the room of decision {decision.id} is not at this hub")
        response = await inbox.answer(by, decision, given, wait=True)
        return None if response is None else msgspec.Raw(response.payload)

    # Operations.

    def rows(self, topic: str | None) -> list[RoomRow]:
        """The topics with their participants."""
        self._follow_configuration()
        if topic is not None and topic not in self._applied.topics:
            raise unknown_topic(topic)
        return [self._row(name) for name in self._applied.topics if topic in (None, name)]

    async def change_capabilities(self, by: Principal, params: ChangeCapabilities, trace: str) -> ChangedCapabilities:
        """Change what a participant may send, and store that."""
        topic, id_ = self._topic_of(params), params.id
        old = self._current(topic, id_)
        if missing := [text for text in params.remove if text not in old.texts]:
            hint = f"it has {', '.join(old.texts)}" if old.texts else "it has none"
            raise Fault("INVALID_PARAMS", f"{id_!r} does not have the capability {missing[0][:100]!r}", hint=hint)
        before = self._changes.get(topic, id_)
        added = (*(() if before is None else before.added), *params.add)
        removed = (*(() if before is None else before.removed), *params.remove)
        change = CapabilityChange(
            change_id(topic, id_),
            topic,
            id_,
            tuple(dict.fromkeys(text for text in added if text not in params.remove)),
            tuple(dict.fromkeys(text for text in removed if text not in params.add)),
            by.id,
            datetime.now(UTC),
        )
        try:
            CapabilitySet((*(text for text in old.texts if text not in params.remove), *params.add))
        except PatternError as cause:
            raise Fault("INVALID_PARAMS", str(cause), hint="see docs/rooms-protocol.md, Capabilities") from None
        record = self._hub_app.journal.room_capabilities(by, topic, id_, params.add, params.remove, trace)
        await self._changes.put(change, record)
        new = self._current(topic, id_)
        return ChangedCapabilities(id_, topic, list(old.texts), list(new.texts), by.id, change.at)

    def change_mode(self, params: ChangeMode) -> ChangedMode:
        """Choose which envelopes a connected participant receives, from the next one on."""
        topic = self._topic_of(params)
        room = self._rooms.get(topic)
        members = [one for one in (() if room is None else room.members) if one.subject == params.id]
        if room is None or not members:
            raise unknown_participant(params.id, topic)
        for member in members:
            room.route(member.id, Mode(params.mode))
        return ChangedMode(params.id, topic, params.mode)

    def ticket(self, by: Principal, topic: str, apart: bool) -> Ticket:
        """Admit the hub's user to a topic. Whether it may join is judged when it does."""
        if topic not in self._hub_app.config.rooms.topics:
            raise unknown_topic(topic)
        url = f"ws://{self._hub_app.listen}{PATH}?topic={topic}"
        return Ticket(self.tickets.make(Admitted(by, apart), topic), topic, url)

    def _load(self) -> asyncio.Task[ModuleType] | None:
        """Load what rooms need on a thread, once there is a topic. None where there is none."""
        if self._loading is None and self._applied.topics:
            # It needs all the others.
            work = asyncio.to_thread(import_module, "interlock.rooms.tool_participants")
            self._loading = asyncio.create_task(work, name="load rooms")
        return self._loading

    def _row(self, name: str) -> RoomRow:
        settings, room = self._applied.topics[name], self._rooms.get(name)
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
        self._follow_configuration()
        if params.topic is not None:
            if params.topic not in self._applied.topics:
                raise unknown_topic(params.topic)
            return params.topic
        rooms = self._rooms.values()
        found = [room.name for room in rooms if any(member.subject == params.id for member in room.members)]
        if len(found) != 1:
            hint = f"name the topic with --topic: {', '.join(sorted(found) or self._applied.topics)}"
            raise Fault("INVALID_PARAMS", f"{params.id!r} is in {len(found)} topics", hint=hint)
        return found[0]

    def _current(self, topic: str, id: str) -> CapabilitySet:
        """The capabilities of a participant, connected or not. Raises NOT_FOUND for an unknown one."""
        room = self._rooms.get(topic)
        for member in () if room is None else room.members:
            if member.subject == id:
                return self.capabilities(topic, id, member.principal)
        settings = self._applied.topics[topic]
        if id not in settings.members and self._changes.get(topic, id) is None:
            raise unknown_participant(id, topic)
        return self.capabilities(topic, id, Principal(id, self._hub_app.access.kind_of(id)))

    # Authority.

    def capabilities(self, topic: str, id: str, principal: Principal | None) -> CapabilitySet:
        """The capabilities of a participant, connected or not."""
        rooms = self._applied
        try:
            return capabilities_of(rooms.topics[topic], rooms.profiles, principal, self._changes.get(topic, id))
        except PatternError:
            # A profile of today and a change of yesterday can be too much together.
            return CapabilitySet(())

    def _check(self, member: Member) -> None:
        """Called for every envelope. Raises Refusal where nothing can be judged; ends a participant without access."""
        if self._hub_app.config.rooms is not self._applied:
            self._follow_configuration()
        if (refusal := self._hub_app.refusal) is not None:
            raise Refusal(Reason.UNAVAILABLE, refusal[1].message, "Send it again in a moment.")
        if not member.gone:
            self._check_access(member)

    def _check_access(self, member: Member) -> None:
        principal = member.principal
        if principal is not None and self._hub_app.access.rights(principal) is None:
            member.expel("The key was revoked or has expired.", "Connect with a valid key.")

    def _follow_configuration(self) -> None:
        """Apply a configuration that was read again."""
        config = self._hub_app.config
        rooms = config.rooms
        if rooms is self._applied and config.servers is self._applied_servers:
            return
        self._applied, self._applied_servers = rooms, config.servers
        self._load()
        for name, room in list(self._rooms.items()):
            settings = rooms.topics.get(name)
            if settings is None:
                del self._rooms[name]
                for member in room.members:
                    member.expel("The topic was closed.", "Ask the operator for another topic.")
                room.close()
                self._histories.forget(name)
                self._inboxes.pop(name, None)
                continue
            room.govern(settings, self._histories.of(name, settings))
            self._seat(room)
            for member in room.members:
                try:
                    check_member(name, settings, member.principal)
                except Fault:
                    member.expel("You are no member of the topic any more.", "Ask the operator.")
                else:
                    room.grant(member.id, self.capabilities(name, member.subject, member.principal))

    def _on_change(self, topic: str, participant: str) -> None:
        """A change of capabilities was stored, here or by another hub."""
        room = self._rooms.get(topic)
        if room is None or topic not in self._applied.topics:
            return
        for member in room.members:
            if member.subject == participant:
                room.grant(member.id, self.capabilities(topic, participant, member.principal))

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self._follow_configuration()
        for room in list(self._rooms.values()):
            for member in room.members:
                self._check_access(member)
            room.tick()
        if self._tool_participants is not None:
            self._tool_participants.tick()
        if self._visitors is not None:
            self._visitors.tick()
        self._tell_subscribers()
        self._histories.tick()
