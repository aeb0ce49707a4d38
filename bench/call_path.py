"""How far a warm call travels through the hub: functions entered, files, and returns to a file that it had left.

The hub runs in this process with a real client socket and a real server behind it, over HTTP or standard streams. One
call at a time is followed on the loop's thread; the shortest of many counts, since timers of the hub's own fire in
between some of them. `--strict` ends with 1 where a bar does not hold, `--steps` prints the way itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.config.settings import Config, HubSettings, ServerSettings
from interlock.hub.app import HubApp
from interlock.hub.authentication import is_mcp_path
from interlock.hub.upstreams.states import ServerState
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start
from interlock.transports.stdio import server as stdio_server
from interlock.transports.stdio import server_lines
from interlock.transports.stdio.server import StdioServer
from interlock.web.app import make_app
from workload import BARE, FIRST_ID, MIX, Era, Shape, Shot, context_headers, lines, shots, upstream_path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "interlock"
TOOLS = 10
WARM = 20
FOLLOWED = 20
FUNCTIONS, FILES, RETURNS, LINES = 60, 25, 10, 400


class Step(NamedTuple):
    """A function that was entered."""

    file: str
    name: str


class Way(NamedTuple):
    """How a call travels: its era, what its client speaks, and what its server does."""

    era: Era
    client: Literal["http", "stdio"]
    server: Literal["http", "stdio"]

    def __str__(self) -> str:
        return f"{self.era}, {self.client} client, {self.server} server"


WAYS = (
    Way("modern", "http", "http"),
    Way("legacy", "http", "http"),
    Way("modern", "stdio", "http"),
    Way("legacy", "stdio", "stdio"),
)


class Counted(NamedTuple):
    """The counts of one call."""

    steps: list[Step]

    @property
    def files(self) -> list[str]:
        """Each file once, in the order in which the call came to them."""
        return list(dict.fromkeys(step.file for step in self.steps))

    @property
    def returns(self) -> int:
        """How often the call came back to a file that it had left."""
        path = [step.file for step in self.steps]
        visits = [file for at, file in enumerate(path) if at == 0 or path[at - 1] != file]
        return len(visits) - len(set(visits))

    @property
    def longest(self) -> tuple[int, str]:
        """The longest of the files, and how many lines it has."""
        return max((len((SOURCE / file).read_text().splitlines()), file) for file in self.files)


class Follower:
    """Notes the functions of the hub that are entered while it is on."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._known: dict[Any, Step | None] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._known:
            path = Path(code.co_filename)
            inside = path.is_relative_to(SOURCE)
            self._known[code] = Step(str(path.relative_to(SOURCE)), code.co_qualname) if inside else None
        step = self._known[code]
        if step is not None:
            self.steps.append(step)


async def followed(way: Way, shape: Shape) -> Counted:
    """The shortest way of a call of this shape."""
    best: Counted | None = None
    # Following a call takes longer than a peer's share of one turn of the loop.
    stdio_server.TURN_S = server_lines.TURN_S = 1.0  # type: ignore[misc]
    async with _connected(way, shape) as connection:
        for number in range(WARM + FOLLOWED):
            follower = Follower()
            if number >= WARM:
                sys.setprofile(follower)
            try:
                await connection.call(FIRST_ID + number)
            finally:
                sys.setprofile(None)
            if number >= WARM and (best is None or len(follower.steps) < len(best.steps)):
                best = Counted(follower.steps)
    assert best is not None
    return best


