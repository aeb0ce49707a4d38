"""Who may get which events, at this moment: what a person enabled, and what the agent may reach."""

from __future__ import annotations

from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.live.features import Features
from interlock.wire.errors import Fault


class Addresses:
    """Answers for every event when it is handed out, so that a revoked grant also stops what is under way."""

    def __init__(self, features: Features, access: Access) -> None:
        self._features = features
        self._access = access

    def addressed(self, server: str, agent: str, feature: str) -> bool:
        """Whether an event of this kind may reach an agent."""
        try:
            if not self._features.enabled(server, agent, feature):
                return False
        except Fault:
            return False
        return self._access.reaches(Principal(agent, "agent"), server)
