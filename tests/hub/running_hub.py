"""A whole hub in the test's own process, on a free port, with real servers behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

import forking
from interlock.config.channel_settings import ChannelSettings
from interlock.config.live_settings import HookSettings, LiveSettings
from interlock.config.model_settings import HostSettings, ModelSettings
from interlock.config.settings import (
    AgentSettings,
    Config,
    ConfigOrigin,
    HubSettings,
    ProfileSettings,
    RoomSettings,
    ServerSettings,
    TimeoutSettings,
)
from interlock.host import Host
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.people import ControlPeer
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.app import HubApp
from interlock.hub.approvals import passphrase
from interlock.hub.audit import write_failures
from interlock.hub.auth.access_methods import GrantParams
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import Kind, Principal, local_person
from interlock.hub.authentication import is_mcp_path
from interlock.hub.calls.call import Caller
from interlock.hub.catalog import quarantine
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.tool_search import tokens as token_counts
from interlock.hub.upstreams.states import ServerState
from interlock.judge.findings import Finding
from interlock.protocols.mgp.access import EntryType
from interlock.protocols.mgp.negotiation import EXTENSIONS
from interlock.rooms.gateway import Gateway
from interlock.rooms.upgrade import RoomUpgrader
from interlock.store import Store
from interlock.store.documents import Change
from interlock.transports.credentials import header_of
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.listener import HttpListener
from interlock.transports.http.server.serve import start
from interlock.transports.requests.call_parking import ParkingLimits as ParkingLimits
from interlock.transports.stdio.server import StdioServer
from interlock.web.app import make_app
from interlock.web.metrics.page import MetricsPage
from waiting import until

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
MGP: dict[str, Any] = {"mgp": {"version": "0.2.0", "extensions": list(EXTENSIONS)}}
"""Capabilities of a client that speaks all of MGP."""
FINDS_TOOLS: dict[str, Any] = {"mgp": {"version": "0.2.0", "extensions": ["tool_discovery"]}}
"""Capabilities of a client that uses `mgp/tools/*` and nothing else of MGP."""
AT_A_TERMINAL = ControlPeer(terminal=True)


class RunningHub:
    """The hub and its address."""

    def __init__(self, hub_app: HubApp, url: str, endpoint: McpEndpoint) -> None:
        self.hub_app = hub_app
        self.url = url
        self.endpoint = endpoint
        self.operations: Operations
        """Those that the admin API and the console perform."""
        self.host: Host
        self.listener: HttpListener
        """The state of its HTTP connections."""

    def key(self, name: str, profile: str | None = None) -> str:
        """A fresh key for an agent."""
        text, key = self.hub_app.keys.make(name, "agent", profile=profile)
        # As a key arrives that another hub of the same store made.
        self.hub_app.keys.mirror.apply(Change(KEYS.name, key.hash, 1, 1, KEYS.encode(key)))
        return text

    async def new_key(self, name: str, kind: Kind = "agent", **settings: Any) -> str:
        """A fresh key, stored."""
        return await self.hub_app.keys.create(name, kind, **settings)

    async def allow(self, agent: str, server: str, tool: str | None = None, **more: Any) -> None:
        """Grant an agent something."""
        await self.give("allow", agent, server, tool, **more)

    async def deny(self, agent: str, server: str, tool: str | None = None, **more: Any) -> None:
        """Deny an agent something."""
        await self.give("deny", agent, server, tool, **more)

    async def give(self, permission: str, agent: str, server: str, tool: str | None = None, **more: Any) -> None:
        """Say what an agent may or may not."""
        said = {"agent_id": agent, "server_id": server, "tool_name": tool, "permission": permission, **more}
        said["entry_type"] = "server_grant" if tool is None else "tool_grant"
        await self.hub_app.access_methods.grant(local_person("tester"), msgspec.convert(said, GrantParams))

    async def take(self, agent: str, server: str, tool: str | None = None) -> int:
        """Take back what was said."""
        kind: EntryType = "server_grant" if tool is None else "tool_grant"
        return await self.hub_app.grants.revoke(kind, agent, server, tool)

    async def operate(self, operation: str, by: Principal | None = None, /, **params: object) -> Any:
        """Perform an operation as the control socket does."""
        return await operate(self.hub_app, operation, by, **params)

    async def state(self, server: str, *wanted: ServerState) -> None:
        """Wait until a server is in one of the states."""
        await until(lambda: self.hub_app.upstreams[server].state in wanted)

    async def counted(self, server: str) -> None:
        """Have the tokens of a server's tools counted at once, and wait for it."""
        tokens, catalog = self.hub_app.tokens, self.hub_app.catalog

        async def exact() -> bool:
            await tokens.settled()
            return (offer := catalog.offer(server)) is not None and tokens.exact(offer.tools.values()) is not None

        await until(exact)


