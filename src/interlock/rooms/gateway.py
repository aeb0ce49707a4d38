"""The rooms of one hub, as its other parts use them: operators, MCP tools, the console and the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.events.types import ResourceUpdated, now_us
from interlock.hub.admin.rooms import (
    ChangeCapabilities,
    ChangedCapabilities,
    ChangedMode,
    ChangeMode,
    ProposalAnswer,
    RoomRow,
    RoomTicket,
)
from interlock.hub.app import HubApp
from interlock.hub.approvals.decision import Decision
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.own_resources import ROOMS
from interlock.hub.handlers.rooms import RoomResult
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tool_search.room_definitions import ROOM_URI
from interlock.rooms.fulfilment import end_former_proposals
from interlock.rooms.tickets import Tickets
from interlock.rooms.topic_operations import TopicOperations
from interlock.rooms.topics import Topics
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.room import Room
    from interlock.rooms.tool_participants import ToolParticipants
    from interlock.rooms.visitors import Visitors

TICK_S: Final = 1.0


class Gateway:
    """Every room of a hub (`hub.admin.rooms.RoomGateway`, `hub.handlers.rooms.RoomClients`)."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self.topics = Topics(hub_app)
        self.tickets = Tickets()
        self._operations = TopicOperations(hub_app, self.topics, self.tickets)
        self._timer: asyncio.TimerHandle | None = None
        self.tool_participants: ToolParticipants | None = None
        self._visitors: Visitors | None = None
        self._published_activity: dict[str, int] = {}
        """The activity of each topic when subscribers of its resource were last notified."""

    async def start(self) -> None:
        """Open the rooms for participants. Called after the hub has started."""
        await end_former_proposals(self._hub_app)
        await self.topics.start()
        self._hub_app.hub.rooms.open(self)
        self._tick()

    def stop(self) -> None:
        """Stop background work. The HTTP listener closes the connections."""
        if self._timer is not None:
            self._timer.cancel()

    async def close(self) -> None:
        """Store the histories, and end the inboxes. All connections have ended, and the store is open."""
        for inbox in self.topics.inboxes.values():
            await inbox.close()
        await self.topics.given_texts.close()
        await self.topics.histories.close()

    @property
    def rooms(self) -> Iterable[Room]:
        """The topics that somebody joined since the hub started."""
        return self.topics.rooms.values()

    # Participants that join through MCP tools.

    async def perform(self, caller: Caller, exchange: Exchange, name: str, arguments: dict[str, Any]) -> RoomResult:
        """Perform one of the tools for rooms. Raises Fault."""
        return await self._tools().perform(caller, exchange, name, arguments)

    def describe(self, caller: Caller, session: Session | None, topic: str) -> dict[str, object]:
        """The state of a room, for its resource."""
        return self._tools().describe(caller, session, topic)

    def _tools(self) -> ToolParticipants:
        self.topics.check_loaded()
        if self.tool_participants is None:
            from interlock.rooms.tool_participants import ToolParticipants

            self.tool_participants = ToolParticipants(self.topics, self._operations)
        return self.tool_participants

    # Operations.

    def rows(self, topic: str | None) -> list[RoomRow]:
        """The topics with their participants."""
        return self._operations.rows(topic)

    async def change_capabilities(self, by: Principal, params: ChangeCapabilities, trace: str) -> ChangedCapabilities:
        """Change what a participant may send, and store that."""
        return await self._operations.change_capabilities(by, params, trace)

    def change_mode(self, params: ChangeMode) -> ChangedMode:
        """Choose which envelopes a connected participant receives, from the next one on."""
        return self._operations.change_mode(params)

    def ticket(self, by: Principal, topic: str, separate: bool) -> RoomTicket:
        """A ticket for the hub's user. Joining with it checks whether the user may."""
        return self._operations.ticket(by, topic, separate)

    async def answer_proposal(self, by: Principal, decision: Decision, answer: ProposalAnswer) -> msgspec.Raw | None:
        """Fulfil or reject a proposal in a person's name. Returns the payload of the response, if one came in time."""
        inbox = self.topics.inboxes.get(decision.request.server.removeprefix("room:"))
        if decision.request.node != self._hub_app.node or inbox is None:
            raise Fault("INVALID_PARAMS", f"the room of approval request {decision.id} is at another hub")
        response = await inbox.answer(by, decision, answer, wait=True)
        return None if response is None else msgspec.Raw(response.payload)

    async def proposals_stored(self) -> None:
        """Wait, at most a second, until every proposal so far has its approval request."""
        if writing := [one.writing for one in self.topics.inboxes.values() if one.writing is not None]:
            await asyncio.wait(writing, timeout=1.0)

    def visitors(self) -> Visitors:
        """Principals that watch topics and speak there through operations."""
        if self._visitors is None:
            from interlock.rooms.visitors import Visitors

            self._visitors = Visitors(self.topics, self._operations)
        return self._visitors

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self.topics.tick()
        if self.tool_participants is not None:
            self.tool_participants.tick()
        if self._visitors is not None:
            self._visitors.tick()
        self._publish_activity()

    def _publish_activity(self) -> None:
        """Notify subscribers of the resources of rooms in which something happened since the last tick."""
        bus = self._hub_app.bus
        for name, room in self.topics.rooms.items():
            if self._published_activity.get(name, 0) != room.activity and bus.wants(ResourceUpdated):
                self._published_activity[name] = room.activity
                bus.publish(ResourceUpdated(ROOMS, bus.next(), now_us(), ROOM_URI + name))
