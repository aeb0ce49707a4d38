"""A blocking connection to the control socket of the running hub, with one JSON message per line.

The hub must run as this user. A socket of another user is refused.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final

from interlock.cli.terminal.failures import CommandFailure, CommandRefused, NoHub, WrongUsage
from interlock.cli.terminal.show import as_dict, is_attended

MAX_LINE_BYTES = 64 * 1024 * 1024


METHOD_NOT_FOUND: Final = -32601


class HubError(CommandFailure):
    """The hub answered with an error."""

    def __init__(self, number: int, message: str, hint: str = "", name: str = "") -> None:
        super().__init__(message, hint)
        self.number = number
        self.name = name
        """The name of the error, such as `NOT_FOUND`."""


class HubRefusal(HubError):
    """An error of the domain `security`: the hub refused the operation."""

    exit_code = CommandRefused.exit_code


class ConnectionLost(CommandFailure):
    """The connection closed before the answer arrived."""

    def __init__(self) -> None:
        super().__init__("the hub closed the connection", "if no hub runs, start it with `interlock up -d`")


class SocketLineReader:
    """Reads lines from a stream socket. Bytes after the last line stay in `rest`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.rest = bytearray()

    def next(self, timeout: float | None) -> bytes | None:
        """The next line without its end; None when the connection closed. Raises TimeoutError."""
        deadline = None if timeout is None else monotonic() + timeout
        searched = 0
        while (end := self.rest.find(b"\n", searched)) < 0:
            searched = len(self.rest)
            if searched > MAX_LINE_BYTES:
                raise CommandFailure(
                    "the hub sent a line of more than 64 MB",
                    "run `interlock doctor` to see what runs there",
                )
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            chunk = self._sock.recv(65_536)
            if not chunk:
                return None
            self.rest += chunk
        line = bytes(self.rest[:end])
        del self.rest[: end + 1]
        return line


class HubLink:
    def __init__(self, sock: socket.socket, lines: SocketLineReader, hello: dict[str, Any]) -> None:
        self._sock = sock
        self._lines = lines
        self._id = 0
        self.hello = hello
        """The hub's answer to `hello`: its version, its pid, and who it thinks we are."""

    @classmethod
    def open(
        cls,
        home: Path | None = None,
        *,
        role: str = "control",
        key: str | None = None,
        view: str | None = None,
        own: bool = False,
        timeout: float = 5,
    ) -> HubLink:
        """Connect to the hub of this user. Raises NoHub if none runs, and Refused if it does not accept us.

        `own`: a hub that this command made for itself, where an agent program may do everything.
        """
        from interlock.config.home import home_folder

        sock, token = _connect(home or home_folder(), timeout)
        lines = SocketLineReader(sock)
        peer = _peer() if role == "control" and not own else None
        params = {"role": role, "key": key, "token": token, "view": view, "peer": peer}
        params = {name: value for name, value in params.items() if value is not None}
        link = cls(sock, lines, {})
        try:
            link.hello = link._exchange("interlock/hello", params, timeout)
        except HubError as error:
            sock.close()
            raise CommandRefused(error.message, error.hint) from error
        except ConnectionLost as error:
            sock.close()
            raise NoHub from error  # The hub is stopping, or has crashed.
        except BaseException:
            sock.close()
            raise
        return link

    def ask(self, method: str, params: dict[str, Any] | None = None, *, timeout: float = 30) -> dict[str, Any]:
        """Send a request and return the answer. Notifications before the answer are skipped."""
        try:
            return self._exchange(method, params or {}, timeout)
        except HubError as error:
            if error.name != "METHOD_NOT_FOUND" or not self.is_another_version:
                raise
            message = f"the running hub has version {self.hello.get('version')}, which does not know this command"
            hint = "restart it with this version: `interlock down`, then `interlock up -d`"
            raise HubError(error.number, message, hint, error.name) from error

    @property
    def is_another_version(self) -> bool:
        """Whether the running hub has another version than this command."""
        from interlock.version import VERSION

        return self.hello.get("version") != VERSION

    def notifications(self) -> Iterator[dict[str, Any]]:
        """The notifications of the hub, until it closes the connection."""
        while (line := self._lines.next(None)) is not None:
            message = _decode(line)
            if "method" in message:
                yield message

    def wait_closed(self, timeout: float) -> bool:
        """Wait until the hub closes the connection. Returns whether it did in time."""
        try:
            while self._lines.next(timeout) is not None:
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def detach(self) -> tuple[socket.socket, bytes]:
        """The bare socket, and the bytes already read from it."""
        self._sock.settimeout(None)
        return self._sock, bytes(self._lines.rest)

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> HubLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, method: str, params: dict[str, Any], timeout: float) -> dict[str, Any]:
        number = self._id
        self._id += 1
        request = _encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        deadline = monotonic() + timeout
        try:
            self._sock.settimeout(timeout)
            self._sock.sendall(request)
            while (line := self._lines.next(max(deadline - monotonic(), 0.001))) is not None:
                answer = _decode(line)
                # The answer to a request that the hub could not parse has no id, and no other answer follows.
                if answer.get("id", number) in (number, None) and "method" not in answer:
                    return _result(answer)
        except TimeoutError as error:
            hint = "see `interlock logs`; if the hub hangs, run `interlock down` and `interlock up -d`"
            raise CommandFailure(f"the hub did not answer within {timeout:g} s", hint) from error
        except OSError as error:
            raise ConnectionLost from error
        raise ConnectionLost


