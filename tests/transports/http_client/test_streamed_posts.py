"""Requests whose answers are read piece by piece, on connections that are used again."""

from __future__ import annotations

import asyncio
import re

from interlock.transports.http.client.origin import Origin
from interlock.transports.http.client.streamed_post import StreamedAnswer, StreamedPost
from waiting import until

LENGTH = re.compile(rb"(?i)content-length: (\d+)")


def answer(size: int) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % size
    return head + b"x" * size


async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with as many bytes as it asks for, and not at all where it asks for none."""
    try:
        while True:
            length = LENGTH.search(await reader.readuntil(b"\r\n\r\n"))
            assert length is not None
            if size := int(await reader.readexactly(int(length[1]))):
                writer.write(answer(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def size_of(answered: StreamedAnswer) -> int:
    await answered.start(60)
    return sum([len(piece) async for piece in answered.pieces(60)])


async def test_a_connection_is_read_after_a_long_answer_that_came_in_one_piece() -> None:
    async def guard(origin: Origin) -> str:
        return "127.0.0.1"

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    post = StreamedPost(f"http://127.0.0.1:{port}/v1", {}, guard=guard, most_bytes=10_000_000)
    assert await size_of(post.send(b"100")) == 100
    large = post.send(b"0")
    connection = await until(lambda: large.connection)
    connection.data_received(answer(70_000))  # The loop may read all of it at once.
    assert await size_of(large) == 70_000
    async with asyncio.timeout(60):
        assert await size_of(post.send(b"200")) == 200
    await post.close()
    server.close()
