"""A blocking line to a running hub: its control socket, one JSON message a line.

Rule: the other end must be this user. A path that someone else listens on is not our hub.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from .failures import Failure, NoHub, Refused, WrongUsage

MOST_LINE = 64 * 1024 * 1024


class HubError(Failure):
    """The hub answered with an error."""

    def __init__(self, number: int, message: str, hint: str = "", name: str = "") -> None:
        super().__init__(message, hint)
        self.number = number
        self.name = name
        """The error's own name, which says more than its number."""


class Lost(Failure):
    """The connection ended before the answer came."""

    def __init__(self) -> None:
        super().__init__("the hub closed the connection", "see `interlock status`; start it with `interlock up -d`")


class Lines:
    """Whole lines out of a stream socket; what came after a line stays in `rest`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.rest = bytearray()

    def next(self, timeout: float | None) -> bytes | None:
        """The next line without its end; None when the other side closed. Raises TimeoutError."""
        deadline = None if timeout is None else monotonic() + timeout
        searched = 0
        while (end := self.rest.find(b"\n", searched)) < 0:
            searched = len(self.rest)
            if searched > MOST_LINE:
                raise Failure("the hub sent a line of more than 64 MB", "this is not an Interlock hub, or a broken one")
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
    """An open control connection."""

    def __init__(self, sock: socket.socket, lines: Lines, hello: dict[str, Any]) -> None:
        self._sock = sock
        self._lines = lines
        self._id = 0
        self.hello = hello
        """What the hub said of itself: version, pid, and who it takes us for."""

    @classmethod
    def open(
        cls, home: Path, *, role: str = "control", key: str | None = None, view: str | None = None, timeout: float = 5
    ) -> HubLink:
        """Connects and says hello. Raises NoHub where none is running, Refused where it does not take us."""
        sock, token = _connect(home, timeout)
        lines = Lines(sock)
        params = {"role": role, "key": key, "token": token, "view": view, "cwd": _cwd()}
        params = {name: value for name, value in params.items() if value is not None}
        link = cls(sock, lines, {})
        try:
            link.hello = link._exchange("interlock/hello", params, timeout)
        except HubError as error:
            sock.close()
            raise Refused(error.message, error.hint) from error
        except Lost as error:
            sock.close()
            raise NoHub from error  # it is just stopping, or has died
        except BaseException:
            sock.close()
            raise
        return link

    def ask(self, method: str, params: dict[str, Any] | None = None, *, timeout: float = 30) -> dict[str, Any]:
        """One request and its answer. Notifications that come before the answer are passed over."""
        try:
            return self._exchange(method, params or {}, timeout)
        except HubError as error:
            if error.name != "METHOD_NOT_FOUND" or not self.is_another_version:
                raise
            message = f"the hub that runs is version {self.hello.get('version')}, and does not know this"
            hint = "run this version: `interlock down`, then `interlock up -d`"
            raise HubError(error.number, message, hint, error.name) from error

    @property
    def is_another_version(self) -> bool:
        """Whether the hub was started before Interlock was changed here."""
        from interlock.version import VERSION

        return self.hello.get("version") != VERSION

    def notifications(self) -> Iterator[dict[str, Any]]:
        """What the hub sends by itself, until it closes the connection."""
        while (line := self._lines.next(None)) is not None:
            message = _decode(line)
            if "method" in message:
                yield message

    def wait_closed(self, timeout: float) -> bool:
        """Whether the hub closed the connection in time."""
        try:
            while self._lines.next(timeout) is not None:
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def detach(self) -> tuple[socket.socket, bytes]:
        """The bare connection, and what was already read of it."""
        self._sock.settimeout(None)
        return self._sock, bytes(self._lines.rest)

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> HubLink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                # What could not be read at all is answered without a number: nothing else will come.
                if answer.get("id", number) in (number, None) and "method" not in answer:
                    return _result(answer)
        except TimeoutError as error:
            hint = "look at `interlock logs`; if it hangs, `interlock down` and `interlock up -d`"
            raise Failure(f"the hub did not answer within {timeout:g} s", hint) from error
        except OSError as error:
            raise Lost from error
        raise Lost


def _connect(home: Path, timeout: float) -> tuple[socket.socket, str | None]:
    from interlock.config.home import info_path, socket_path

    if sys.platform == "win32":
        return _connect_loopback(info_path(home), timeout)
    path = str(socket_path(home))
    if len(os.fsencode(path)) > 100:
        raise Failure(f"the path of the control socket is too long: {path}", "set INTERLOCK_HOME to a shorter path")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        sock.close()
        raise NoHub from error
    except OSError as error:
        sock.close()
        raise Failure(f"the hub cannot be reached: {error}", "run `interlock doctor`") from error
    from interlock.transports.peers import peer_uid

    try:
        uid = peer_uid(sock)
    except OSError as error:
        sock.close()
        raise NoHub from error
    if uid is not None and uid != os.getuid():
        sock.close()
        hint = f"remove {path}, or set INTERLOCK_HOME to a folder of your own"
        raise Refused(f"another user (uid {uid}) listens at {path}", hint)
    return sock, None


def _connect_loopback(info: Path, timeout: float) -> tuple[socket.socket, str | None]:
    """Where there is no Unix socket: loopback, and a token that only this user can read."""
    try:
        written = json.loads(info.read_text("utf-8"))
        port, token = int(written["port"]), str(written["token"])
        return socket.create_connection(("127.0.0.1", port), timeout), token
    except (OSError, ValueError, KeyError) as error:
        raise NoHub from error


def _cwd() -> str:
    try:
        return os.fsencode(os.getcwd()).decode("utf-8", "replace")
    except OSError:
        return ""


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return json.dumps(message, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise WrongUsage("what was given is not UTF-8", "write it in UTF-8; the hub reads nothing else") from error


def _decode(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise Failure("the hub sent something that is not JSON", "`interlock down`, then `interlock up -d`") from error
    return message if isinstance(message, dict) else {}


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    error = answer.get("error")
    if isinstance(error, dict):
        details = error.get("data")
        told = details if isinstance(details, dict) else {}
        message = str(error.get("message", "the hub refused"))
        raise HubError(int(error.get("code", 0)), message, str(told.get("hint", "")), str(told.get("name", "")))
    result = answer.get("result")
    return result if isinstance(result, dict) else {}
