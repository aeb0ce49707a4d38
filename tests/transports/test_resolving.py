"""Names become addresses off the loop and within bounds; what we open ourselves is opened where it was judged."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from interlock.judge.urls import UrlRules
from interlock.transports.http.client.origin import Origin
from interlock.transports.http.client.pool import Pool
from interlock.transports.http.client.reply import Reply
from interlock.transports.resolving import KEPT_S, MAX_NAMES, Resolver, guarded, judged_addresses
from interlock.wire.errors import Fault

LOOPBACK = UrlRules(networks=("127.0.0.0/8",), allowed_names=("here.example",))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The answers of the system's resolver; what is not here does not exist."""
    known: dict[str, list[str]] = {}

    def answer(host: str, *more: Any, **options: Any) -> Any:
        if host not in known:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return known


async def test_an_answer_is_remembered_for_a_while_and_so_is_that_there_is_none(names: dict[str, list[str]]) -> None:
    now = [0.0]
    resolver = Resolver(lambda: now[0])
    names["a.example"] = ["93.184.216.34"]
    assert await resolver.addresses("a.example") == ("93.184.216.34",)
    assert await resolver.addresses("b.example") == ()
    names["a.example"] = names["b.example"] = ["8.8.8.8"]
    assert await resolver.addresses("a.example") == ("93.184.216.34",)
    assert await resolver.addresses("b.example") == ()
    now[0] = KEPT_S + 1
    assert resolver.known("a.example") is None
    assert await resolver.addresses("b.example") == ("8.8.8.8",)
    resolver.close()


async def test_what_is_remembered_is_bounded(names: dict[str, list[str]]) -> None:
    resolver = Resolver()
    for number in range(MAX_NAMES + 10):
        await resolver.addresses(f"{number}.example")
    assert resolver.known("0.example") is None
    assert resolver.known(f"{MAX_NAMES + 9}.example") == ()
    resolver.close()


async def test_a_name_server_that_does_not_answer_costs_its_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def stuck(*arguments: object, **options: object) -> Any:
        release.wait(10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    resolver = Resolver(within_s=0.05)
    try:
        with pytest.raises(Fault) as caught:
            await resolver.addresses("slow.example")
        assert caught.value.name == "TIMEOUT"
    finally:
        release.set()
        resolver.close()


async def test_a_url_is_checked_with_every_address_of_its_name(names: dict[str, list[str]]) -> None:
    resolver = Resolver()
    names["good.example"] = ["93.184.216.34", "93.184.216.35"]
    names["mixed.example"] = ["93.184.216.34", "127.0.0.1"]
    assert await judged_addresses("https://good.example:8443/x", resolver) == ("93.184.216.34", "93.184.216.35")
    assert await judged_addresses("http://93.184.216.34/", resolver) == ("93.184.216.34",)
    for bad in ("https://mixed.example/", "https://none.example/", "http://127.0.0.1/", "ftp://good.example/"):
        with pytest.raises(Fault) as caught:
            await judged_addresses(bad, resolver)
        assert caught.value.name == "VALIDATION_BLOCKED"
    resolver.close()


class _Reply(Reply):
    """Keeps what came of a request."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.status = status

    def body(self, data: bytes) -> None:
        pass

    def done(self) -> None:
        self.ended.set_result(self.status)

    def failed(self, how: object) -> None:
        self.ended.set_result(how)


async def test_a_guarded_pool_connects_to_the_checked_address_and_nowhere_else(names: dict[str, list[str]]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    resolver = Resolver()
    names["here.example"] = ["127.0.0.1"]
    origin = Origin("http", "here.example", port)
    request = b"GET / HTTP/1.1\r\nhost: here.example\r\n\r\n"
    allowed = Pool(origin, guard=guarded(resolver, LOOPBACK))
    reply = _Reply()
    allowed.submit(request, reply)
    assert await asyncio.wait_for(reply.ended, 120) == 204
    refusing = Pool(origin, guard=guarded(resolver))
    refused = _Reply()
    refusing.submit(request, refused)
    failed: Any = await asyncio.wait_for(refused.ended, 120)
    assert "machine itself" in failed.why
    assert not failed.sent
    for pool in (allowed, refusing):
        await pool.close()
    server.close()
    resolver.close()
