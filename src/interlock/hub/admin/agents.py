"""The principal behind an agent's name, for operations that act or judge as an agent."""

from __future__ import annotations

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.wire.errors import Fault


def principal_of(hub_app: HubApp, agent: str | None) -> Principal:
    """The principal of an agent; without a name, the caller without a key. Raises NOT_FOUND."""
    if agent is None:
        return LOCAL_AGENT
    key = next((key for key in hub_app.keys.list() if key.principal == agent), None)
    known = (LOCAL_AGENT.id, *hub_app.config.agents)
    if key is None and agent not in known and not hub_app.grants.of_agent(agent):
        raise Fault("NOT_FOUND", f"no agent {agent!r}", hint="`interlock keys list` shows all keys")
    return Principal(agent, "agent") if key is None else Principal(agent, key.kind, key.profile, key.hash)
