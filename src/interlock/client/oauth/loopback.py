"""The address on this machine that a browser is sent back to after a login (RFC 8252, Loopback Redirection)."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Callable
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from interlock.protocols.oauth.authorization import AuthorizationRequest
from interlock.wire.errors import Fault

WITHIN_S: Final = 600.0
HEAD_BYTES: Final = 16 * 1024
PATH: Final = "/callback"
DONE: Final = "You are logged in. You can close this page."
NOT_THIS: Final = "This page belongs to no login that is under way."


class LoopbackBrowser:
    """Opens the system's browser and listens on loopback while it waits. `async with` keeps the listener open."""

    def __init__(self, port: int = 0, show: Callable[[str], None] | None = None, within_s: float = WITHIN_S) -> None:
        self._port = port
        self._show = show or _open_browser
        self._within_s = within_s
        self._server: asyncio.Server | None = None
        self._waiting: dict[str, asyncio.Future[str]] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=HEAD_BYTES)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def redirect_uri(self) -> str:
        """The address that people are sent back to."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    async def visit(self, request: AuthorizationRequest) -> str:
        """Show the address, and wait for the browser to come back. Raises LOGIN_REQUIRED if it does not."""
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[request.state] = waiting
        try:
            self._show(request.url)
            async with asyncio.timeout(self._within_s):
                return await waiting
        except TimeoutError:
            raise Fault("LOGIN_REQUIRED", f"nobody logged in within {self._within_s:g} s") from None
        finally:
            del self._waiting[request.state]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            found = len(line) == 3 and line[0] == "GET" and self._took(line[1])
            text = (DONE if found else NOT_THIS).encode()
            status = b"200 OK" if found else b"404 Not Found"
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"
                b"Referrer-Policy: no-referrer\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                % (status, len(text), text)
            )
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _took(self, target: str) -> bool:
        parts = urlsplit(target)
        state = parse_qs(parts.query).get("state", [""])[0]
        waiting = self._waiting.get(state)
        if parts.path != PATH or waiting is None or waiting.done():
            return False
        waiting.set_result(f"http://127.0.0.1:{self._port}{target}")
        return True


def _open_browser(url: str) -> None:
    webbrowser.open(url)