def _connect(home: Path, timeout: float) -> tuple[socket.socket, str | None]:
    from interlock.config.home import info_path, socket_path

    if sys.platform == "win32":
        return _connect_loopback(info_path(home), timeout)
    path = str(socket_path(home))
    if len(os.fsencode(path)) > 100:
        raise CommandFailure(
            f"the path of the control socket is too long: {path}", "set INTERLOCK_HOME to a shorter path"
        )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        sock.close()
        raise NoHub from error
    except OSError as error:
        sock.close()
        raise CommandFailure(f"the hub cannot be reached: {error}", "run `interlock doctor`") from error
    from interlock.transports.peers import peer_uid

    try:
        uid = peer_uid(sock)
    except OSError as error:
        sock.close()
        raise NoHub from error
    if uid is not None and uid != os.getuid():
        sock.close()
        hint = f"remove {path}, or set INTERLOCK_HOME to a folder of your own"
        raise CommandRefused(f"another user (uid {uid}) listens at {path}", hint)
    return sock, None


def _connect_loopback(info: Path, timeout: float) -> tuple[socket.socket, str | None]:
    """On Windows, without a Unix socket: loopback, and a token that only this user can read."""
    try:
        written = json.loads(info.read_text("utf-8"))
        port, token = int(written["port"]), str(written["token"])
        return socket.create_connection(("127.0.0.1", port), timeout), token
    except (OSError, ValueError, KeyError) as error:
        raise NoHub from error


def _peer() -> dict[str, Any]:
    """The description of this command for the hub, which reserves some operations for a person."""
    from interlock.cli.control.agent_environment import agent_of

    return {"terminal": is_attended(), "agent": agent_of(os.environ) or ""}


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return json.dumps(message, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise WrongUsage("an argument is not UTF-8", "write it in UTF-8") from error


def _decode(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise CommandFailure(
            "the hub sent invalid JSON", "restart it: `interlock down`, then `interlock up -d`"
        ) from error
    return message if isinstance(message, dict) else {}


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    error = answer.get("error")
    if isinstance(error, dict):
        data = as_dict(error.get("data"))
        message = str(error.get("message", "the hub refused the request"))
        name, hint = str(data.get("name", "")), str(data.get("hint", ""))
        if error.get("code") == METHOD_NOT_FOUND and message.startswith("no such method: hub/"):
            hint = "the running hub has another version than this command: `interlock down`, then `interlock up -d`"
        kind = HubRefusal if data.get("domain") == "security" else HubError
        raise kind(int(error.get("code", 0)), message, hint, name)
    return as_dict(answer.get("result"))
