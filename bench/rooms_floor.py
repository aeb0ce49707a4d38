"""The floor under rooms: a plain broadcast that checks nothing, with the fastest way that each library offers.

    python bench/rooms_floor.py websockets|picows PORT

`websockets` is its sans-I/O half with one frame for all listeners; `picows` writes a frame for each.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

peers: set[Any] = set()


class Plain(asyncio.Protocol):
    """One listener, or the sender."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.protocol = ServerProtocol()

    def data_received(self, data: bytes) -> None:
        protocol = self.protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                protocol.send_response(protocol.accept(event))
                peers.add(self)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                frame = Frame(Opcode.TEXT, event.data).serialize(mask=False)
                for peer in peers:
                    if peer is not self:
                        peer.transport.write(frame)
        for out in protocol.data_to_send():
            self.transport.write(out)

    def connection_lost(self, exc: Exception | None) -> None:
        peers.discard(self)


async def with_websockets(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Plain, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


async def with_picows(port: int) -> None:
    from picows import WSListener, WSMsgType, ws_create_server  # type: ignore[import-not-found,unused-ignore]

    class Listener(WSListener):  # type: ignore[misc,unused-ignore]
        def on_ws_connected(self, transport: Any) -> None:
            peers.add(transport)

        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            data = frame.get_payload_as_bytes()
            for peer in peers:
                if peer is not transport:
                    peer.send(WSMsgType.TEXT, data)

        def on_ws_disconnected(self, transport: Any) -> None:
            peers.discard(transport)

    server = await ws_create_server(lambda _: Listener(), "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run((with_picows if sys.argv[1] == "picows" else with_websockets)(int(sys.argv[2])))
