"""Operations on servers: start, stop and restart one, and read its log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from interlock.hub.admin.operation import ControlFlag, Text
from interlock.hub.app import HubApp
from interlock.hub.auth.access_methods import MAX_JUSTIFICATION
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.commands import Command, Reason, Verb
from interlock.hub.upstreams.logs import LogLine
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream
from interlock.wire.errors import Fault
from interlock.wire.spelling import meant

MAX_COMPARED: Final = 100
"""Names that a mistyped one is compared with, of those with its first letter: a comparison takes some 40 µs."""


class ServerOperations:
    """The operations on the servers of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def start(self, by: Principal, params: CommandServer, trace: str) -> ServerAfter:
        """Start a server that was stopped or is down."""
        return await self._command("start", by, params)

    async def stop(self, by: Principal, params: EndServer, trace: str) -> ServerAfter:
        """Stop a server, by default after its open calls. It stays stopped until somebody starts it."""
        return await self._command("stop" if params.now else "drain", by, params)

    async def restart(self, by: Principal, params: EndServer, trace: str) -> ServerAfter:
        """End a server's present run, by default after its open calls, and start it again."""
        return await self._command("restart", by, params, 0.0 if params.now else None)

    async def logs(self, by: Principal, params: ReadLogs, trace: str) -> LogLines:
        """The newest log lines of one server, or of all."""
        if params.server not in (None, "hub"):
            self._known(params.server)
        return LogLines(self._hub_app.logs.tail(params.server, params.lines))

    async def _command(
        self, verb: Verb, by: Principal, params: CommandServer, drain_s: float | None = None
    ) -> ServerAfter:
        upstream = self._known(params.server)
        command = Command(verb, Reason.OPERATOR_REQUEST, by, params.because, drain_s=drain_s)
        return ServerAfter(params.server, await upstream.supervisor.command(command))

    def _known(self, server: str) -> Upstream:
        upstream = self._hub_app.upstreams.get(server)
        if upstream is None:
            configured = self._hub_app.config.servers.get(server)
            if configured is not None and not configured.enabled:
                hint = f"set `enabled = true` for it in {configured.source}"
                raise Fault("NOT_FOUND", f"the server {server!r} is disabled", hint=hint)
            raise _no_server(server, (known.id for known in self._hub_app.upstreams))
        return upstream


def known_server(hub_app: HubApp, server: str) -> str:
    """The name of a server that the configuration has, enabled or not. Raises NOT_FOUND."""
    if server not in hub_app.config.servers:
        raise _no_server(server, hub_app.config.servers)
    return server


def _no_server(name: str, known: Iterable[str]) -> Fault:
    alike = islice((one for one in known if one[:1] == name[:1]), MAX_COMPARED)
    return Fault("NOT_FOUND", f"no server {name[:100]!r}", hint=meant(name, alike, "`interlock status` shows all"))


class CommandServer(msgspec.Struct):
    """A server, and the reason for the command."""

    server: Annotated[str, Meta(min_length=1, max_length=200)]
    because: Annotated[str, Meta(max_length=MAX_JUSTIFICATION)] = ""


class EndServer(CommandServer):
    """The server to stop or restart."""

    now: bool = False
    """Do not wait for open calls."""


class ServerAfter(msgspec.Struct):
    """The state of the server after the command."""

    server: str
    state: ServerState


class ReadLogs(msgspec.Struct):
    """Which log lines to read."""

    server: Text | None = None
    lines: Annotated[int, Meta(ge=1, le=10_000)] = 100
    follow: ControlFlag = False


class LogLines(msgspec.Struct):
    """Log lines, the oldest first."""

    lines: list[LogLine]
