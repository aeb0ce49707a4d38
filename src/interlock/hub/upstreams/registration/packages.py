"""The install step of registered `npx` and `uvx` servers, on this node.

A configured server is installed by its operator's command. A registered one has nobody at this machine, so the hub
installs it once it is approved: without running install scripts, with a recorded digest, and read-only for the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from interlock.containment import installs
from interlock.containment.policy import ContainmentRefused
from interlock.hub.upstreams.contained_servers import FOLDER
from interlock.hub.upstreams.registration.registration import Registration

AT_ONCE: Final = 2


class RegisteredPackages:
    """Installs the packages of registered servers, each once."""

    def __init__(self, home: Path, log: Callable[[str, str], None]) -> None:
        self._home = home
        self._log = log
        self._tried: set[tuple[str, tuple[str, ...]]] = set()
        self._slots = threading.Semaphore(AT_ONCE)
        self._loop = asyncio.get_running_loop()

    def install(self, registrations: Iterable[Registration], on_installed: Callable[[], None]) -> None:
        """Begin to install the missing packages. `on_installed` is called after each."""
        for each in registrations:
            if each.approved and not each.script and (each.id, each.command) not in self._tried:
                self._tried.add((each.id, each.command))
                # A daemon thread: a hub that stops does not wait for a slow registry.
                threading.Thread(target=self._install, args=(each, on_installed), name="install", daemon=True).start()

    def _install(self, registration: Registration, on_installed: Callable[[], None]) -> None:
        outcome: installs.Install | Exception | None
        try:
            with self._slots:
                outcome = _installed_now(self._home.resolve() / FOLDER / registration.id, registration.command)
        except (ContainmentRefused, OSError, ValueError) as cause:
            outcome = cause
        with contextlib.suppress(RuntimeError):  # the hub has stopped
            self._loop.call_soon_threadsafe(self._done, registration, outcome, on_installed)

    def _done(
        self,
        registration: Registration,
        outcome: installs.Install | Exception | None,
        on_installed: Callable[[], None],
    ) -> None:
        if isinstance(outcome, Exception):
            self._tried.discard((registration.id, registration.command))  # the next change tries again
            self._log(registration.id, f"its package cannot be installed: {outcome}")
        elif outcome is not None:
            self._log(registration.id, f"installed {outcome.package}, digest {outcome.digest[:16]}")
            on_installed()


def _installed_now(folder: Path, command: tuple[str, ...]) -> installs.Install | None:
    """Install the package of a command unless it is there, unchanged. None if there was nothing to do."""
    if installs.wanted(command) is None:
        return None
    try:
        installs.installed(str(folder), command)
    except ContainmentRefused:
        return installs.install(folder, command, dict(os.environ))
    return None
