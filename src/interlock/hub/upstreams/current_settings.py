"""The settings of one server that hold now. All parts of an upstream read them here, so a reload reaches every part."""

from __future__ import annotations

from interlock.config.settings import ServerSettings, TimeoutSettings


class CurrentSettings:
    """One server's id, its own settings, and the hub's timeouts."""

    def __init__(self, id: str, server: ServerSettings, timeouts: TimeoutSettings) -> None:
        self.id = id
        self.server = server
        self.timeouts = timeouts
        """The hub's. A timeout in the server's own settings takes precedence."""

    def apply(self, server: ServerSettings, timeouts: TimeoutSettings) -> None:
        """Replace the settings after a reload."""
        self.server = server
        self.timeouts = timeouts

    @property
    def discovery_s(self) -> float:
        """How long listing the server again may take."""
        own = self.server.timeouts.discovery_s
        return self.timeouts.discovery_s if own is None else own
