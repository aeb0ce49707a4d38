"""The principal behind an agent's name, for operations that act or judge as an agent."""

from __future__ import annotations

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Kind, Principal
from interlock.wire.errors import Fault


def principal_of(hub_app: HubApp, agent: str | None, kind: Kind | None = None) -> Principal:
    """The principal with a name, of `kind` if given; without a name, the caller without a key. Raises NOT_FOUND."""
    if agent is None:
        return LOCAL_AGENT
    key = next((key for key in hub_app.keys.list() if key.principal == agent and kind in (None, key.kind)), None)
    known = agent in (LOCAL_AGENT.id, *hub_app.config.agents) or bool(hub_app.grants.of_agent(agent))
    if key is None and not (known and kind in (None, "agent")):
        raise Fault("NOT_FOUND", f"no agent {agent!r}", hint="`interlock keys list` shows all keys")
    return Principal(agent, "agent") if key is None else Principal(agent, key.kind, key.profile, key.hash)
