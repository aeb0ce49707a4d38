"""A byte relay: the floor. It copies between a client and the upstream, and looks at nothing.

With `--kept N` it keeps N connections to the upstream, and each client's requests go round its part of them: the floor
of whatever stands before N servers.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import deque
from typing import cast

import uvloop

CLIENTS = 32
"""How many share the kept connections."""


class Side(asyncio.Protocol):
    """One of the two connections. Bytes that come before the other side is there wait."""

    def __init__(self, other: Side | None = None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.early: list[bytes] = []
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        for data in self.early:
            self.transport.write(data)
        self.early.clear()

    def data_received(self, data: bytes) -> None:
        other = self.other
        if other is not None and other.transport is not None:
            other.transport.write(data)
        elif other is not None:
            other.early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Door(Side):
    """A client's side: it opens the other one."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.other = Side(self)
        self.opening = asyncio.create_task(self.open(self.other))

    async def open(self, side: Side) -> None:
        await asyncio.get_running_loop().create_connection(lambda: side, "127.0.0.1", self.port)
        if self.gone and side.transport is not None:
            side.transport.close()


class RoundDoor(Side):
    """A client's side with several others, which were open before it came and stay open when it goes."""

    def __init__(self, free: deque[Side], part: int) -> None:
        super().__init__()
        self.free = free
        self.part = part
        self.others: deque[Side] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.others.extend(self.free.popleft() for _ in range(min(self.part, len(self.free))))
        for side in self.others:
            side.other = self

    def data_received(self, data: bytes) -> None:
        self.others.rotate(1)
        side = self.others[0]
        assert side.transport is not None
        side.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        for side in self.others:
            side.other = None
        self.free.extend(self.others)


async def run(port: int, upstream: int, kept: int) -> None:
    loop = asyncio.get_running_loop()
    free: deque[Side] = deque()
    for _ in range(kept):
        free.append((await loop.create_connection(Side, "127.0.0.1", upstream))[1])
    part = max(kept // CLIENTS, 1)
    door = (lambda: RoundDoor(free, part)) if kept else (lambda: Door(upstream))
    server = await loop.create_server(door, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", type=int, required=True)
    parser.add_argument("--kept", type=int, default=0)
    options = parser.parse_args()
    uvloop.run(run(options.port, options.upstream, options.kept))
