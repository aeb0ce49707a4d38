"""Operations that change the servers in the user's own `interlock.toml`: add and remove one, switch tools on and off.

Only the hub's own user may: a new command runs as that user. The hub reads the file again after each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from interlock.config.edit import EditError, add_servers, deny_tools, remove_server
from interlock.config.expand import expand
from interlock.config.home import user_config
from interlock.config.problems import Problem
from interlock.config.settings import ServerSettings
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.app import HubApp
from interlock.hub.auth.access_methods import MAX_JUSTIFICATION
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault

MAX_WORDS: Final = 100
MAX_VALUES: Final = 50

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Word = Annotated[str, Meta(max_length=4096)]
Values = Annotated[dict[Name, Word], Meta(max_length=MAX_VALUES)]


class ServerEntryOperations:
    """The operations on the servers in one hub's configuration file."""

    def __init__(self, hub_app: HubApp, configuration: ConfigurationOperations) -> None:
        self._hub_app = hub_app
        self._configuration = configuration

    async def add(self, by: Principal, params: AddServer, trace: str) -> ChangedFile:
        """Add a server, and start it."""
        if bool(params.url) == bool(params.command):
            hint = "give the one or the other"
            raise Fault("INVALID_PARAMS", "a server has a URL or a command", hint=hint)
        server = ServerSettings(url=params.url or None, command=params.command, env=params.env, headers=params.headers)
        _check_sources(server)
        return await self._changed(by, params.server, lambda path: add_servers(path, {params.server: server}))

    async def remove(self, by: Principal, params: RemoveServer, trace: str) -> ChangedFile:
        """Remove a server, and end it."""
        return await self._changed(by, params.server, lambda path: remove_server(path, params.server))

    async def disable_tool(self, by: Principal, params: SwitchTool, trace: str) -> ChangedFile:
        """Offer a tool to nobody."""
        return await self._changed(by, params.server, lambda path: deny_tools(path, params.server, add=params.tool))

    async def enable_tool(self, by: Principal, params: SwitchTool, trace: str) -> ChangedFile:
        """Offer a tool again."""
        return await self._changed(by, params.server, lambda path: deny_tools(path, params.server, remove=params.tool))

    async def _changed(self, by: Principal, server: str, change: Callable[[Path], Path | None]) -> ChangedFile:
        path = self._file(server)
        try:
            backup = await asyncio.to_thread(change, path)
        except EditError as cause:
            raise Fault("INVALID_PARAMS", str(cause), hint=cause.hint) from None
        except OSError as cause:
            message = f"{path} cannot be written: {cause.strerror or cause}"
            raise Fault("INVALID_PARAMS", message, hint="see the rights of that file") from None
        read = await self._configuration.read_again(by)
        problems = tuple(problem for problem in read.problems if problem.server in (None, server))
        return ChangedFile(server, str(path), None if backup is None else str(backup), read.applied, problems)

    def _file(self, server: str) -> Path:
        """The file to change. A file of a project is its authors', and changed by hand."""
        origin, own = self._hub_app.config.origin, user_config()
        path = own if origin.path is None else Path(origin.path)
        if not origin.explicit and path != own:
            hint = f"change {path} by hand, or start the hub with --config"
            raise Fault("INVALID_PARAMS", "the hub uses the file of a project", hint=hint)
        known = self._hub_app.config.servers.get(server)
        if known is not None and known.source and Path(known.source) != path:
            raise Fault("INVALID_PARAMS", f"{server!r} is configured in {known.source}", hint="change it there")
        return path


def _check_sources(server: ServerSettings) -> None:
    """Refuse references to secrets: only what a person wrote into the file itself may read files and run programs."""
    texts = (*server.command, server.url or "", *server.env.values(), *server.headers.values())
    for text in texts:
        if foreign := expand(text, {}).foreign:
            hint = "write it into interlock.toml with an editor"
            raise Fault("INVALID_PARAMS", f"`${{{foreign[0]}:…}}` cannot be set here", hint=hint)


class AddServer(msgspec.Struct):
    """A new server: a URL, or a program with its arguments."""

    server: Name
    url: Word = ""
    command: Annotated[tuple[Word, ...], Meta(max_length=MAX_WORDS)] = ()
    """Program and arguments; no shell is involved."""
    env: Values = {}
    """Environment variables for the program. `${NAME}` is a variable of the hub."""
    headers: Values = {}
    """HTTP headers for the URL."""
    because: Annotated[str, Meta(max_length=MAX_JUSTIFICATION)] = ""


class RemoveServer(msgspec.Struct):
    """The server to remove."""

    server: Name
    because: Annotated[str, Meta(max_length=MAX_JUSTIFICATION)] = ""


class SwitchTool(msgspec.Struct):
    """A tool by the server's own name for it."""

    server: Name
    tool: Annotated[str, Meta(min_length=1, max_length=256)]
    because: Annotated[str, Meta(max_length=MAX_JUSTIFICATION)] = ""


class ChangedFile(msgspec.Struct):
    """The file that was changed, and whether the hub uses it."""

    server: str
    path: str
    backup: str | None
    """The copy of the old file."""
    applied: bool
    problems: tuple[Problem, ...]
