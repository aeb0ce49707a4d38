"""A whole hub with rooms in the test's own process, and peers that say exactly what a test wants them to say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hub.running_hub import AT_A_TERMINAL
from interlock.config.settings import Config, HubSettings, RoomSettings, TopicSettings
from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Kind, Principal
from interlock.hub.authentication import is_mcp_path
from interlock.rooms.gateway import Gateway
from interlock.rooms.upgrade import RoomUpgrader
from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start
from interlock.web.app import make_app
from interlock.web.metrics.page import MetricsPage

WITHIN_S = 30.0


class RunningRooms:
    """The hub, its address and its rooms."""

    def __init__(self, hub_app: HubApp, gateway: Gateway, operations: Operations, port: int) -> None:
        self.hub_app = hub_app
        self.gateway = gateway
        self.operations = operations
        self.port = port
        self.keys: dict[str, str] = {}

    async def key(self, name: str, kind: Kind = "agent") -> str:
        if name not in self.keys:
            self.keys[name] = await self.hub_app.keys.create(name, kind)
        return self.keys[name]

    def url(self, topic: str, **query: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        return f"ws://127.0.0.1:{self.port}/ws?topic={topic}{more}"

    async def join(self, name: str | None, topic: str = "build", kind: Kind = "agent", **query: str) -> Peer:
        """Join with a key; its welcome and its own presence are read already."""
        headers = {} if name is None else {"Authorization": f"Bearer {await self.key(name, kind)}"}
        peer = Peer(await connect(self.url(topic, **query), additional_headers=headers, compression=None))
        peer.welcome = await peer.next()
        assert peer.welcome["kind"] == "system/welcome"
        peer.id = peer.welcome["payload"]["you"]["id"]
        return peer

    async def refused(self, topic: str, headers: Mapping[str, str] | None = None, **query: str) -> tuple[int, Any]:
        """The status and body of an upgrade that is refused."""
        with contextlib.suppress(InvalidStatus) as _:
            pass
        try:
            async with connect(self.url(topic, **query), additional_headers=headers, compression=None):
                raise AssertionError("the upgrade was accepted")
        except InvalidStatus as refusal:
            return refusal.response.status_code, json.loads(refusal.response.body or b"null")

    async def reload(self, **topics: TopicSettings) -> None:
        """Apply a configuration with these topics."""
        rooms = msgspec.structs.replace(self.hub_app.config.rooms, topics=topics)
        await self.hub_app.apply(msgspec.structs.replace(self.hub_app.config, rooms=rooms))

    async def operate(self, name: str, by: Principal | None = None, **params: object) -> Any:
        by = by or self.operations.hub_user
        result = await self.operations.perform(by, name, msgspec.json.encode(params), peer=AT_A_TERMINAL)
        return json.loads(msgspec.json.encode(result))


class Peer:
    """One WebSocket of a participant."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.id = ""
        self.welcome: dict[str, Any] = {}

    async def send(self, kind: str, payload: object | None = None, **members: object) -> str:
        """Send an envelope in one's own name, or with other members. Returns its id."""
        envelope = {"protocol": "mcpx/v0.1", "id": str(uuid.uuid4()), "from": self.id, "kind": kind}
        envelope |= {"payload": payload if payload is not None else {"text": "hello"}} | members
        await self.socket.send(json.dumps(envelope))
        return str(envelope["id"])

    async def next(self, *kinds: str) -> dict[str, Any]:
        """The next envelope, or the next of these kinds."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                envelope: dict[str, Any] = json.loads(await self.socket.recv())
                if not kinds or envelope["kind"] in kinds:
                    return envelope

    async def error(self) -> dict[str, Any]:
        return await self.next("system/error")

    async def nothing(self) -> list[dict[str, Any]]:
        """Everything that came before the answer to a refused envelope: all that was sent before it is read then."""
        marker = await self.send("system/marker")
        found = []
        while True:
            envelope = await self.next()
            if envelope.get("correlation_id") == marker:
                return found
            found.append(envelope)

    async def closed(self) -> tuple[list[dict[str, Any]], int, str]:
        """Read until the connection ends: what came, the code and the reason."""
        found = []
        async with asyncio.timeout(WITHIN_S):
            try:
                while True:
                    found.append(json.loads(await self.socket.recv()))
            except ConnectionClosed as end:
                close = end.rcvd
                return found, (0 if close is None else close.code), ("" if close is None else close.reason)

    async def leave(self) -> None:
        await self.socket.close()


@contextlib.asynccontextmanager
async def running_rooms(
    home: Path,
    hub: HubSettings | None = None,
    profiles: Mapping[str, tuple[str, ...]] | None = None,
    *,
    config: Config | None = None,
    **topics: TopicSettings,
) -> AsyncIterator[RunningRooms]:
    """A hub with these topics, and without servers unless `config` has some."""
    rooms = RoomSettings(profiles=dict(profiles or {}), topics=topics)
    config = msgspec.structs.replace(config or Config(hub=hub or HubSettings()), rooms=rooms)
    hub_app = HubApp(config, home)
    gateway = Gateway(hub_app)
    operations = Operations(hub_app, lambda: None, gateway)
    metrics = MetricsPage(hub_app, rooms=gateway)
    endpoint = McpEndpoint(hub_app.service, hub_app.limits)
    app = make_app(hub_app, operations=operations, metrics=metrics)
    http = await start(endpoint, app, is_mcp=is_mcp_path, upgrader=RoomUpgrader(hub_app, gateway))
    metrics.listener = http.listener
    hub_app.use_address(f"127.0.0.1:{http.port}")
    await hub_app.start()
    await gateway.start()
    try:
        yield RunningRooms(hub_app, gateway, operations, http.port)
    finally:
        gateway.stop()
        await http.stop(1)
        await gateway.close()
        await hub_app.stop()