class Connection:
    """A client's connection to the hub, on which one call after the other is made."""

    def __init__(self, way: Way, shape: Shape, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._way = way
        self._shape = shape
        self._reader = reader
        self._writer = writer
        self._shot = Shot(b"", "")

    async def call(self, number: int) -> None:
        """Make a call, and wait for its answer."""
        self._writer.write(self._shot.numbered(number))
        answer = await self._answer()
        if self._shot.text(number).encode() not in answer:
            raise RuntimeError(f"asked {self._shot.numbered(number)!r}, answered {answer!r}")

    async def open(self, port: int) -> None:
        """Introduce the client, in the handshake era."""
        way, shape = self._way, self._shape
        session = ""
        if way.era == "legacy":
            info = {"name": "bench", "version": "1"}
            said = {
                "protocolVersion": shape.version,
                "capabilities": msgspec.Raw(shape.capabilities),
                "clientInfo": info,
            }
            hello = msgspec.json.encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": said})
            told = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
            if way.client == "stdio":
                self._writer.write(hello + b"\n" + told + b"\n")
                await self._answer()
            else:
                context = context_headers("legacy", "initialize")
                self._writer.write(shape.post("/mcp", port, len(hello), context) + hello)
                head = await self._reader.readuntil(b"\r\n\r\n")
                session = head.partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode()
                await self._reader.readexactly(_length(head))
                context = context_headers("legacy", "notifications/initialized", session=session)
                self._writer.write(shape.post("/mcp", port, len(told), context) + told)
                await self._answer()
        chosen = [(0, 0)]
        made = lines(chosen, shape) if way.client == "stdio" else shots(chosen, shape, "hub", TOOLS, port, session)
        self._shot = made[0]

    async def _answer(self) -> bytes:
        if self._way.client == "stdio":
            return await self._reader.readline()
        return await self._reader.readexactly(_length(await self._reader.readuntil(b"\r\n\r\n")))


def _length(head: bytes) -> int:
    return int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


@contextlib.asynccontextmanager
async def _connected(way: Way, shape: Shape) -> AsyncIterator[Connection]:
    """A connection to a hub with one server behind it."""
    upstream = None
    command = [sys.executable, str(HERE / "upstream.py")]
    if way.server == "http":
        upstream = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert upstream.stdout is not None
        port = int(await upstream.stdout.readline())
        server = ServerSettings(url=f"http://127.0.0.1:{port}{upstream_path(way.era, TOOLS, 0)}", era=way.era)
    else:
        told = ("--stdio", "--era", way.era, "--tools", str(TOOLS), "--server", "0")
        server = ServerSettings(command=(*command, *told), era=way.era)
    with tempfile.TemporaryDirectory() as home:
        hub_app = HubApp(Config(hub=HubSettings(), servers={"s0": server}), Path(home))
        endpoint = McpEndpoint(hub_app.service, hub_app.limits)
        http = await start(endpoint, make_app(hub_app), is_mcp=is_mcp_path)
        await hub_app.start()
        try:
            async with asyncio.timeout(30):
                while hub_app.upstreams["s0"].state is not ServerState.CONNECTED:
                    await asyncio.sleep(0.01)
            if way.client == "stdio":
                ours, theirs = socket.socketpair()
                caller = hub_app.authenticator.admit_key(None, "/mcp")
                spoken = StdioServer(hub_app.service, caller, limits=hub_app.limits)
                await asyncio.get_running_loop().connect_accepted_socket(lambda: spoken, theirs)
                reader, writer = await asyncio.open_connection(sock=ours)
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
            connection = Connection(way, shape, reader, writer)
            await connection.open(http.port)
            yield connection
            writer.close()
        finally:
            await http.stop(1)
            await hub_app.stop()
            if upstream is not None:
                upstream.terminate()
                await upstream.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", action="store_true", help="print the way itself")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a bar does not hold")
    options = parser.parse_args()
    held = True
    for way in WAYS:
        for shape in (BARE[way.era], *MIX[way.era]):
            counted = asyncio.run(followed(way, shape))
            length, longest = counted.longest
            good = (
                len(counted.steps) <= FUNCTIONS
                and len(counted.files) <= FILES
                and counted.returns <= RETURNS
                and length <= LINES
            )
            held = held and good
            print(
                f"{'ok  ' if good else 'FAIL'} {way}, {shape.name}: {len(counted.steps)} functions, "
                f"{len(counted.files)} files, {counted.returns} returns, longest {longest} ({length} lines)",
                flush=True,
            )
            if options.steps:
                for step in counted.steps:
                    print(f"       {step.file:45} {step.name}")
    print(f"bars: {FUNCTIONS} functions, {FILES} files, {RETURNS} returns, {LINES} lines")
    return 1 if options.strict and not held else 0


if __name__ == "__main__":
    sys.exit(main())
