"""Where there are no Unix sockets: one hub on loopback, found through a file, and heard only with its token."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import forking

from .conftest import User

LAUNCHER = Path(__file__).parent / "as_windows.py"


def command(user: User, *arguments: str) -> tuple[tuple[str, ...], dict[str, str]]:
    return forking.command("-P", str(LAUNCHER), *arguments), user.environ


def finished(user: User, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    line, env = command(user, *arguments)
    return subprocess.run(line, env=env, cwd=user.folder, input=given, capture_output=True, timeout=120, check=False)


@pytest.fixture
def running(user: User) -> Iterator[dict[str, object]]:
    """The file in which the hub describes itself."""
    user.configure()
    line, env = command(user, "up", "--json")
    with subprocess.Popen(line, env=env, cwd=user.folder, stdout=subprocess.PIPE) as hub:
        assert hub.stdout is not None
        assert hub.stdout.read(1) == b"{"
        try:
            yield json.loads((user.home / "run" / "hub.json").read_text())
        finally:
            stopped = finished(user, "down")
            hub.communicate(timeout=120)
    assert stopped.returncode == 0
    assert hub.returncode == 0


def control_answer(info: dict[str, object], **hello: object) -> dict[str, object]:
    """The hub's answer to a hello on its control port."""
    with socket.create_connection(("127.0.0.1", int(str(info["port"]))), 10) as sock:
        request = {"jsonrpc": "2.0", "id": 1, "method": "interlock/hello", "params": {"role": "control", **hello}}
        sock.sendall(json.dumps(request, ensure_ascii=False).encode() + b"\n")
        return dict(json.loads(sock.makefile("rb").readline()))


def test_the_terminal_and_clients_find_the_hub_and_its_tools(user: User, running: dict[str, object]) -> None:
    assert "socket" not in running
    status = json.loads(finished(user, "status", "--json").stdout)
    assert status["pid"] == running["pid"]
    info = {"name": "c", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    spoken = finished(user, "stdio", given=json.dumps(hello).encode() + b"\n")
    assert json.loads(spoken.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "interlock"


def test_without_the_token_nothing_is_said(running: dict[str, object]) -> None:
    hellos: list[dict[str, object]] = [{}, {"token": ""}, {"token": "wrong"}, {"token": "täuschend"}, {"token": 7}]
    assert all("error" in control_answer(running, **hello) for hello in hellos)
    assert "result" in control_answer(running, token=running["token"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_hub_ends_its_servers_and_tidies_up(user: User, number: signal.Signals) -> None:
    user.configure()
    line, env = command(user, "up")
    with subprocess.Popen(line, env=env, cwd=user.folder, stdout=subprocess.PIPE) as hub:
        assert hub.stdout is not None
        while b"demo  connected" not in hub.stdout.readline():
            pass
        hub.send_signal(number)
        hub.communicate(timeout=120)
    assert hub.returncode == 0
    assert not (user.home / "run" / "hub.json").exists()
