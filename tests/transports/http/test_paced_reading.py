"""A client that sends much at once is read a little in each turn of the loop, and nobody beside it waits for that."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from http_peer import RunningEndpoint, WaitingService, modern, opened, post
from test_connection import CONVERSATIONS, _undated, answers_to

from interlock.transports import read_queue
from interlock.transports.http.bounds import FREE_CHUNKS, MIN_CHUNK, HttpBounds
from interlock.transports.http.server.request_reader import RequestReader
from interlock.transports.read_queue import REQUEST_PIECE_BYTES
from turn_meter import metered
from waiting import until

MANY = 1_000
FEW = 8
"""A turn of the loop begins and ends in the middle of a turn of the meter."""


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    if request.param and sys.platform == "win32":
        pytest.skip("there is no uvloop")
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
def shortest_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn's share is spent with the first piece, or the first request: what a turn does can be counted."""
    monkeypatch.setattr(read_queue, "TURN_S", 1e-9)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the parser handed over a piece of a body."""
    counts: Counter[str] = Counter()
    on_body = RequestReader.on_body

    def counted(self: RequestReader, body: bytes) -> None:
        counts["body"] += 1
        on_body(self, body)

    monkeypatch.setattr(RequestReader, "on_body", counted)
    return counts


def served(place: RunningEndpoint) -> Callable[[], int]:
    return lambda: len(place.service.paths)


@pytest.mark.usefixtures("shortest_turn")
async def test_a_turn_answers_a_few_of_the_pipelined_requests_of_one_connection(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host, id=-1))
        await peer.answer()
        with metered(lambda: place.service.served) as meter:
            peer.send(b"".join(modern(place.host, id=i) for i in range(MANY)))
            for number in range(MANY):
                assert (await peer.answer()).json["id"] == number
    assert meter.most <= FEW


@pytest.mark.usefixtures("shortest_turn")
async def test_a_turn_answers_a_few_of_the_pipelined_requests_that_are_refused(place: RunningEndpoint) -> None:
    one = post(place.host, b"{")
    asked = one * (20_000 // len(one))
    async with place.peer() as peer:
        with metered(served(place)) as meter:
            peer.send(asked)
            for _ in range(20_000 // len(one)):
                assert (await peer.answer()).status == 400
    # The service is asked up to three times who sent a refused request.
    assert meter.most <= 3 * FEW


@pytest.mark.usefixtures("shortest_turn")
@pytest.mark.parametrize("form", ["plain", "call"])
async def test_t38_a_turn_answers_a_few_of_the_pipelined_requests_that_offer_an_upgrade(
    place: RunningEndpoint, form: str
) -> None:
    offer = {"Connection": "upgrade", "Upgrade": "h2c"}
    if form == "plain":
        asked = [
            f"GET /mcp HTTP/1.1\r\nHost: {place.host}\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n".encode()
        ] * MANY
    else:
        asked = [modern(place.host, id=i, **offer) for i in range(MANY)]
    async with place.peer() as peer:
        with metered(served(place)) as meter:
            peer.send(b"".join(asked))
            for number in range(MANY):
                answer = await peer.answer()
                assert answer.status == 405 if form == "plain" else answer.json["id"] == number
        peer.send(modern(place.host, id=-1))
        assert (await peer.answer()).json["id"] == -1
    # The service is asked twice who sent a request whose body is not known to be whole.
    assert meter.most <= 2 * FEW


@pytest.mark.usefixtures("shortest_turn")
async def test_many_connections_share_a_turn(place: RunningEndpoint) -> None:
    async def flood() -> None:
        async with place.peer() as peer:
            peer.send(b"".join(modern(place.host, id=i) for i in range(100)))
            for number in range(100):
                assert (await peer.answer()).json["id"] == number

    with metered(lambda: place.service.served) as meter:
        await asyncio.gather(*(flood() for _ in range(20)))
    # Each connection has its first request answered at once, when its bytes come.
    assert meter.most <= 2 * 20 + FEW
    assert meter.turns >= 20 * 100 / FEW


async def test_calls_of_others_pass_between_pipelined_requests(place: RunningEndpoint) -> None:
    flood = b"".join(modern(place.host, id=i) for i in range(20 * MANY))
    async with place.peer() as peer, place.peer() as other:
        peer.send(flood)
        await peer.answer()
        for number in range(10):
            other.send(modern(place.host, id=number))
            assert (await other.answer()).json["id"] == number
        assert place.service.served < 20 * MANY, "the others waited for the whole flood"


@pytest.mark.usefixtures("shortest_turn")
@pytest.mark.parametrize("path", ["/mcp", "/app"])
async def test_a_turn_reads_a_little_of_a_body_in_small_chunks(
    place: RunningEndpoint, pieces: Counter[str], path: str
) -> None:
    body = b"[" + b" " * (MIN_CHUNK + 1) * FREE_CHUNKS * 2 + b"]"
    async with place.peer() as peer:
        with metered(lambda: pieces["body"]) as meter:
            peer.send(chunked(place.host, body, MIN_CHUNK + 1, path))
            answer = await peer.answer()
    assert answer.status == (200 if path == "/app" else 400)
    assert path == "/mcp" or answer.body == b"/app " + body
    assert pieces["body"] > FREE_CHUNKS * 2
    assert meter.most <= 3 * REQUEST_PIECE_BYTES / MIN_CHUNK


@pytest.mark.parametrize("path", ["/mcp", "/app"])
async def test_a_body_of_too_many_tiny_chunks_is_refused(
    place: RunningEndpoint, pieces: Counter[str], path: str
) -> None:
    async with place.peer() as peer:
        peer.send(chunked(place.host, b" " * FREE_CHUNKS * 10, 1, path))
        answer = await peer.answer()
    assert answer.status == 400
    assert b"chunks of fewer than 16 bytes" in answer.body
    assert pieces["body"] <= FREE_CHUNKS + REQUEST_PIECE_BYTES, "the rest of the piece is still handed over"
    assert place.server.listener.bodies.bytes == 0


@pytest.mark.parametrize(("size", "count"), [(1, FREE_CHUNKS - 10), (MIN_CHUNK, FREE_CHUNKS * 3)])
async def test_small_chunks_within_the_bound_are_read(place: RunningEndpoint, size: int, count: int) -> None:
    async with place.peer() as peer:
        peer.send(chunked(place.host, b"x" * size * count, size, "/app"))
        assert (await peer.answer()).body == b"/app " + b"x" * size * count


@pytest.mark.usefixtures("shortest_turn")
def test_answers_are_the_same_however_little_a_turn_reads() -> None:
    for conversation in CONVERSATIONS:
        one_by_one = [conversation[i : i + 1] for i in range(len(conversation))]
        assert _undated(answers_to([conversation])) == _undated(answers_to(one_by_one))


@pytest.mark.usefixtures("shortest_turn")
async def test_a_refusal_behind_requests_that_wait_for_a_turn_is_answered(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(modern(place.host) * 3 + b"rubbish\r\n\r\n" * 1_000)
        everything = await peer.rest()
    assert [part[:3] for part in everything.split(b"HTTP/1.1 ")[1:]] == [b"200"] * 3 + [b"400"]


@pytest.mark.usefixtures("shortest_turn")
async def test_everything_that_was_sent_is_answered_also_where_the_client_ends_its_half(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(b"".join(modern(place.host, id=i) for i in range(100)))
        peer.writer.write_eof()
        assert (await peer.rest()).count(b"HTTP/1.1 200") == 100


@pytest.mark.usefixtures("shortest_turn")
async def test_bytes_that_wait_are_bounded_over_all_connections() -> None:
    bounds = HttpBounds(held_bytes=250_000)
    async with opened(WaitingService(), bounds) as place, place.peer() as one, place.peer() as two:
        for peer in (one, two):
            peer.send(modern(place.host) * (100_000 // len(modern(place.host))))
        answers = {asyncio.ensure_future(peer.rest()) for peer in (one, two)}
        done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert done.pop().result().count(b"HTTP/1.1 503") == 1
        waiting.pop().cancel()
        await until(lambda: place.server.listener.bodies.bytes == 0)


@pytest.mark.usefixtures("shortest_turn")
async def test_large_bodies_that_come_together_are_read_one_after_the_other() -> None:
    body = b"x" * 1_000_000

    async def upload(place: RunningEndpoint) -> int:
        async with place.peer() as peer:
            peer.send(chunked(place.host, body, 1_000, "/app"))
            return (await peer.answer()).status

    async with opened(WaitingService(), HttpBounds(held_bytes=12_000_000)) as place:
        assert await asyncio.gather(*(upload(place) for _ in range(12))) == [200] * 12
        assert place.server.listener.bodies.bytes == 0


@pytest.mark.usefixtures("shortest_turn")
async def test_requests_of_others_pass_between_large_bodies(place: RunningEndpoint, pieces: Counter[str]) -> None:
    async def upload() -> None:
        async with place.peer() as peer:
            peer.send(chunked(place.host, b"x" * 1_000_000, 1_000, "/app"))
            assert (await peer.answer()).status == 200
            finished.append("upload")

    async def ask() -> None:
        await until(lambda: pieces["body"] > 4 * 100)
        async with place.peer() as peer:
            peer.send(b"".join(modern(place.host, id=i) for i in range(100)))
            for number in range(100):
                assert (await peer.answer()).json["id"] == number
            finished.append("requests")

    finished: list[str] = []
    await asyncio.gather(*(upload() for _ in range(4)), ask())
    assert finished[0] == "requests"


@pytest.mark.usefixtures("shortest_turn")
async def test_a_client_that_goes_while_its_bytes_wait_leaves_nothing(place: RunningEndpoint) -> None:
    peer = await place.connect()
    peer.send(modern(place.host) * MANY)
    await peer.answer()
    peer.writer.transport.abort()
    await until(lambda: not place.server.listener.connections)
    assert place.server.listener.bodies.bytes == 0
    async with place.peer() as other:
        other.send(modern(place.host))
        assert (await other.answer()).status == 200


def chunked(host: str, body: bytes, size: int, path: str) -> bytes:
    """A POST whose body comes in chunks of this size."""
    head = post(host, b"", path=path).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunks = (body[at : at + size] for at in range(0, len(body), size))
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
