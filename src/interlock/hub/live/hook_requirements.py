"""Servers that must check every answer of an agent (`after_hook = "fail-closed"`), whether or not they are connected.

The hooks of a disconnected server are unknown. So a server with any feature set on for the agent is required until it
is connected and its declarations say whether it checks answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from interlock.config.settings import Config
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.features import Features
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.wire.errors import Fault

START_S: Final = 30.0
"""How long an answer waits for a server that is started for its check."""


class RequiredHooks:
    """Finds the servers that must check an answer, and starts them."""

    def __init__(
        self,
        connections: LiveConnections,
        features: Features,
        upstreams: Upstreams,
        access: Access,
        config: Callable[[], Config],
    ) -> None:
        self._connections = connections
        self._features = features
        self._upstreams = upstreams
        self._access = access
        self._config = config

    def is_required(self, server: str) -> bool:
        """Whether the operator set the server to `fail-closed`."""
        settings = self._config().servers.get(server)
        return settings is not None and settings.enabled and settings.live.after_hook == "fail-closed"

    def any_away(self, principal: Principal) -> bool:
        """Whether a server that must check the agent's answers is disconnected."""
        return any(not self._takes_part(server, principal) for server in self._of(principal))

    async def start(self, principal: Principal) -> None:
        """Start disconnected servers that must check an answer. Raises UPSTREAM_UNAVAILABLE if one does not connect."""
        required = self._of(principal)
        for server in required:
            if (upstream := self._upstreams.get(server)) is not None:
                # Count the server as used, so that an on-demand server is not stopped as idle while it checks.
                upstream.use(asyncio.get_running_loop().time())
        away = [server for server in required if not self._takes_part(server, principal)]
        await asyncio.gather(*(self._start(server, principal) for server in away))

    async def _start(self, server: str, principal: Principal) -> None:
        upstream = self._upstreams.get(server)
        if upstream is not None:
            try:
                async with asyncio.timeout(START_S):
                    await upstream.open_connection(None)
            except (Fault, TimeoutError):
                raise unchecked(server) from None
        if not self._takes_part(server, principal):
            raise unchecked(server)

    def _of(self, principal: Principal) -> list[str]:
        """The servers that must check the answers of an agent. Raises SERVER_NOT_READY while they are unknown."""
        required = [server for server in self._config().servers if self.is_required(server)]
        return [
            server
            for server in sorted(required)
            if self._access.reaches(principal, server) and self._features.any_on(server, principal.id)
        ]

    def _takes_part(self, server: str, principal: Principal) -> bool:
        """Whether a server is connected and was told its feature sets, so that its declarations are known."""
        return any(live.server == server and live.state.on for live in self._connections.of_agent(principal.id))


def unchecked(server: str) -> Fault:
    """The refusal of an answer that a server did not check."""
    hint = f"`interlock logs {server}` may say why; [servers.{server}.live] asks for it"
    return Fault(
        "UPSTREAM_UNAVAILABLE", f"the server {server} must check every answer, and did not check this one", hint=hint
    )
