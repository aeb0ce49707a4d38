"""ASGI applications beside the endpoint: every answer is the one that uvicorn gives, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from http_peer import WaitingService

from interlock.transports.http.server.endpoint import McpEndpoint
from interlock.transports.http.server.serve import start

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

PLAIN = (b"Content-Type", b"text/plain")


async def answers(send: Send, body: bytes, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [PLAIN, *headers]})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    """Answer with the body, and with what ASGI says of the request."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    keys = ("method", "path", "raw_path", "query_string", "http_version", "root_path", "scheme", "type", "state")
    headers = [name for name, _ in scope["headers"]]
    await answers(send, repr([scope[key] for key in keys]).encode() + repr(headers).encode() + body)


async def measured(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"twelve bytes", (b"content-length", b"12"))


async def in_pieces(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200})
    for piece in (b"one", b"", b"two"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


async def without_a_body(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def closing(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"bye", (b"Connection", b"Close"), (b"content-length", b"3"))


async def of_its_own_status(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"", status=299)


async def chunked(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"piece", (b"Transfer-Encoding", b"chunked"))


async def failing(scope: Message, receive: Receive, send: Send) -> None:
    raise ValueError("a defect")


async def silent(scope: Message, receive: Receive, send: Send) -> None:
    pass


async def failing_late(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [PLAIN]})
    raise ValueError("a defect")


async def ending_early(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def too_long(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"longer", (b"content-length", b"3"))


async def too_short(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"short", (b"content-length", b"30"))


async def body_first(scope: Message, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"x"})


async def split_header(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"x", (b"content-length", b"1"), (b"x-one", b"1\r\nx-two: 2"))


async def bad_name(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"x", (b"x one", b"1"))


async def twice(scope: Message, receive: Receive, send: Send) -> None:
    await answers(send, b"first")
    await answers(send, b"second")


APPS: list[App] = [
    echo,
    measured,
    in_pieces,
    without_a_body,
    closing,
    of_its_own_status,
    chunked,
    failing,
    silent,
    failing_late,
    ending_early,
    too_long,
    too_short,
    body_first,
    twice,
]
REQUESTS = {
    "get": b"GET /a%20b/c?d=%20e HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
    "two gets": b"GET / HTTP/1.1\r\nHost: HOST\r\n\r\nGET /next HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
    "head": b"HEAD / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
    "post": b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody",
}
OLD = b"GET / HTTP/1.0\r\nHost: HOST\r\n\r\n"


@contextlib.asynccontextmanager
async def ours(app: App) -> AsyncIterator[int]:
    server = await start(McpEndpoint(WaitingService()), app)
    try:
        yield server.port
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def theirs(app: App) -> AsyncIterator[int]:
    config = uvicorn.Config(app, log_level="critical", server_header=False, lifespan="off", http="httptools")
    server = uvicorn.Server(config)
    server.config.load()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.lifespan = config.lifespan_class(config)
        await server.startup([listening])
        yield listening.getsockname()[1]
        for each in server.servers:
            each.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()


async def answer(port: int, request: bytes) -> bytes:
    """Everything that comes until the server closes, without the time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace(b"HOST", b"127.0.0.1:%d" % port))
    received = b""
    with contextlib.suppress(ConnectionError):
        received = await asyncio.wait_for(reader.read(), 120)
    writer.close()
    return re.sub(rb"date: [^\r]*\r\n", b"", received)


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("app", APPS, ids=lambda app: app.__name__)
async def test_an_application_is_answered_for_as_by_uvicorn(app: App, request_: bytes) -> None:
    async with ours(app) as here, theirs(app) as there:
        assert await answer(here, request_) == await answer(there, request_)


@pytest.mark.parametrize("app", [app for app in APPS if app is not echo], ids=lambda app: app.__name__)
async def test_a_client_of_http_1_0_gets_the_same_answer_without_chunks(app: App) -> None:
    """Unlike from uvicorn."""
    async with ours(app) as port:
        given = [await answer(port, request) for request in (REQUESTS["get"], OLD)]
    (head, body), (old_head, old_body) = (each.partition(b"\r\n\r\n")[::2] for each in given)
    assert old_head == re.sub(rb"\r\ntransfer-encoding: chunked", b"", head)
    assert old_body == (unchunked(body) if b"transfer-encoding" in head else body)


def unchunked(body: bytes) -> bytes:
    """The content of chunks, also where the last ones are missing."""
    found = b""
    while body and (size := int(body.partition(b"\r\n")[0], 16)):
        rest = body.partition(b"\r\n")[2]
        found, body = found + rest[:size], rest[size + 2 :]
    return found


@pytest.mark.parametrize("app", [split_header, bad_name], ids=lambda app: app.__name__)
async def test_a_header_that_http_does_not_have_fails_the_request_with_an_answer(app: App) -> None:
    async with ours(app) as port:
        head, _, body = (await answer(port, REQUESTS["get"])).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"x-two" not in head
    assert body == b"Internal Server Error"


async def test_a_client_that_waits_to_be_told_to_go_on_is_told_when_the_application_reads() -> None:
    head = b"POST / HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with ours(echo) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.replace(b"HOST", b"127.0.0.1:%d" % port))
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        assert (await asyncio.wait_for(reader.readline(), 120)).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_an_application_hears_that_its_client_has_gone() -> None:
    heard: asyncio.Queue[Message] = asyncio.Queue()
    waits = asyncio.Event()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        waits.set()
        heard.put_nowait(await receive())
        await answers(send, b"to nobody")
        heard.put_nowait(await receive())

    async with ours(app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
        await asyncio.wait_for(waits.wait(), 120)
        writer.close()
        for _ in range(2):
            assert await asyncio.wait_for(heard.get(), 120) == {"type": "http.disconnect"}


async def test_an_application_waits_for_a_client_that_does_not_read() -> None:
    sent = 0
    ended = asyncio.Event()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200})
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})
        ended.set()

    async with ours(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
        assert sent < 64
        received = len(await asyncio.wait_for(reader.read(), 120))
        await asyncio.wait_for(ended.wait(), 120)
        assert received > 64_000_000
        writer.close()


async def test_a_server_that_stops_cancels_what_does_not_end_in_time() -> None:
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with ours(app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
        await asyncio.wait_for(begun.wait(), 120)
    await asyncio.wait_for(cancelled.wait(), 120)
    writer.close()
