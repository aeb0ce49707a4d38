"""Real processes, and a listener that remembers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from interlock.client.sinks import FutureSink
from interlock.transports.link import Outgoing
from interlock.transports.stdio.client import StdioLink
from interlock.transports.stdio.process import Command
from interlock.wire.errors import Fault
from interlock.wire.messages import Request, Result

MOODS = str(Path(__file__).parent / "servers" / "moods.py")


Json = dict[str, object] | None


class RecordingListener:
    """Hears everything that belongs to no request."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, bytes]] = []
        self.questions: list[Request] = []
        self.lines: list[tuple[str, str]] = []
        self.end: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()
        self.on_question: Callable[[Request], None] = self.questions.append

    def on_notification(self, method: str, params: bytes) -> None:
        self.notes.append((method, params))

    def on_request(self, request: Request) -> None:
        self.on_question(request)

    def on_closed(self, fault: Fault) -> None:
        self.end.set_result(fault)

    def on_log(self, stream: str, text: str) -> None:
        self.lines.append((stream, text))


class Server:
    """A running server, its link, and what was heard of it."""

    def __init__(self, link: StdioLink, listener: RecordingListener) -> None:
        self.link = link
        self.listener = listener
        self.notes: list[tuple[str, bytes]] = []
        self.questions: list[Request] = []

    def start(self, method: str, params: Json = None, seconds: float = 120, **more: object) -> FutureSink:
        """Send a request; nobody has to wait for its answer."""
        waiting = FutureSink(lambda *note: self.notes.append(note), self.questions.append)
        waiting.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        deadline = asyncio.get_running_loop().time() + seconds
        outgoing = Outgoing(method, msgspec.json.encode(params or {}), deadline)
        for name, value in more.items():
            setattr(outgoing, name, value)
        self.handle = self.link.send(outgoing, waiting)
        return waiting

    async def ask(self, method: str, params: Json = None, **more: object) -> dict[str, object]:
        answer = await self.start(method, params, **more).future
        assert isinstance(answer, Result)
        return msgspec.json.decode(answer.result, type=dict[str, object])


Start = Callable[..., Awaitable[Server]]


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def run() -> AsyncIterator[Start]:
    servers: list[Server] = []

    async def start(
        *flags: str,
        program: tuple[str, ...] = (sys.executable, MOODS),
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        **more: object,
    ) -> Server:
        listener = RecordingListener()
        command = Command((*program, *flags), env or {}, cwd)
        server = Server(await StdioLink.spawn(command, listener, **more), listener)
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.link.close()
