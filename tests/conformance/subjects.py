"""Subjects of the suite's server leg: a fixture alone, or a hub in front of one."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import forking

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = HERE.parents[1] / "src"
PORTS: Final = range(20_000, 32_000)
"""Below the ports of outgoing connections: one of those could take a port before the server that it is meant for."""
START_SECONDS: Final = 120
STOP_SECONDS: Final = 120


@contextlib.contextmanager
def fixture(script: str) -> Iterator[str]:
    """A server of this folder on a free port; the address of its endpoint."""
    port = free_port()
    with running(forking.command(str(HERE / script), "--port", str(port)), {}) as process:
        wait_until(lambda: listens(port), process, script)
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.contextmanager
def hub_before(url: str, era: str) -> Iterator[str]:
    """A hub with one server behind it, whose era it is told; the address of that server's own view."""
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        config = Path(home) / "interlock.toml"
        config.write_text(f'[hub]\nlisten = "127.0.0.1:{port}"\n[servers.fixture]\nurl = "{url}"\nera = "{era}"\n')
        command = forking.command("-m", "interlock.cli", "up", "--config", str(config), "--json")
        with running(command, {"INTERLOCK_HOME": home}) as process:
            wait_until(lambda: is_ready(port), process, "the hub")
            yield f"http://127.0.0.1:{port}/servers/fixture/mcp"


@contextlib.contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours, ended with the block. Its output is shown if it ends before."""
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=variables, stdout=said, stderr=subprocess.STDOUT)
        try:
            yield process
            if process.poll() is not None:
                raise RuntimeError(f"{command[5:]} ended with {process.returncode}")
        except BaseException:
            said.seek(0)
            sys.stderr.write(said.read()[-4000:].decode(errors="replace"))
            raise
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def wait_until(there: Callable[[], bool], process: subprocess.Popen[bytes], name: str) -> None:
    """Until a server that was started can be used."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if there():
            return
        time.sleep(0.05)
    raise RuntimeError(f"{name} did not start")


def listens(port: int) -> bool:
    """Whether someone takes connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def is_ready(port: int) -> bool:
    """Whether the hub's servers are up."""
    with contextlib.suppress(OSError, urllib.error.URLError):
        return bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=120).status == 200)
    return False


def free_port() -> int:
    """A port that nobody uses now, and that the system gives to nobody who asks for any port."""
    while True:
        port = secrets.choice(PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
