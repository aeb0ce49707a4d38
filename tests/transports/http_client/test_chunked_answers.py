"""Answers in chunks: small ones are read a little in each turn of the loop, and too many tiny ones are refused."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest
from web_peer import Open, ReceivedRequest

from interlock.transports import read_queue
from interlock.transports.http.bounds import FREE_CHUNKS, MIN_CHUNK
from interlock.transports.http.client.channel import RESPONSE_PIECE_BYTES, HttpChannel
from turn_meter import metered

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n%b\r\n"
LONG = "x" * (MIN_CHUNK + 1) * FREE_CHUNKS * 3


@pytest.fixture
def shortest_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn's share is spent with the first piece: what a turn does can be counted."""
    monkeypatch.setattr(read_queue, "TURN_S", 1e-9)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the parser handed over a piece of a body."""
    counts: Counter[str] = Counter()
    on_body = HttpChannel.on_body

    def counted(self: HttpChannel, data: bytes) -> None:
        counts["body"] += 1
        on_body(self, data)

    monkeypatch.setattr(HttpChannel, "on_body", counted)
    return counts


def in_chunks(visit: ReceivedRequest, text: str, size: int) -> bytes:
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": visit.id, "result": {"text": text}})
    chunks = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@pytest.mark.usefixtures("shortest_turn")
async def test_a_turn_reads_a_little_of_an_answer_in_small_chunks(at: Open, pieces: Counter[str]) -> None:
    async def script(visit: ReceivedRequest) -> None:
        await visit.raw(HEAD % b"" + in_chunks(visit, LONG, MIN_CHUNK + 1))

    linked = await at(script)
    for _ in range(2):
        with metered(lambda: pieces["body"]) as meter:
            assert await linked.ask() == {"text": LONG}
        assert meter.most <= 3 * RESPONSE_PIECE_BYTES / MIN_CHUNK
    assert pieces["body"] > 2 * FREE_CHUNKS * 3
    assert linked.web.connections == 1, "the connection is used again"


@pytest.mark.usefixtures("shortest_turn")
async def test_an_answer_in_chunks_that_ends_with_its_connection_is_read_to_its_end(at: Open) -> None:
    async def script(visit: ReceivedRequest) -> None:
        await visit.raw(HEAD % b"Connection: close\r\n" + in_chunks(visit, LONG, MIN_CHUNK + 1))
        visit.hang_up()

    linked = await at(script)
    answers = await asyncio.gather(*(linked.ask() for _ in range(5)))
    assert answers == [{"text": LONG}] * 5


async def test_an_answer_of_too_many_tiny_chunks_is_refused(at: Open, pieces: Counter[str]) -> None:
    async def script(visit: ReceivedRequest) -> None:
        await visit.raw(HEAD % b"" + in_chunks(visit, "x" * FREE_CHUNKS * 10, 1))

    linked = await at(script)
    fault = await linked.lose()
    assert "chunks of fewer than 16 bytes" in fault.message
    assert pieces["body"] <= FREE_CHUNKS + RESPONSE_PIECE_BYTES


async def test_an_answer_of_few_tiny_chunks_is_read(at: Open) -> None:
    async def script(visit: ReceivedRequest) -> None:
        await visit.raw(HEAD % b"" + in_chunks(visit, "x" * (FREE_CHUNKS - 100), 1))

    linked = await at(script)
    assert await linked.ask() == {"text": "x" * (FREE_CHUNKS - 100)}
