"""Answers of many megabytes on event streams: a client that reads gets them, and one that was away gets them later."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest
from http_peer import Client, Peer, RunningEndpoint, WaitingService, call, opened, post, request

from interlock.transports.exchange import Exchange
from interlock.transports.http.bounds import HttpBounds
from waiting import until

MEGABYTES = 7
LARGE = b'{"text":"%b"}' % (b"x" * MEGABYTES * 1_000_000)
HANDSHAKE = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@contextlib.asynccontextmanager
async def legacy_calls(place: RunningEndpoint, *ids: str) -> AsyncIterator[tuple[Peer, list[Exchange]]]:
    """A stream of revision 2024-11-05, and open calls of its client."""
    async with place.peer() as stream, place.peer() as posting:
        stream.send(request("GET", place.host, {}, path="/sse"))
        await stream.answer()
        path = (await stream.event())["data"]
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}
        for message in (begin, *(call("slow", id_) for id_ in ids)):
            posting.send(post(place.host, message, path=path))
            assert (await posting.answer()).status == 202
        await stream.event()
        yield stream, [await place.service.next() for _ in ids]


async def id_of_answer(peer: Peer) -> object:
    """The id of the next answer; None where the stream is over."""
    while event := await peer.event():
        if event.get("data") and "id" in (message := msgspec.json.decode(event["data"])):
            return message["id"]
    return None


async def test_a_client_that_reads_gets_several_large_answers_that_come_in_one_moment() -> None:
    ids = ("a", "b", "c", "d")
    async with opened(WaitingService()) as place, legacy_calls(place, *ids) as (stream, exchanges):
        for exchange in exchanges:
            exchange.result(LARGE)
        assert [await id_of_answer(stream) for _ in ids] == list(ids)
        assert place.server.listener.overrun == 0


async def test_a_stream_with_unread_bytes_gets_no_comment_and_stays_open() -> None:
    bounds = HttpBounds(keep_alive_s=0.1, stream_bytes=1_000_000)
    async with opened(WaitingService(), bounds) as place, legacy_calls(place, "a") as (stream, (exchange,)):
        listener = place.server.listener
        exchange.result(LARGE)
        for _ in range(2):
            due = set(listener.streams.values())
            await until(lambda due=due: not due & set(listener.streams.values()))  # type: ignore[misc]
        assert await id_of_answer(stream) == "a"
        assert listener.overrun == 0


@pytest.mark.parametrize("answers", [1, 2])
async def test_large_answers_given_while_the_client_was_away_are_replayed(answers: int) -> None:
    async with opened(WaitingService()) as place:
        client = await place.handshake()
        cut: list[tuple[str, Exchange]] = []
        for number in range(answers):
            peer = await client.open(call("slow", id=number))
            exchange = await place.service.next()
            exchange.notify("notifications/message", b"{}")
            await peer.answer()
            cut.append(((await peer.event())["id"], exchange))
            await peer.close()
        channel = place.service.sessions[0].channel
        await until(lambda: not channel.open_streams)
        for _, exchange in cut:
            exchange.result(LARGE)
        channel.notify("notifications/message", b"{}")
        for number, (last, _) in enumerate(cut):
            back = await client.listen(last)
            assert (await back.answer()).status == 200
            assert await id_of_answer(back) == number
            await back.close()


async def test_large_answers_that_were_written_give_way_to_those_that_were_not() -> None:
    bounds = HttpBounds(replay_bytes=1_000_000, replay_unwritten_bytes=2 * len(LARGE))
    async with opened(WaitingService(), bounds) as place:
        client = await place.handshake()
        kept: list[tuple[str, Exchange]] = []
        for number in range(4):
            peer = await client.open(call("slow", id=number))
            exchange = await place.service.next()
            exchange.notify("notifications/message", b"{}")
            await peer.answer()
            kept.append(((await peer.event())["id"], exchange))
            if not number:
                exchange.result(LARGE)
                assert await id_of_answer(peer) == 0
            await peer.close()
        await until(lambda: not place.service.sessions[0].channel.open_streams)
        for _, exchange in kept[1:]:
            exchange.result(LARGE)
        found = []
        for number, (last, _) in enumerate(kept):
            back = await client.listen(last)
            if (await back.answer()).status == 200 and await id_of_answer(back) == number:
                found.append(number)
            await back.close()
        assert found == [3], "the bytes that nobody has read yet are bounded, too"


async def cut_off(place: RunningEndpoint, client: Client, id: int = 0) -> tuple[str, Exchange]:
    """A call whose client left after the first event of its stream, and the id of that event."""
    peer = await client.open(call("slow", id=id))
    exchange = await place.service.next()
    exchange.notify("notifications/message", b"{}")
    await peer.answer()
    last = (await peer.event())["id"]
    await peer.close()
    await until(lambda: not exchange.reachable)
    return last, exchange


async def is_replayed(client: Client, last: str) -> bool:
    back = await client.listen(last)
    found = (await back.answer()).status == 200 and await id_of_answer(back) is not None
    await back.close()
    return found


@pytest.mark.parametrize("answers", [1, 2], ids=["one answer each", "two answers each"])
async def test_t26_many_sessions_of_one_caller_leave_memory_for_the_answers_of_another(answers: int) -> None:
    size = 400_000
    large, small = (b'{"text":"%b"}' % (b"x" * length) for length in (size, 20_000))
    bounds = HttpBounds(replay_bytes=100_000, replay_unwritten_bytes=2 * size + 10_000, replay_total_bytes=8 * size)
    async with opened(WaitingService(), bounds) as place:
        greedy = []
        for _ in range(9):
            client = await place.handshake(principal_name="greedy")
            for _ in range(answers):
                last, exchange = await cut_off(place, client)
                exchange.result(large)
            greedy.append((client, last))
        fill = await place.handshake(principal_name="greedy")
        last, exchange = await cut_off(place, fill)
        exchange.result(b'{"text":"%b"}' % (b"x" * (size - 10_000)))
        other = await place.handshake(principal_name="another")
        kept = [await cut_off(place, other, id_) for id_ in range(2)]
        for _, exchange in kept:
            exchange.result(small)
        assert [await is_replayed(other, last) for last, _ in kept] == [True, True]
        assert sum([await is_replayed(client, last) for client, last in greedy]) >= 6, "no more is dropped than needed"


async def test_a_caller_keeps_as_much_as_is_still_free() -> None:
    size = 400_000
    large = b'{"text":"%b"}' % (b"x" * size)
    bounds = HttpBounds(replay_bytes=100_000, replay_unwritten_bytes=2 * size + 10_000, replay_total_bytes=7 * size)
    async with opened(WaitingService(), bounds) as place:
        found = []
        for _ in range(2):
            client = await place.handshake(principal_name="greedy")
            kept = [await cut_off(place, client, id_) for id_ in range(2)]
            for _, exchange in kept:
                exchange.result(large)
            found.append([await is_replayed(client, last) for last, _ in kept])
        assert found == [[True, True], [False, True]]