async def operate(hub_app: HubApp, name: str, by: Principal | None = None, /, **params: object) -> Any:
    """Perform an operation for the hub's own user at a terminal or for somebody else. The result as JSON has it."""
    operations = Operations(hub_app, lambda: None)
    result = await operations.perform(by or operations.hub_user, name, msgspec.json.encode(params), peer=AT_A_TERMINAL)
    encoded = msgspec.json.encode(result)
    kind = OPERATIONS[name].result
    assert type(result) is kind
    assert msgspec.json.decode(encoded, type=kind), "the result is what its struct says, member by member"
    return json.loads(encoded)


# Beside four other tests a commit may take longer than a second, and a hub that cannot write refuses calls.
write_failures.MAX_UNWRITTEN_S = 60.0  # type: ignore[misc]
# The hubs of one worker judge with the same compiled signals. A hub by itself frees them when it is idle.
quarantine.IDLE_AFTER_S = 3600.0  # type: ignore[misc]
# Most of them have the same servers, which offer the same definitions.
judge_definition = quarantine.judge_definition


@lru_cache(4096)
def _judge_once(definition: bytes) -> tuple[Finding, ...]:
    return judge_definition(msgspec.json.decode(definition))


quarantine.judge_definition = lambda definition: _judge_once(msgspec.json.encode(definition))
# The process that counts takes half a second of processor time. It starts where a list or a test asks for counts.
token_counts.SOON_S = 3600.0  # type: ignore[misc]
count_in_process = token_counts.count_in_process
_counts: dict[bytes, int] = {}


async def _count_new(batch: Sequence[bytes]) -> list[int] | None:
    """Have the process count the texts that no hub of this worker counted before."""
    new = [text for text in batch if text not in _counts]
    counts = await count_in_process(new) if new else []
    if counts is None or len(counts) != len(new):
        return None
    _counts.update(zip(new, counts, strict=True))
    return [_counts[text] for text in batch]


token_counts.count_in_process = _count_new
PASSPHRASE_COST = passphrase.COST
"""The cost in a hub by itself. Here a guess is a matter of milliseconds."""
passphrase.COST = 2**8  # type: ignore[misc]


@contextlib.asynccontextmanager
async def running_hub(
    tmp_path: Path,
    servers: Mapping[str, ServerSettings],
    *,
    wait: bool = True,
    hub: HubSettings | None = None,
    profiles: Mapping[str, ProfileSettings] | None = None,
    agents: Mapping[str, AgentSettings] | None = None,
    parking: ParkingLimits | None = None,
    rooms: RoomSettings | None = None,
    live: LiveSettings | None = None,
    hooks: Mapping[str, HookSettings] | None = None,
    models: Mapping[str, ModelSettings] | None = None,
    host: HostSettings | None = None,
    channels: Mapping[str, ChannelSettings] | None = None,
    file: Path | None = None,
) -> AsyncIterator[RunningHub]:
    """A running hub. With `wait`, every server is up first. `file` is the `interlock.toml` that it reads again."""
    settings = hub or HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60))
    tables: dict[str, Any] = {"servers": dict(servers), "profiles": dict(profiles or {}), "agents": dict(agents or {})}
    tables |= {"hooks": dict(hooks or {}), "models": dict(models or {}), "host": host or HostSettings()}
    tables["channels"] = dict(channels or {})
    origin = ConfigOrigin() if file is None else ConfigOrigin(path=str(file), explicit=True)
    config = Config(hub=settings, rooms=rooms or RoomSettings(), live=live or LiveSettings(), origin=origin, **tables)
    hub_app = HubApp(config, tmp_path / "home", parking)
    endpoint = McpEndpoint(hub_app.service, hub_app.limits)
    gateway = Gateway(hub_app)
    metrics = MetricsPage(hub_app, rooms=gateway)
    conversations = Host(hub_app, rooms=gateway.topics)
    operations = Operations(hub_app, lambda: None, gateway, conversations)
    web = make_app(hub_app, operations=operations, metrics=metrics)
    http = await start(
        endpoint,
        web,
        is_mcp=is_mcp_path,
        hosts=settings.allowed_hosts,
        local_names=(operations.console.address.name,),
        upgrader=RoomUpgrader(hub_app, gateway),
    )
    metrics.listener = http.listener
    hub_app.use_address(f"127.0.0.1:{http.port}")
    if not settings.store:
        _place(await _empty_database(), hub_app.home / "hub.db")
    await hub_app.start()
    await gateway.start()
    await conversations.start()
    running = RunningHub(hub_app, f"http://127.0.0.1:{http.port}", endpoint)
    running.operations, running.host, running.listener = operations, conversations, http.listener
    try:
        if wait:
            for server in servers:
                await running.state(server, ServerState.CONNECTED)
        yield running
    finally:
        gateway.stop()
        operations.console.close()
        await http.stop(1)
        await conversations.close()
        await gateway.close()
        await hub_app.stop()


