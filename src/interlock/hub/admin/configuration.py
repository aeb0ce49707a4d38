"""Operations on the configuration: read it again, confirm a project's file; and stop the hub."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from interlock.config.client_files import client_files
from interlock.config.confirmations import Confirmations, project_folder
from interlock.config.load import LoadedConfig, load_again
from interlock.config.problems import Problem
from interlock.config.settings import Config
from interlock.events.types import ConfigurationReloaded, now_us
from interlock.hub.admin.operation import Nothing
from interlock.hub.app import HubApp
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal

log = logging.getLogger("interlock.configuration")


class ConfigurationOperations:
    """Reads the configuration of one hub. `stop` ends the hub."""

    def __init__(self, hub_app: HubApp, stop: Callable[[], None]) -> None:
        self._hub_app = hub_app
        self._stop = stop
        self.problems: tuple[Problem, ...] = ()
        """The problems found when the configuration was last read."""
        self._read: dict[str, tuple[int, int, int]] = {}
        """The files as they were right before they were last read."""

    async def reload(self, by: Principal, params: Nothing, trace: str) -> Reloaded:
        """Read the configuration again."""
        return await self.read_again(by)

    async def read_again(self, by: Principal = NOBODY) -> Reloaded:
        """Read and apply the configuration. An unusable one changes nothing."""
        applied, changed = False, []
        try:
            loaded = await self.look()
            if loaded.usable:
                changed = await self._apply(loaded)
                applied = True
        except Exception as cause:
            # Any failure must leave the next reload possible, because that one may contain an important denial.
            log.error("the configuration could not be applied", exc_info=cause)
            path = self._hub_app.config.origin.path or ""
            hint = "undo the last change of the configuration; the hub's log has the details"
            self.problems = (Problem(path, None, f"the configuration could not be applied: {cause!r}"[:500], hint),)
        problems = [f"{problem.file}: {problem.message}" for problem in self.problems]
        self._hub_app.journal.configured(by, applied=applied, changed=changed, problems=problems)
        bus = self._hub_app.bus
        if bus.wants(ConfigurationReloaded):
            outcome = (applied, tuple(changed), tuple(problems))
            bus.publish(ConfigurationReloaded("configuration", bus.next(), now_us(), *outcome))
        return Reloaded(applied, changed, self.problems)

    async def look(self) -> LoadedConfig:
        """Read the files, and note their problems and what waits for a person's confirmation."""
        hub_app = self._hub_app
        self._read = _stamps(hub_app.config)  # A change from now on is read again.
        loaded: LoadedConfig = await asyncio.to_thread(load_again, hub_app.config, home=hub_app.home)
        message = "nobody has confirmed this project file as it is now; the hub starts none of its servers"
        hint = "run `interlock up` in {}, in a terminal, to review and confirm it"
        unconfirmed = (
            Problem(waiting.path, None, message, hint.format(project_folder(Path(waiting.path))), fatal=False)
            for waiting in loaded.unconfirmed
        )
        self.problems = (*loaded.problems, *unconfirmed)
        return loaded

    @property
    def changed_since(self) -> bool:
        """Whether a file changed since anybody last had it read."""
        return _stamps(self._hub_app.config) != self._read

    async def confirm(self, by: Principal, params: Confirm, trace: str) -> Confirmed:
        """Confirm a project's file as it is now, and use it."""
        Confirmations(self._hub_app.home).add(Path(params.path), params.hash)
        await self.read_again(by)
        return Confirmed(True)

    async def clients(self, by: Principal, params: Nothing, trace: str) -> ClientRows:
        """The programs on this machine that can use the hub: those whose file exists."""
        found = await asyncio.to_thread(lambda: [one for one in client_files() if one.path.is_file()])
        return ClientRows([ClientRow(one.name, one.title, str(one.path)) for one in found])

    async def stop(self, by: Principal, params: Nothing, trace: str) -> Stopping:
        """Stop the hub."""
        asyncio.get_running_loop().call_soon(self._stop)
        return Stopping(True)

    async def _apply(self, loaded: LoadedConfig) -> list[str]:
        config, listen = loaded.config, self._hub_app.config.hub.listen
        if config.hub.listen != listen:
            hint = "restart the hub to use the new address"
            changed = Problem(config.origin.path or "", None, "`listen` changed", hint, fatal=False)
            self.problems = (*self.problems, changed)
            # The real address decides who is admitted without a credential.
            config = msgspec.structs.replace(config, hub=msgspec.structs.replace(config.hub, listen=listen))
        return await self._hub_app.apply(config)


def _stamps(config: Config) -> dict[str, tuple[int, int, int]]:
    stamps: dict[str, tuple[int, int, int]] = {}
    for name in config.origin.files:
        with contextlib.suppress(OSError):
            stat = os.stat(name)
            stamps[name] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return stamps


class Confirm(msgspec.Struct):
    """A file and its hash."""

    path: str
    hash: str


class Confirmed(msgspec.Struct):
    """Whether the file is confirmed."""

    confirmed: bool


class Reloaded(msgspec.Struct):
    """The result of a reload."""

    applied: bool
    changed: list[str]
    problems: tuple[Problem, ...]


class ClientRow(msgspec.Struct):
    """A program that can use the hub, and its file."""

    name: str
    """As `interlock connect` has it."""
    title: str
    path: str


class ClientRows(msgspec.Struct):
    """The programs that were found."""

    clients: list[ClientRow]


class Stopping(msgspec.Struct):
    """Whether the hub is stopping."""

    stopping: bool
