"""Clients of `interlock stdio` that call and do not read: what the hub keeps for them is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from interlock.hub.admin.operations import Operations
from interlock.transports.unread_bytes import UnreadBytes
from interlock.web.control import ControlSocket
from waiting import until

from .running_hub import child, running_hub
from .test_stream_credentials import META, Stream

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such sockets")

BOUND = 3_000_000
CALL = {"name": "busy__echo", "arguments": {"text": "x" * 50_000}, "_meta": META}
CALLS = b"".join(
    json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": CALL}).encode() + b"\n"
    for number in range(20)
)
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"interlock/hello","params":{"role":"stdio"}}\n'


async def test_t37_answers_that_clients_of_streams_do_not_read_are_bounded() -> None:
    loop = asyncio.get_running_loop()
    unread = UnreadBytes(max_bytes_per_peer=BOUND)
    # A socket's address has little room, and a test's own folder a long name.
    with tempfile.TemporaryDirectory(prefix="il") as home, contextlib.ExitStack() as stack:
        path = str(Path(home) / "s")
        async with running_hub(Path(home), {"busy": child("busy_server.py")}) as hub:
            control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None), unread)
            await control.listen(Path(path))
            lazy: list[socket.socket] = []
            while not unread.closed:
                assert len(lazy) < 20, "nobody was cut off"
                lazy.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
                lazy[-1].setblocking(False)
                await loop.sock_connect(lazy[-1], path)
                before = unread.bytes
                await loop.sock_sendall(lazy[-1], HELLO + CALLS)
                await until(lambda before=before: unread.closed or unread.bytes > before + 500_000)  # type: ignore[misc]
                assert unread.bytes <= BOUND
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := await loop.sock_recv(lazy[0], 1 << 20):
                    received += piece
            assert received.count(b"\n") < 20, "the oldest was cut off"
            reader, writer = await asyncio.open_unix_connection(path)
            client = Stream(reader, writer)
            assert "result" in await client.ask("interlock/hello", {"role": "stdio"})
            assert "result" in await client.call()
            writer.close()
            for each in lazy:
                each.close()
            await until(lambda: not unread.bytes)
            await control.close()


async def test_t37_answers_that_a_client_leaves_unread_behind_its_own_end_are_bounded() -> None:
    loop = asyncio.get_running_loop()
    unread = UnreadBytes(max_bytes_per_peer=BOUND)
    with tempfile.TemporaryDirectory(prefix="il") as home, contextlib.ExitStack() as stack:
        path = str(Path(home) / "s")
        async with running_hub(Path(home), {"busy": child("busy_server.py")}) as hub:
            control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None), unread)
            await control.listen(Path(path))
            lazy: list[socket.socket] = []
            for _ in range(5):
                lazy.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
                lazy[-1].setblocking(False)
                await loop.sock_connect(lazy[-1], path)
                await loop.sock_sendall(lazy[-1], HELLO + CALLS)
                lazy[-1].shutdown(socket.SHUT_WR)
            await until(lambda: unread.closed)
            # Those within the bound are given up too, when their clients have read nothing for a while.
            for each in lazy:
                await until(lambda each=each: _has_ended(each))  # type: ignore[misc]
            await until(lambda: not unread.bytes)
            await control.close()


def _has_ended(client: socket.socket) -> bool:
    """Whether the hub has closed a connection, as its client sees without reading."""
    poll = select.poll()
    poll.register(client, select.POLLHUP)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
