"""Files, messages and clients for tests of hubs that run as processes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from interlock.cli.control.hub_link import HubLink
from waiting import block_until

from .conftest import User

BROKEN = "[hub]\nmode = 'gard'\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def hello(*more: dict[str, object], capabilities: dict[str, object] | None = None) -> bytes:
    """A client's opening, and further requests."""
    info = {"name": "c", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": capabilities or {}, "clientInfo": info}
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}, *more]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def ready(user: User) -> None:
    """Wait until the demonstration server can be called."""
    with HubLink.open(user.home) as link:
        block_until(lambda: link.ask("hub/status")["servers"][0]["state"] == "connected")


class StdioClient:
    """A client of `interlock stdio` that stays connected."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._id = 100

    def send(self, message: dict[str, object]) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._in.flush()

    def next(self) -> dict[str, object]:
        line = self._out.readline()
        assert line, "the client's server has gone"
        message: dict[str, object] = json.loads(line)
        return message

    def request(self, method: str, params: dict[str, object]) -> dict[str, object]:
        """The answer. Notifications before it are dropped."""
        self._id += 1
        self.send({"id": self._id, "method": method, "params": params})
        while (message := self.next()).get("id") != self._id:
            pass
        return message

    def until(self, method: str) -> dict[str, object]:
        """The next message with this method. Others before it are dropped."""
        while (message := self.next()).get("method") != method:
            pass
        return message

    def listed(self, tool: str) -> None:
        """Wait until a tool is in the list."""
        while f'"{tool}"' not in json.dumps(self.request("tools/list", {})):
            pass

    def opened(self, **capabilities: object) -> StdioClient:
        self._in.write(hello(capabilities=capabilities))
        self.send({"method": "notifications/initialized"})
        assert self.next()["id"] == 0
        return self


def other_config(user: User, server: str) -> str:
    """A configuration beside the user's own."""
    text = f'[hub]\nlisten = "127.0.0.1:0"\n[servers.{server}]\nurl = "http://127.0.0.1:9/"\n'
    return str(write(user.folder / f"{server}.toml", text))
