"""Decides which events may reach an agent now: a person enabled them, and the agent may reach their server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from interlock.config.live_settings import HookSettings
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.live.features import Features
from interlock.wire.errors import Fault

PREFIX: Final = "hook:"
"""Prefix of a webhook's name in the place of a server's name."""


class EventAddresses:
    """Checks every event when it is handed out, so that a revoked grant also stops events that wait."""

    def __init__(self, features: Features, access: Access, hooks: Callable[[], Mapping[str, HookSettings]]) -> None:
        self._hooks = hooks
        self._features = features
        self._access = access

    def gets_any(self, agent: str) -> bool:
        """Whether any events may reach an agent."""
        if any(hook.agent == agent for hook in self._hooks().values()):
            return True
        try:
            return self._features.has_any(agent)
        except Fault:
            return False

    def addressed(self, server: str, agent: str, feature: str) -> bool:
        """Whether an event of this kind may reach an agent."""
        if server.startswith(PREFIX):
            hook = self._hooks().get(server.removeprefix(PREFIX))
            return hook is not None and hook.agent == agent
        try:
            if not self._features.enabled(server, agent, feature):
                return False
        except Fault:
            return False
        return self._access.reaches(Principal(agent, "agent"), server)