_databases: list[bytes] = []


async def _empty_database() -> bytes:
    """A new database, made once: to make its tables is a sixth of a hub's start."""
    if not _databases:
        with tempfile.TemporaryDirectory() as folder:
            store = await Store.open(f"{folder}/empty.db", COLLECTIONS)
            await store.close()
            _databases.append(_read(f"{folder}/empty.db"))
    return _databases[0]


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _place(database: bytes, path: Path) -> None:
    """Write a database as the hub makes it, unless there is one."""
    with (
        contextlib.suppress(FileExistsError),
        open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out,
    ):
        out.write(database)


def child(script: str, *arguments: str, **settings: Any) -> ServerSettings:
    """A server of this folder, over standard streams. One that is contained gets a Python of its own."""
    start = own_python if "isolation" in settings else forking.command
    return ServerSettings(command=start(str(HERE / script), *arguments), env={"PYTHONPATH": str(SOURCE)}, **settings)


def own_python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


class RawClient:
    """A client that says exactly what a test wants it to say, over HTTP."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.host, _, self.port = url.removeprefix("http://").partition("/")[0].partition(":")
        self.path = "/" + url.removeprefix("http://").partition("/")[2]
        self.key = key
        self.session: str | None = None

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """One POST on a connection of its own."""
        return await self.send("POST", body, headers)

    async def send(
        self, method: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Any request on a connection of its own; the whole response."""
        said = {
            "host": f"{self.host}:{self.port}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
            "connection": "close",
        }
        if self.key is not None:
            said["authorization"] = f"Bearer {self.key}"
        if self.session is not None:
            said["mcp-session-id"] = self.session
        said |= dict(headers or {})
        head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        reader, writer = await asyncio.open_connection(self.host, int(self.port))
        try:
            writer.write(f"{method} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
            response = await asyncio.wait_for(reader.read(), 120)
        finally:
            writer.close()
        top, _, rest = response.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        names = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if names.get("transfer-encoding") == "chunked":
            rest = dechunked(rest)
        return int(lines[0].split()[1]), names, rest

    async def modern(self, method: str, params: dict[str, Any] | None = None, id: int | str = 1, **headers: str) -> Any:
        """A stateless request; the JSON-RPC answer, whether it came plain or on a stream."""
        params = dict(params or {})
        meta = {
            f"{PREFIX}protocolVersion": MODERN,
            f"{PREFIX}clientCapabilities": MGP if method.startswith("mgp/") else {},
            **params.pop("_meta", {}),
        }
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}
        said = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if name := params.get("name") or (params.get("uri") if method == "resources/read" else None):
            said["mcp-name"] = name
        _, _, answer = await self.post(json.dumps(body).encode(), {**said, **headers})
        return last_message(answer)

    async def initialize(self, capabilities: dict[str, Any] | None = None, version: str = "2025-11-25") -> Any:
        """Open a session."""
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        _, headers, body = await self.post(
            msgspec.json.encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        )
        self.session = headers.get("mcp-session-id")
        await self.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return last_message(body)

    async def legacy(self, method: str, params: dict[str, Any] | None = None, id: int | str = 1) -> Any:
        """A request in the session; its answer."""
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        return last_message((await self.post(msgspec.json.encode(body)))[2])


