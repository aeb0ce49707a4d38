"""Connections that nobody uses are shared by all servers of an origin; those in use are each server's own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interlock.transports.http.client import pool as pools
from interlock.transports.http.client.channel import HttpChannel
from interlock.transports.http.client.origin import Origin
from interlock.transports.http.client.pool import Pool
from interlock.transports.http.client.reply import Reply, ReplyFailed
from interlock.wire.errors import Fault
from waiting import until

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class IdleServer:
    """A server that answers what is asked of `/`, and nothing else."""

    def __init__(self) -> None:
        self.open = self.met = 0
        self.origin: Origin

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open, self.met = self.open + 1, self.met + 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET / "):
                    writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[IdleServer]:
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.origin = Origin("http", "127.0.0.1", server.sockets[0].getsockname()[1])
        try:
            yield self
        finally:
            server.close()


class Asked(Reply):
    """One request, and what became of it."""

    def __init__(self) -> None:
        self.came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._body = b""

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        pass

    def body(self, data: bytes) -> None:
        self._body += data

    def done(self) -> None:
        self.came.set_result(self._body)

    def failed(self, how: ReplyFailed) -> None:
        self.came.set_exception(ConnectionError(how.why))


def ask(pool: Pool, path: str = "/") -> Asked:
    asked = Asked()
    pool.submit(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode(), asked)
    return asked


async def settled(place: IdleServer, count: int) -> None:
    await until(lambda: place.open == count)


async def test_servers_of_one_origin_take_each_others_idle_connections() -> None:
    async with IdleServer().running() as place:
        pools = [Pool(place.origin) for _ in range(20)]
        for pool in pools * 3:
            assert await ask(pool).came == b"{}"
        assert place.met == 1
        for pool in pools:
            await pool.close()
        await settled(place, 0)


async def test_a_server_whose_connections_are_all_busy_takes_none_of_its_neighbour() -> None:
    async with IdleServer().running() as place:
        slow, quick = Pool(place.origin, size=3), Pool(place.origin, size=3)
        assert await ask(quick).came == b"{}"
        waiting = [ask(slow, "/never") for _ in range(10)]
        assert await ask(quick).came == b"{}"
        await settled(place, 4)
        assert slow.connections == 3
        assert not any(asked.came.done() for asked in waiting)
        await slow.close()
        for asked in waiting:
            with pytest.raises(ConnectionError):
                await asked.came
        assert await ask(quick).came == b"{}"
        await quick.close()
        await settled(place, 0)


async def test_what_is_idle_outlives_one_of_its_users_and_not_the_last() -> None:
    async with IdleServer().running() as place:
        first, second = Pool(place.origin), Pool(place.origin)
        assert await ask(first).came == b"{}"
        await first.close()
        assert await ask(second).came == b"{}"
        assert place.met == 1
        await second.close()
        await settled(place, 0)
        third = Pool(place.origin)
        assert await ask(third).came == b"{}"
        assert place.met == 2
        await third.close()


async def test_a_closed_pool_sends_nothing_on_what_its_neighbours_left() -> None:

    async with IdleServer().running() as place:
        first, second = Pool(place.origin), Pool(place.origin)
        assert await ask(second).came == b"{}"
        await first.close()
        with pytest.raises(Fault, match="closed"):
            ask(first)
        await second.close()


async def test_only_those_who_connect_in_the_same_way_share() -> None:
    async def guard(origin: Origin) -> str:
        return "127.0.0.1"

    async with IdleServer().running() as place:
        pools = [
            Pool(place.origin),
            Pool(place.origin, guard=guard),
            Pool(place.origin, context=ssl.create_default_context()),
        ]
        for pool in pools:
            assert await ask(pool).came == b"{}"
        assert place.met == 3
        for pool in pools:
            await pool.close()


async def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "MAX_IDLE", 2)
    async with IdleServer().running() as place:
        pool = Pool(place.origin)
        await asyncio.gather(*(ask(pool).came for _ in range(6)))
        await settled(place, 2)
        await pool.close()


@pytest.mark.parametrize("known", [True, False], ids=["known head", "parsed head"])
@pytest.mark.parametrize("released", [True, False], ids=["released", "held to its end"])
async def test_a_connection_whose_response_was_held_is_read_for_the_next_request(released: bool, known: bool) -> None:
    async with IdleServer().running() as place:
        pool = Pool(place.origin)
        if known:
            await ask(pool).came
        held = ask(pool, "/silent")
        connection = await until(lambda: held.connection)
        assert isinstance(connection, HttpChannel)
        connection.hold(on=True)
        if released:
            connection.hold(on=False)
        connection.data_received(ANSWER)  # These bytes were received before the socket was paused.
        assert await held.came == b"{}"
        following = ask(pool)
        await until(following.came.done)
        assert (following.came.result(), place.met) == (b"{}", 1)
        await pool.close()
