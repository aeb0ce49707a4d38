"""The maskers of servers with `scan_results = "mask"`, for their texts beside results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.config.settings import Config
from interlock.judge.masking import Masker


class ServerMaskers:
    """The maskers of servers whose text is masked, made once for each configuration."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._made: tuple[Config | None, dict[str, Masker]] = (None, {})

    def current(self) -> Mapping[str, Masker]:
        """The maskers of the configuration in force, by server."""
        config = self._config()
        if self._made[0] is not config:
            masked = {name: server.mask for name, server in config.servers.items() if server.scan_results == "mask"}
            self._made = (config, {name: Masker(mask.patterns, mask.own) for name, mask in masked.items()})
        return self._made[1]
