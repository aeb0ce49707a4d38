"""The addresses of the console: a name of its own on this machine, and the public names for other machines."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from interlock.config.hub_settings import HubSettings
from interlock.config.listen import names_this_machine

_ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, never listened on


class ConsoleAddress:
    """Where browsers find the console. `listen` gives the hub's own address, once known."""

    def __init__(self, seed: bytes, settings: Callable[[], HubSettings], listen: Callable[[], str]) -> None:
        self.name = f"hub-{base64.b32encode(seed)[:12].decode().lower()}.localhost"
        """The host name on this machine, a secret. Browsers resolve it to the loopback address."""
        self._settings = settings
        self._listen = listen

    @property
    def origin(self) -> str:
        """The origin for a browser on this machine or, for a hub of another host, everywhere."""
        settings = self._settings()
        if settings.on_loopback or settings.address[0] in _ANY_ADDRESS:
            return f"http://{self.local_host}"
        return f"https://{self.public_hosts[0]}"

    @property
    def local_host(self) -> str:
        """The `Host` of a request from this machine."""
        return f"{self.name}:{self._listen().rpartition(':')[2]}"

    @property
    def public_hosts(self) -> list[str]:
        """The names for browsers on other machines. They need HTTPS, which a proxy before the hub provides."""
        settings = self._settings()
        hosts = [name.lower() for name in settings.allowed_hosts if not names_this_machine(name)]
        bound = () if settings.on_loopback or settings.address[0] in _ANY_ADDRESS else (self._listen().lower(),)
        return [*hosts, *bound]

    def server_page(self, server: str) -> str | None:
        """The page of a server, to tell a caller; None for a console without a public name.

        No caller is told the name on this machine: a program that knows it could have a browser send it the cookie.
        """
        hosts = self.public_hosts
        return f"https://{hosts[0]}/console/servers/{quote(server, safe='')}" if hosts else None
