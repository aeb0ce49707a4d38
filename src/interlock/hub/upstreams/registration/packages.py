"""The install step of registered `npx` and `uvx` servers, on this node.

A configured server is installed by its operator's command. A registered one has nobody at this machine, so the hub
installs it once it is approved: without running install scripts, with a recorded digest, and read-only for the server.
An operator can have it installed again. One step at a time runs for a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from interlock.containment import installs
from interlock.containment.policy import ContainmentRefused
from interlock.hub.upstreams.contained_servers import FOLDER
from interlock.hub.upstreams.registration.registration import Registration
from interlock.wire.errors import Fault

AT_ONCE: Final = 2

Outcome: TypeAlias = installs.ServerInstall | Exception | None
Step: TypeAlias = Callable[[Path, tuple[str, ...]], installs.ServerInstall | None]


class RegisteredPackages:
    """Installs the packages of registered servers, each once."""

    def __init__(self, home: Path, log: Callable[[str, str], None]) -> None:
        self._home = home
        self._log = log
        self._tried: set[tuple[str, tuple[str, ...]]] = set()
        self._running: set[str] = set()
        """The servers that are being installed."""
        self._slots = threading.Semaphore(AT_ONCE)
        self._loop = asyncio.get_running_loop()

    def install(self, registrations: Iterable[Registration], on_installed: Callable[[], None]) -> None:
        """Begin to install the missing packages. `on_installed` is called after each."""
        for each in registrations:
            tried = (each.id, each.command) in self._tried or each.id in self._running
            if each.approved and not each.script and not tried:
                self._tried.add((each.id, each.command))
                self._begin(each, _installed_now, partial(self._done, each, on_installed))

    async def install_again(self, registration: Registration) -> installs.ServerInstall:
        """Install the package of a server, also if it is there. Raises Fault."""
        id_ = registration.id
        if not registration.approved:
            raise Fault(
                "ACCESS_DENIED", f"{id_!r} is not approved", hint="a person must approve it: interlock approvals"
            )
        if id_ in self._running:
            raise Fault("SERVER_NOT_READY", f"{id_!r} is being installed", hint=f"see `interlock logs {id_}`")
        outcome: asyncio.Future[Outcome] = self._loop.create_future()
        self._begin(registration, _installed_anew, partial(_settle, outcome))
        match await outcome:
            case installs.ServerInstall() as installed:
                return installed
            case ContainmentRefused() as refused:
                raise Fault("INVALID_PARAMS", refused.message, hint=refused.hint)
            case cause:
                raise Fault("INTERNAL_ERROR", f"the package of {id_!r} cannot be installed: {cause}")

    def _begin(self, registration: Registration, step: Step, done: Callable[[Outcome], None]) -> None:
        self._running.add(registration.id)
        # A daemon thread: a hub that stops does not wait for a slow registry.
        threading.Thread(target=self._run, args=(registration, step, done), name="install", daemon=True).start()

    def _run(self, registration: Registration, step: Step, done: Callable[[Outcome], None]) -> None:
        outcome: Outcome
        try:
            with self._slots:
                outcome = step(self._home.resolve() / FOLDER / registration.id, registration.command)
        except (ContainmentRefused, OSError, ValueError) as cause:
            outcome = cause
        with contextlib.suppress(RuntimeError):  # the hub has stopped
            self._loop.call_soon_threadsafe(self._ended, registration.id, outcome, done)

    def _ended(self, id: str, outcome: Outcome, done: Callable[[Outcome], None]) -> None:
        self._running.discard(id)
        done(outcome)

    def _done(self, registration: Registration, on_installed: Callable[[], None], outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            self._tried.discard((registration.id, registration.command))  # the next change tries again
            self._log(registration.id, f"its package cannot be installed: {outcome}")
        elif outcome is not None:
            self._log(registration.id, f"installed {outcome.package}, digest {outcome.digest[:16]}")
            on_installed()


def _settle(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _installed_anew(folder: Path, command: tuple[str, ...]) -> installs.ServerInstall:
    return installs.install(folder, command, dict(os.environ))


def _installed_now(folder: Path, command: tuple[str, ...]) -> installs.ServerInstall | None:
    """Install the package of a command unless it is there, unchanged. None if there was nothing to do."""
    if installs.wanted(command) is None:
        return None
    try:
        installs.installed(str(folder), command)
    except ContainmentRefused:
        return installs.install(folder, command, dict(os.environ))
    return None
