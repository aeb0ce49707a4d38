"""One user for each test: a home short enough for a socket, a configuration folder, and `interlock` as a process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import forking
from interlock.cli.app import app
from interlock.cli.control.agent_environment import AGENTS
from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.starting import is_running
from waiting import block_until

from .fake_hub import FakeHub

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


class User:
    """Runs `interlock` as this user, in this process or as one of its own."""

    def __init__(self, root: Path) -> None:
        self._hubs: list[subprocess.Popen[bytes]] = []
        self.root = root
        self.home = root / "h"
        self.folder = root / "work"
        self.folder.mkdir()
        self.config = root / "c" / "interlock" / "interlock.toml"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environ = {
            **kept,
            "HOME": str(root),
            "XDG_CONFIG_HOME": str(root / "c"),
            "INTERLOCK_HOME": str(self.home),
            "PYTHONPATH": str(SOURCE),
        }

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        """In this process: fast, and without a terminal."""
        return CliRunner().invoke(app, list(arguments), input=stdin)

    def process(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        return self._start((sys.executable, "-P", "-m", "interlock.cli", *arguments), **options)

    def fork(self, *arguments: str) -> subprocess.Popen[bytes]:
        """The same for tests that are not about the process itself: a fork takes a tenth of the time to start."""
        return self._start(forking.command("-m", "interlock.cli", *arguments))

    def _start(self, line: tuple[str, ...], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            line,
            env=self.environ,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def finished(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        line = forking.command("-m", "interlock.cli", *arguments)
        done = subprocess.run(line, env=self.environ, cwd=self.folder, input=stdin, capture_output=True, timeout=120)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def start_hub(self) -> None:
        """A hub in the background, for tests that are not about its start: a fork, without its starter."""
        output = self.root / "hub.out"
        line = forking.command("-m", "interlock.cli", "up")
        with output.open("ab") as out:
            hub = subprocess.Popen(
                line, env=self.environ, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

        def runs() -> bool:
            assert hub.poll() is None, output.read_text()
            return is_running(self.home)

        block_until(runs)
        self._hubs.append(hub)

    def forget_hubs(self) -> None:
        """Wait for the ends of hubs that were stopped."""
        for hub in self._hubs:
            hub.wait(120)

    def starts(self) -> int:
        """How many hubs were started in the background."""
        return (self.home / "run" / "hub.log").read_text().count("Interlock listens")

    def servers(self) -> list[str]:
        """The servers that the running hub knows."""
        with HubLink.open(self.home) as link:
            return [server["id"] for server in link.ask("hub/status")["servers"]]

    def configure(self, text: str = "") -> None:
        """Write the user's own configuration; the hub takes a free port."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text('[hub]\nlisten = "127.0.0.1:0"\n' + text)


@contextlib.contextmanager
def new_user(patch: pytest.MonkeyPatch) -> Iterator[User]:
    """A user with nothing, whose environment this process has meanwhile. At the end, its hub is stopped."""
    root = Path(tempfile.mkdtemp(prefix="ilk", dir="/tmp"))
    user = User(root)
    for name in ("INTERLOCK_CONFIG", "INTERLOCK_KEY", "NO_COLOR", "CODEX_HOME", "MGP_CONFIG_PATH", *AGENTS):
        patch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "INTERLOCK_HOME"):
        patch.setenv(name, user.environ[name])
    patch.chdir(user.folder)
    yield user
    if is_running(user.home):
        with HubLink.open(user.home) as link:
            link.ask("hub/stop")
            link.wait_closed(120)
    user.forget_hubs()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    with new_user(monkeypatch) as user:
        yield user


@pytest.fixture
def hub(user: User) -> Iterator[FakeHub]:
    hub = FakeHub(user.home)
    yield hub
    hub.close()
