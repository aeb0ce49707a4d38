"""The topics of one hub: applies configuration and access changes, admits participants, and opens rooms.

Rule: keys, topics and capabilities are checked for every envelope, so that a change holds from the next envelope on.
"""

from __future__ import annotations

import asyncio
import secrets
from importlib import import_module
from typing import TYPE_CHECKING

from interlock.config.settings import RoomSettings, TopicSettings
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import why_bad_participant
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.routing import ReceiveMode
from interlock.protocols.mcpx.system import INBOX
from interlock.protocols.patterns import PatternError
from interlock.rooms.capability_changes import RoomCapabilities
from interlock.rooms.given_texts import GivenTexts
from interlock.rooms.histories import Histories
from interlock.rooms.member import EXTRA_CONNECTION, RoomMember, subject_of
from interlock.rooms.policy import GUEST, capabilities_of, check_member
from interlock.rooms.tickets import Admission
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.local_participant import LocalParticipant
    from interlock.rooms.proposal_inbox import ProposalInbox
    from interlock.rooms.room import Room


class Topics:
    """Every topic of the configuration, with a room for each that somebody joined (`proposal_inbox.InboxTopics`)."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self.settings: RoomSettings = hub_app.config.rooms
        """The configuration that is applied."""
        self._servers = hub_app.config.servers
        self.rooms: dict[str, Room] = {}
        """The topics that somebody joined since the hub started."""
        self.inboxes: dict[str, ProposalInbox] = {}
        """The inbox of each topic that has one."""
        self.changes = RoomCapabilities()
        self.histories = Histories(hub_app)
        self.given_texts = GivenTexts(hub_app)
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load histories, changes of capabilities and the modules of rooms. Called after the hub has started."""
        await self.changes.start(self._hub_app.store, self._on_change)
        await self.histories.load(self.settings)
        if (loading := self._load()) is not None:
            await loading

    def tick(self) -> None:
        """Apply the configuration, end participants without access, and call `tick` of every room."""
        self.follow_configuration()
        for room in list(self.rooms.values()):
            for member in room.members:
                self._check_access(member)
            room.tick()
        self.histories.tick()

    def check_loaded(self) -> None:
        """Raise SERVER_NOT_READY until the WebSocket library is loaded. A hub without topics does not load it."""
        self.follow_configuration()
        loading = self._load()
        if loading is not None and not loading.done():
            raise Fault("SERVER_NOT_READY", "rooms are being opened", retry_after_ms=500)

    def admit(self, topic: str, admitted: Admission, mode: ReceiveMode, since: str | None = None) -> RoomMember:
        """Admit a connection that is being upgraded, or a participant in this process. Raises Fault."""
        if (refusal := self._hub_app.refusal) is not None:
            raise refusal[1]
        self.follow_configuration()
        principal = admitted.principal
        settings = check_member(topic, self.settings.topics.get(topic), principal)
        id_ = GUEST + secrets.token_hex(8) if principal is None else principal.id
        if admitted.separate:
            id_ += EXTRA_CONNECTION + secrets.token_hex(4)
        if (why := why_bad_participant(id_)) is not None:
            message = f"{id_[:40]!r} cannot be a participant: {why}"
            raise Fault("ACCESS_DENIED", message, hint="use a key with another name")
        room = self.rooms.get(topic)
        if room is None:
            room = self._open(topic, settings)
        try:
            capabilities = self.capabilities(topic, subject_of(id_, principal), principal)
            return room.admit(id_, principal, capabilities, mode, since)
        except EnvelopeRefused as refusal_:
            name = "RATE_LIMITED" if refusal_.reason is RefusalReason.RATE_LIMITED else "RESOURCE_EXHAUSTED"
            raise Fault(name, refusal_.message, hint=refusal_.fix, retry_after_ms=1000) from None

    def join_locally(self, topic: str, by: Principal, *, separate: bool = True) -> LocalParticipant:
        """Join a topic in this process: separately, or under the principal's own id if nobody has it. Raises Fault."""
        from interlock.rooms.local_participant import LocalParticipant

        taken = separate or by.id in self.participants(topic)
        return LocalParticipant(self.admit(topic, Admission(by, separate=taken), ReceiveMode.DIRECTED))

    def participants(self, topic: str) -> dict[str, tuple[str, ...]]:
        """Everyone who is in a topic, with their capabilities."""
        room = self.rooms.get(topic)
        return {} if room is None else {one.id: one.capabilities.texts for one in room.participants}

    def capabilities(self, topic: str, id: str, principal: Principal | None) -> CapabilitySet:
        """The capabilities of a participant, connected or not."""
        rooms = self.settings
        try:
            return capabilities_of(rooms.topics[topic], rooms.profiles, principal, self.changes.get(topic, id))
        except PatternError:
            # A stored change and a newer profile can exceed the limits together.
            return CapabilitySet(())

    def follow_configuration(self) -> None:
        """Apply a configuration that was read again."""
        config = self._hub_app.config
        rooms = config.rooms
        if rooms is self.settings and config.servers is self._servers:
            return
        self.settings, self._servers = rooms, config.servers
        self._load()
        self.histories.apply(rooms)
        for name, room in list(self.rooms.items()):
            settings = rooms.topics.get(name)
            if settings is None:
                del self.rooms[name]
                for member in room.members:
                    member.expel("The topic was closed.", "Ask the operator for another topic.")
                room.close()
                self.inboxes.pop(name, None)
                continue
            room.apply_settings(settings, self.histories.of(name, settings))
            self._place_internal(room)
            for member in room.members:
                try:
                    check_member(name, settings, member.principal)
                except Fault:
                    member.expel("You are no longer a member of the topic.", "Ask the operator.")
                else:
                    room.grant(member.id, self.capabilities(name, member.subject, member.principal))

    def _check(self, member: RoomMember) -> None:
        """Check a member before each envelope: end it without access, raise EnvelopeRefused if the hub cannot judge."""
        if self._hub_app.config.rooms is not self.settings:
            self.follow_configuration()
        if (refusal := self._hub_app.refusal) is not None:
            raise EnvelopeRefused(RefusalReason.UNAVAILABLE, refusal[1].message, "Send it again in a moment.")
        if not member.gone:
            self._check_access(member)

    def _check_access(self, member: RoomMember) -> None:
        principal = member.principal
        if principal is not None and self._hub_app.access.rights(principal) is None:
            member.expel("The key was revoked or has expired.", "Connect with a valid key.")

    def _on_change(self, topic: str, participant: str) -> None:
        """Apply a change of capabilities that this or another hub stored."""
        room = self.rooms.get(topic)
        if room is None or topic not in self.settings.topics:
            return
        for member in room.members:
            if member.subject == participant:
                room.grant(member.id, self.capabilities(topic, participant, member.principal))

    def _open(self, topic: str, settings: TopicSettings) -> Room:
        from interlock.rooms.room import Room

        history = self.histories.of(topic, settings)
        room = self.rooms[topic] = Room(topic, settings, self._hub_app.journal, self._check, self.given_texts, history)
        self._place_internal(room)
        return room

    def _place_internal(self, room: Room) -> None:
        """Add the inbox and the servers that the configuration names for a topic, and remove others."""
        from interlock.rooms.hub_tool_server import PREFIX, HubToolServer
        from interlock.rooms.proposal_inbox import ProposalInbox

        arbitrates = room.settings.proposals == "gateway"
        if arbitrates and INBOX not in room.internal_ids:
            inbox = self.inboxes[room.name] = ProposalInbox(room, self, self._hub_app)
            room.add_internal(inbox)
        elif not arbitrates and INBOX in room.internal_ids:
            room.remove_internal(INBOX)
            del self.inboxes[room.name]

        known = self._hub_app.config.servers
        wanted = {PREFIX + name: name for name in room.settings.servers if name in known and known[name].enabled}
        for id_ in room.internal_ids:
            if id_.startswith(PREFIX) and id_ not in wanted:
                room.remove_internal(id_)
        for id_, name in wanted.items():
            if id_ not in room.internal_ids:
                room.add_internal(HubToolServer(room, name, self._hub_app))

    def _load(self) -> asyncio.Task[None] | None:
        """Load the modules of rooms in a thread, once there is a topic; None without one."""
        if self._loading is None and self.settings.topics:
            self._loading = asyncio.create_task(asyncio.to_thread(load_rooms), name="load rooms")
        return self._loading


def load_rooms() -> None:
    """Import the modules that a first join needs, which takes a tenth of a second."""
    for name in ("room", "proposal_inbox", "tool_participants", "visitors"):
        import_module(f"interlock.rooms.{name}")
