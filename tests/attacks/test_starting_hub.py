"""A hub that is still starting answers at no address. Clients that came too early are served when it is complete."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from interlock.config.settings import Config, HubSettings
from interlock.hub.app import HubApp
from interlock.rooms.gateway import Gateway
from interlock.web.run import serve

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__convert","arguments":{}}}'
ADDRESSES = (
    ("POST", "/mcp", CALL),
    ("GET", "/tools", ""),
    ("POST", "/tools/demo__convert", "{}"),
    ("POST", "/tools/demo__convert/validate", "{}"),
    ("GET", "/admin/status", ""),
    ("GET", "/console", ""),
    ("GET", "/metrics", ""),
    ("GET", "/readyz", ""),
)


class EarlyClient(asyncio.Protocol):
    """A client that keeps the bytes of its answer."""

    def __init__(self) -> None:
        self.received = b""
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def asked(address: str, method: str, path: str, body: str) -> EarlyClient:
    host, _, port = address.rpartition(":")
    transport, client = await asyncio.get_running_loop().create_connection(EarlyClient, host, int(port))
    head = f"{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n"
    head += f"accept: application/json, text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    transport.write((head + body).encode())
    return client


async def test_no_address_answers_before_the_hub_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[EarlyClient] = []
    early: list[bytes] = []
    hubs: list[HubApp] = []
    start, rooms_start, ready = HubApp.start, Gateway.start, asyncio.Event()

    async def start_while_clients_come(hub_app: HubApp) -> None:
        hubs.append(hub_app)
        clients.extend([await asked(hub_app.listen, *address) for address in ADDRESSES])
        await start(hub_app)

    async def look(gateway: Gateway) -> None:
        early.extend(client.received for client in clients)
        await rooms_start(gateway)

    monkeypatch.setattr(HubApp, "start", start_while_clients_come)
    monkeypatch.setattr(Gateway, "start", look)
    with tempfile.TemporaryDirectory(prefix="il") as home:
        (Path(home) / "run").mkdir()
        hub = asyncio.create_task(
            serve(Config(hub=HubSettings(listen="127.0.0.1:0")), Path(home), lambda _: ready.set())
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({hub, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), await hub
        async with asyncio.timeout(120):
            for client in clients:
                await client.closed.wait()
        answers = [client.received for client in clients]
        hubs[0].readiness.stop()
        await hub
    assert early == [b""] * len(ADDRESSES)
    for (_, path, _), answer in zip(ADDRESSES, answers, strict=True):
        status = int(answer.split(b" ", 2)[1])
        assert 200 <= status < 500, (path, answer)