class KeptHttpClient:
    """One connection that is kept, with compact calls of one era one after the other."""

    def __init__(self, url: str, key: str | None = None, *, modern: bool = True) -> None:
        self.host = url.removeprefix("http://").partition("/")[0]
        self.credential = "" if key is None else f"Authorization: Bearer {key}\r\n"
        self.modern = modern
        self.session = ""

    async def __aenter__(self) -> KeptHttpClient:
        host, _, port = self.host.partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        if not self.modern:
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "kept", "version": "1"}}
            said = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            top, _ = await self.post(msgspec.json.encode(said), "")
            id_ = top.partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode()
            self.session = f"Mcp-Session-Id: {id_}\r\nMcp-Protocol-Version: {LEGACY}\r\n"
            await self.tell("notifications/initialized", {})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def call(self, name: str, arguments: bytes, id: int) -> Any:
        """A call of a tool; the JSON-RPC answer, None where there is none."""
        params = b'{"name":"%b","arguments":%b' % (name.encode(), arguments)
        headers = self.session
        if self.modern:
            params += f',"_meta":{{"{PREFIX}protocolVersion":"{MODERN}","{PREFIX}clientCapabilities":{{}}}}'.encode()
            headers = f"Mcp-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
        body = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}}' % (id, params)
        _, answer = await self.post(body, headers)
        return last_message(answer)

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        """A notification, in a session."""
        said = {"jsonrpc": "2.0", "method": method, "params": params}
        await self.post(msgspec.json.encode(said), self.session)

    async def post(self, body: bytes, headers: str, path: str = "/mcp") -> tuple[bytes, bytes]:
        """A POST; the head and the body of what comes back."""
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n{headers}"
        head += f"Accept: application/json, text/event-stream\r\n{self.credential}"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        top = (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 120)).replace(b"Mcp-", b"mcp-")
        if b"transfer-encoding: chunked" in top:
            return top, dechunked(await asyncio.wait_for(self._reader.readuntil(b"\r\n0\r\n\r\n"), 120))
        length = int(top.partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
        return top, await asyncio.wait_for(self._reader.readexactly(length), 120)


class KeptStdioClient:
    """The same on a stream of lines, as `interlock stdio` carries them."""

    def __init__(self, hub: RunningHub, key: str | None = None, *, modern: bool = True) -> None:
        self._hub = hub
        self._key = key
        self.modern = modern

    async def __aenter__(self) -> KeptStdioClient:
        ours, theirs = socket.socketpair()
        hub_app = self._hub.hub_app
        caller = hub_app.authenticator.admit_key(self._key, "/mcp")
        self.server = StdioServer(hub_app.service, caller, limits=hub_app.limits, admit=self._admit)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.server, theirs)
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        if not self.modern:
            await self.introduce()
        return self

    async def introduce(self, **beside: Any) -> None:
        """Open a session; `beside` the method stands what else is said."""
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "kept", "version": "1"}}
        said = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params, **beside}
        self.write(msgspec.json.encode(said))
        assert "result" in await self.read()
        await self.tell("notifications/initialized", {})

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        self.server.close()

    def _admit(self, auth: bytes) -> Caller:
        return self._hub.hub_app.authenticator.admit("/mcp", {b"authorization": header_of(auth)})

    async def call(self, name: str, arguments: bytes, id: int) -> Any:
        """A call of a tool; the JSON-RPC answer."""
        params = b'{"name":"%b","arguments":%b' % (name.encode(), arguments)
        if self.modern:
            params += f',"_meta":{{"{PREFIX}protocolVersion":"{MODERN}","{PREFIX}clientCapabilities":{{}}}}'.encode()
        self.write(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}}' % (id, params))
        return await self.read()

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        """A notification."""
        self.write(msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def write(self, line: bytes) -> None:
        self._writer.write(line + b"\n")

    async def read(self) -> Any:
        """The next answer; notifications are passed over."""
        while True:
            message = json.loads(await asyncio.wait_for(self._reader.readline(), 120))
            if "method" not in message:
                return message


def last_message(body: bytes) -> Any:
    """The answer in a body: the body itself, or the last event of a stream."""
    if body.lstrip().startswith(b"{"):
        return json.loads(body)
    data = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:") and line[5:].strip()]
    return json.loads(data[-1]) if data else None


def messages(body: bytes) -> list[Any]:
    """Every message of a stream."""
    return [json.loads(line[5:]) for line in body.split(b"\n") if line.startswith(b"data:") and line[5:].strip()]


def dechunked(body: bytes) -> bytes:
    """The bytes inside chunks."""
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        whole += body[:length]
        body = body[length + 2 :]
    return whole


def text_of(answer: Any) -> str:
    """The text of a tool's result."""
    return str(answer["result"]["content"][0]["text"])
