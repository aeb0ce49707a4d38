"""A byte relay: the floor. It copies between a client and the upstream, and looks at nothing."""

from __future__ import annotations

import argparse
import asyncio
from typing import cast

import uvloop


class Side(asyncio.Protocol):
    """One of the two connections. What comes before the other is there waits."""

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


async def run(port: int, upstream: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Door(upstream), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", type=int, required=True)
    options = parser.parse_args()
    uvloop.run(run(options.port, options.upstream))
