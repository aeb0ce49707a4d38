"""Logins to servers within a hub: its addresses for browsers, and the effects of a login that is complete."""

from __future__ import annotations

from collections.abc import Callable

from interlock.hub.auth.console_address import ConsoleAddress
from interlock.hub.auth.keys import Keys
from interlock.hub.foundation import Foundation
from interlock.hub.upstreams.logins import Logins
from interlock.hub.upstreams.pending_logins import CALLBACK
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.task_set import TaskSet
from interlock.protocols.traces import new_trace_id
from interlock.wire.encryption import Encryption


class LoginParts:
    """Logins, and the parts of the hub that act on a complete one. `listen` returns the hub's address, once known."""

    def __init__(self, foundation: Foundation, keys: Keys, upstreams: Upstreams, listen: Callable[[], str]) -> None:
        self.console = ConsoleAddress(keys.derived(b"console"), lambda: foundation.config.hub, listen)
        self.logins = Logins(foundation, Encryption(keys.derived(b"logins")), self._page_address, self.console)
        self._foundation = foundation
        self._upstreams = upstreams
        self._listen = listen
        self._finishing = TaskSet()

    @property
    def redirect_uri(self) -> str:
        """The address that browsers are sent back to after a login to a server."""
        return self._foundation.config.hub.login.redirect_url or f"{self._on_this_machine}{CALLBACK}"

    async def finish(self, callback: str) -> str:
        """Complete a login with the address that a browser was sent back to. Returns the server.

        The login is completed even if the browser goes away, since its code is valid once.
        """
        return await self._finishing.complete(self._finish(callback))

    def retry(self, server: str) -> None:
        """Start a server that waited for a login."""
        upstream = self._upstreams.get(server)
        if upstream is not None:
            upstream.on_login()

    async def close(self) -> None:
        """Cancel logins that are being completed. Their waiters get an error."""
        await self._finishing.close()

    async def _finish(self, callback: str) -> str:
        ended = await self.logins.pending.finish(callback)
        self._foundation.journal.operated(ended.by, "logins.finish", ended.server, ended.principal, new_trace_id())
        self.retry(ended.server)
        return ended.server

    def _page_address(self) -> str:
        """The hub's address for browsers on this machine, if it serves nobody else."""
        return self._on_this_machine if self._foundation.config.hub.only_this_machine else ""

    @property
    def _on_this_machine(self) -> str:
        return f"http://127.0.0.1:{self._listen().rpartition(':')[2]}"
