"""Checks who may fulfil or reject a proposal from the inbox: a person with the rights that the room requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.config.home import user_name
from interlock.hub.app import HubApp
from interlock.hub.approvals.states import DecisionEvent
from interlock.hub.auth.principals import Principal, local_person
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.kinds import fulfilling
from interlock.protocols.mcpx.proposals import ProposalState, is_own
from interlock.rooms.policy import check_member
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.rooms.room import Room


def check_fulfiller(room: Room, id: str, by: Principal, capabilities: CapabilitySet) -> None:
    """Refuse a principal that could not fulfil the proposal in the room itself. Raises Fault."""
    proposal = room.proposal(id)
    if proposal is None or proposal.state is not ProposalState.OPEN:
        state = "unknown" if proposal is None else proposal.state.value
        raise Fault("INVALID_PARAMS", f"the proposal {id!r} is {state}")
    if by.kind != "person":
        raise Fault("ACCESS_DENIED", f"only a person can answer, and {by.id} is a {by.kind}")
    check_member(room.name, room.settings, by)
    request = fulfilling(proposal.kind)
    if is_own(proposal, by.id, by.id):
        raise Fault("ACCESS_DENIED", "a proposer cannot fulfil its own proposal", hint="another person has to")
    if not capabilities.covers(request):
        hint = f"an operator can: `interlock rooms capabilities {by.id} --topic {room.name} --add {request}`"
        raise Fault("ACCESS_DENIED", f"{by.id} may not send {request} in {room.name}", hint=hint)


def find_person(hub_app: HubApp, id: str) -> Principal | None:
    """A person with current rights: the hub's own user, or the holder of a valid key. None for anyone else."""
    if id == (user := local_person(user_name())).id:
        return user
    for key in hub_app.keys.list():
        person = Principal(id, "person", key.profile, key.hash)
        if (key.principal, key.kind) == (id, "person") and hub_app.access.rights(person) is not None:
            return person
    return None


async def end_former_proposals(hub_app: HubApp) -> None:
    """End the approval requests of proposals from the last run, because proposals end with the hub."""
    for decision in hub_app.inbox.all(only_open=False):
        if decision.request.kind == "proposal" and decision.request.node == hub_app.node:
            await hub_app.inbox.end(decision.id, DecisionEvent.CHANGE, "the hub was restarted")
