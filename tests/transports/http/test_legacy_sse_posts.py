"""Messages of revision 2024-11-05 that come behind a large one: bounded, in order, each answered once it was taken."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec
from http_peer import Answer, Peer, RunningEndpoint, WaitingService, call, opened, post, reading_delayed, request

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.large_reading import LargeReading
from waiting import until

LARGE = 100_000
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class Stream:
    """A client's stream, and what it posts."""

    def __init__(self, place: RunningEndpoint, connections: contextlib.AsyncExitStack, principal_name: str) -> None:
        self._place = place
        self._connections = connections
        self._path = ""
        self._headers = {"Authorization": f"Bearer {principal_name}"}

    def message(self, id: int, size: int = 0) -> bytes:
        """A request with a message of about this size."""
        said = call("echo", id, arguments={"text": "x" * size}, _meta=META)
        return post(self._place.host, said, self._headers, self._path)

    async def post(self, *messages: bytes) -> Peer:
        """Post messages on a connection of their own, which closes with the test."""
        peer = await self._connections.enter_async_context(self._place.peer())
        peer.send(b"".join(messages))
        return peer

    async def open(self) -> None:
        self.peer = await self._connections.enter_async_context(self._place.peer())
        self.peer.send(request("GET", self._place.host, self._headers, path="/sse"))
        assert (await self.peer.answer()).streams
        self._path = (await self.peer.event())["data"]

    async def answered(self) -> int:
        """The id of the next answer."""
        event = await self.peer.event()
        return int(msgspec.json.decode(event["data"])["id"])


@contextlib.asynccontextmanager
async def streaming(place: RunningEndpoint, principal_name: str = "anyone") -> AsyncIterator[Stream]:
    async with contextlib.AsyncExitStack() as connections:
        stream = Stream(place, connections, principal_name)
        await stream.open()
        yield stream


def refused(answer: Answer, id: int) -> bool:
    """Whether the request with this id is refused because too much waits."""
    error = answer.json["error"]
    assert (answer.json["id"], error["data"]["name"], answer.headers["retry-after"]) == (id, "RESOURCE_EXHAUSTED", "1")
    return answer.status == 503


async def test_messages_behind_a_large_one_are_taken_in_order_and_every_id_is_answered(place: RunningEndpoint) -> None:
    async with streaming(place) as stream:
        with reading_delayed() as go_on:
            large = await stream.post(stream.message(0, LARGE))
            await until(lambda: LargeReading.here().buffered_bytes >= LARGE)
            small = await stream.post(*(stream.message(number) for number in range(1, 61)))
            await until(lambda: place.endpoint.legacy_sse.waiting.bytes)
            assert place.service.served == 0
            go_on.set()
            assert [await stream.answered() for _ in range(61)] == list(range(61))
            assert (await large.answer()).status == 202
            assert {(await small.answer()).status for _ in range(60)} == {202}
        assert place.endpoint.legacy_sse.waiting.bytes == 0


async def test_more_messages_than_the_bound_are_refused_with_their_ids() -> None:
    bounds = HttpBounds(sse_waiting_per_principal=4)
    async with opened(WaitingService(), bounds) as place, streaming(place) as stream:
        with reading_delayed() as go_on:
            peers = [await stream.post(stream.message(0, LARGE))]
            await until(lambda: LargeReading.here().buffered_bytes >= LARGE)
            for number in range(1, 5):
                before = place.endpoint.legacy_sse.waiting.bytes
                peers.append(await stream.post(stream.message(number)))
                await until(lambda before=before: place.endpoint.legacy_sse.waiting.bytes > before)  # type: ignore[misc]
            for number in range(5, 9):
                late = await stream.post(stream.message(number))
                assert refused(await late.answer(), number)
            go_on.set()
            assert [await stream.answered() for _ in range(5)] == list(range(5))
            for peer in peers:
                assert (await peer.answer()).status == 202


async def test_more_bytes_than_the_bound_are_refused_and_another_principal_has_one_message_in_any_case() -> None:
    bounds = HttpBounds(sse_waiting_bytes_per_principal=60_000, sse_waiting_bytes=60_000)
    async with (
        opened(WaitingService(), bounds) as place,
        streaming(place, "ada") as ada,
        streaming(place, "bob") as bob,
    ):
        waiting = place.endpoint.legacy_sse.waiting
        with reading_delayed() as go_on:
            peers = [await ada.post(ada.message(0, LARGE)), await bob.post(bob.message(0, LARGE))]
            await until(lambda: LargeReading.here().buffered_bytes >= 2 * LARGE)
            peers.append(await ada.post(ada.message(1, 50_000)))
            await until(lambda: waiting.bytes > 50_000)
            late = await ada.post(ada.message(2, 50_000))
            assert refused(await late.answer(), 2)
            peers.append(await bob.post(bob.message(1, 50_000)))
            await until(lambda: waiting.bytes > 100_000)
            go_on.set()
            for stream in (ada, bob):
                assert [await stream.answered(), await stream.answered()] == [0, 1]
            for peer in peers:
                assert (await peer.answer()).status == 202


async def test_messages_that_wait_are_refused_when_their_stream_ends(place: RunningEndpoint) -> None:
    async with streaming(place) as stream:
        with reading_delayed():
            large = await stream.post(stream.message(0, LARGE))
            await until(lambda: LargeReading.here().buffered_bytes >= LARGE)
            small = await stream.post(*(stream.message(number) for number in range(1, 4)))
            await until(lambda: place.endpoint.legacy_sse.waiting.bytes)
            await stream.peer.close()
            assert (await large.answer()).status == 404
            for number in range(1, 4):
                answer = await small.answer()
                assert (answer.status, answer.json["id"]) == (404, number)
            assert place.endpoint.legacy_sse.waiting.bytes == 0


async def test_a_message_whose_client_has_gone_waits_no_more(place: RunningEndpoint) -> None:
    async with streaming(place) as stream:
        with reading_delayed() as go_on:
            large = await stream.post(stream.message(0, LARGE))
            await until(lambda: LargeReading.here().buffered_bytes >= LARGE)
            gone = await stream.post(stream.message(1))
            await until(lambda: place.endpoint.legacy_sse.waiting.bytes)
            await gone.close()
            await until(lambda: not place.endpoint.legacy_sse.waiting.bytes)
            last = await stream.post(stream.message(2))
            await until(lambda: place.endpoint.legacy_sse.waiting.bytes)
            go_on.set()
            assert [await stream.answered(), await stream.answered()] == [0, 2]
        for peer in (large, last):
            assert (await peer.answer()).status == 202
