"""Runs an author's server file behind a hub of its own, and restarts it whenever code in its folder changes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from interlock.config.settings import Config, HubSettings, RestartSettings, ServerSettings, TimeoutSettings
from interlock.events import EventFilter, SubscriberTask
from interlock.events.types import Delivery, LogWritten
from interlock.hub.app import HubApp
from interlock.hub.approvals.pins import PINS
from interlock.hub.authentication import is_mcp_path
from interlock.hub.upstreams.commands import Command, Reason
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start
from interlock.web.app import make_app
from interlock.web.observed_service import ObservedCall, ObservedService

LOOK_EVERY_S: Final = 0.25
MAX_FILES: Final = 1_000
SHOWN: Final = ("tools/call", "prompts/get", "resources/read", "completion/complete", "tools/validate")
_OURS: Final = re.compile(r"^\s*(from|import) interlock\b", re.MULTILINE)
_RAISED: Final = re.compile(r"(?:[\w.]+\.)?(?P<kind>\w+): (?P<words>.+)")
_OTHERS: Final = {"node_modules", "__pycache__", "venv", "site-packages"}


class DevMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message for the author."""

    event: Literal["listening", "ready", "broken", "changed", "call", "log"]
    text: str = ""
    call: ObservedCall | None = None


class DevHub:
    """One file, run until interrupted."""

    def __init__(self, file: Path, tell: Callable[[DevMessage], None]) -> None:
        self._file = file
        self._tell = tell
        self._last_words = ""
        self.name: Final = re.sub(r"[^A-Za-z0-9_-]", "_", file.stem)

    async def run(self, port: int) -> None:
        """Serve on a loopback port. Raises OSError if the port cannot be used."""
        with tempfile.TemporaryDirectory(prefix="interlock-dev-") as home:
            hub_app = HubApp(self._config(port), Path(home))
            service = ObservedService(hub_app.hub, self._seen)
            endpoint = McpEndpoint(service, hub_app.limits)
            app = make_app(hub_app, service)
            http = await start(endpoint, app, port=port, limits=hub_app.limits, is_mcp=is_mcp_path)
            logged = SubscriberTask(hub_app.bus.subscribe(EventFilter.of(LogWritten)), self._logged)
            self._tell(DevMessage("listening", f"http://127.0.0.1:{http.port}"))
            try:
                await hub_app.start()
                await self._keep_running(hub_app)
            finally:
                await http.stop(0.5)
                await hub_app.stop()
                await logged.close()

    def _config(self, port: int) -> Config:
        server = ServerSettings(
            command=(sys.executable, str(self._file)),
            cwd=str(self._file.parent),
            inherit_env=tuple(os.environ),
            restart=RestartSettings(policy="never"),
            # The era of an Interlock server is known, so do not probe it: a broken file is then started only once.
            era="modern" if _OURS.search(self._file.read_text("utf-8", errors="replace")) else "auto",
        )
        hub = HubSettings(listen=f"127.0.0.1:{port}", timeouts=TimeoutSettings(start_s=30))
        return Config(hub=hub, servers={self.name: server})

    async def _keep_running(self, hub_app: HubApp) -> None:
        upstream = hub_app.upstreams[self.name]
        began = datetime.min.replace(tzinfo=UTC)
        seen = self._stamps()
        while True:
            await self._settle(hub_app, upstream, began)
            while (now := self._stamps()) == seen:
                await asyncio.sleep(LOOK_EVERY_S)
            changed = sorted({Path(path).relative_to(self._file.parent).as_posix() for path, _ in seen ^ now})
            seen = now
            self._tell(DevMessage("changed", ", ".join(changed[:5])))
            began = datetime.now(UTC)
            await _forget_pins(hub_app, self.name)
            await upstream.supervisor.command(Command("restart", Reason.CONFIGURATION_CHANGE, drain_s=0))

    async def _settle(self, hub_app: HubApp, upstream: Upstream, began: datetime) -> None:
        """Wait until the server runs or has failed, and report it."""
        while upstream.since <= began or upstream.state not in (ServerState.CONNECTED, ServerState.ERROR):
            await asyncio.sleep(0.02)
        if upstream.state is ServerState.ERROR:
            self._tell(
                DevMessage("broken", self._why_broken("" if upstream.problem is None else upstream.problem.message))
            )
            return
        offer = hub_app.catalog.offer(self.name)
        self._tell(DevMessage("ready", ", ".join(offer.tools) if offer is not None else ""))

    def _why_broken(self, problem: str) -> str:
        """The exception that ended the file, with its place, but without the traceback."""
        found = _RAISED.match(self._last_words) if "exited with code 1" in problem else None
        if found is None:
            return problem
        return found["words"] if found["kind"] == "DefinitionError" else f"{found['kind']}: {found['words']}"

    def _stamps(self) -> frozenset[tuple[str, int]]:
        """The modification times of the code beside the file. Bounded, and without installed packages."""
        stamps: set[tuple[str, int]] = set()
        for folder, folders, files in os.walk(self._file.parent):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in _OTHERS]
            for name in files:
                if name.endswith(".py") and len(stamps) < MAX_FILES:
                    path = os.path.join(folder, name)
                    try:
                        stamps.add((path, os.stat(path).st_mtime_ns))
                    except OSError:
                        continue
        return frozenset(stamps)

    def _seen(self, call: ObservedCall) -> None:
        if call.method in SHOWN:
            self._tell(DevMessage("call", call=call))

    async def _logged(self, batch: Sequence[Delivery]) -> None:
        for line in batch:
            if isinstance(line, LogWritten) and line.stream != "hub":
                self._last_words = line.text or self._last_words
                self._tell(DevMessage("log", line.text))


async def _forget_pins(hub_app: HubApp, server: str) -> None:
    """Forget the definitions of the run before: here their author changes them, and nobody has to approve that."""
    pins = await hub_app.store.find(PINS, server=server)
    async with hub_app.store.transaction() as change:
        for pin in pins:
            change.delete(PINS, pin.value.id)
