"""A tool that yields: chunks where MGP's streaming is agreed and asked for, progress or nothing for other clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from peer import Peer, Refusal

from interlock.protocols.mgp.streaming import CHUNK, PROGRESS
from interlock.server import Context, Image, Server
from interlock.server.definitions.item_stream import AHEAD
from interlock.wire.errors import TABLE
from waiting import until

pytestmark = pytest.mark.anyio

STREAMING = {"mgp": {"version": "0.2.0", "extensions": ["streaming"]}}
WORDS = ("Quantum computing is", " a paradigm", " that uses qubits")


class StoryServer:
    """A server with a story, told in three ways, that a test can stop in the middle."""

    def __init__(self) -> None:
        self.server = Server("stories")
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()
        self.ended = threading.Event()
        self.told = 0

        @self.server.tool
        async def tell() -> AsyncIterator[str]:
            for word in WORDS:
                yield word

        @self.server.tool
        def tell_in_thread() -> Iterator[str]:
            yield from WORDS

        @self.server.tool
        async def tell_and_wait() -> AsyncIterator[str]:
            yield WORDS[0]
            await self.gate.wait()
            yield WORDS[1]

        @self.server.tool
        def count() -> Iterator[int]:
            try:
                for self.told in range(1_000_000):
                    yield self.told
            finally:
                self.ended.set()

        @self.server.tool
        async def wait() -> str:
            await self.gate.wait()
            return "done"

        @self.server.tool
        async def draw(ctx: Context) -> AsyncIterator[Any]:
            ctx.progress(1, 4, "a quarter")
            yield Image(b"x", "image/png")
            yield {"a": 1}

    async def peer(self, *, modern: bool = True, capabilities: object = STREAMING) -> Peer:
        peer = Peer(self.server, capabilities=capabilities)
        if not modern:
            await peer.legacy()
        return peer


async def noted(pending: Any, count: int) -> list[tuple[str, dict[str, Any]]]:
    while len(pending.notes) < count:
        pending.noted.clear()
        await asyncio.wait_for(pending.noted.wait(), 10)
    return list(pending.notes)


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("name", ["tell", "tell_in_thread"])
async def test_each_item_is_a_chunk_and_the_result_repeats_the_whole_text(name: str, modern: bool) -> None:
    peer = await StoryServer().peer(modern=modern)
    id_, pending = peer.start("tools/call", name=name, arguments={}, _mgp={"stream": True})
    answer = await pending.answer
    assert pending.notes == [
        (CHUNK, {"request_id": id_, "index": at, "content": {"type": "text", "text": word}, "done": False})
        for at, word in enumerate(WORDS)
    ]
    assert answer["content"] == [{"type": "text", "text": "".join(WORDS)}]
    assert (answer["_mgp"]["streamed"], answer["_mgp"]["chunks_sent"]) == (True, 3)
    assert answer["_mgp"]["duration_ms"] >= 0


@pytest.mark.parametrize(
    ("capabilities", "params"),
    [
        ({}, {"_mgp": {"stream": True}}),
        ({"mgp": {"version": "0.2.0", "extensions": ["lifecycle"]}}, {"_mgp": {"stream": True}}),
        (STREAMING, {}),
        (STREAMING, {"_mgp": {"stream": False}}),
    ],
)
async def test_without_agreement_or_wish_there_are_no_chunks(capabilities: object, params: dict[str, Any]) -> None:
    peer = await StoryServer().peer(capabilities=capabilities)
    _, pending = peer.start("tools/call", name="tell", arguments={}, **params)
    answer = await pending.answer
    assert (pending.notes, "_mgp" in answer) == ([], False)
    assert answer["content"][0]["text"] == "".join(WORDS)
    _, pending = peer.start("tools/call", name="tell", arguments={}, _meta={"progressToken": "t"}, **params)
    await pending.answer
    assert [note["message"] for _, note in pending.notes] == list(WORDS)


async def test_other_items_are_content_of_their_own_and_progress_needs_no_token() -> None:
    peer = await StoryServer().peer()
    id_, pending = peer.start("tools/call", name="draw", arguments={}, _mgp={"stream": True})
    answer = await pending.answer
    (method, progress), *chunks = pending.notes
    assert (method, progress["request_id"], progress["progress"], progress["message"]) == (
        PROGRESS,
        id_,
        0.25,
        "a quarter",
    )
    assert progress["estimated_remaining_ms"] >= 0
    kinds = [chunk["content"] for _, chunk in chunks]
    assert kinds == [{"type": "image", "data": "eA==", "mimeType": "image/png"}, {"type": "text", "text": '{"a":1}'}]
    assert [piece["type"] for piece in answer["content"]] == ["image", "text"]


@pytest.mark.parametrize("modern", [True, False])
async def test_a_cancelled_stream_gives_its_content_so_far_and_its_call_an_error(modern: bool) -> None:
    story = StoryServer()
    peer = await story.peer(modern=modern)
    id_, pending = peer.start("tools/call", name="tell_and_wait", arguments={}, _mgp={"stream": True})
    await noted(pending, 1)
    answer = await peer.call("mgp/stream/cancel", request_id=id_, reason="user_cancelled")
    assert answer["cancelled"] is True
    assert answer["partial_result"] == {"content": [{"type": "text", "text": WORDS[0]}]}
    with pytest.raises(Refusal) as error:
        await pending.answer
    assert error.value.code in (TABLE["CANCELLED"].mcp, TABLE["CANCELLED"].new_mcp, TABLE["CANCELLED"].mgp)
    assert (await peer.call("mgp/stream/cancel", request_id=id_))["cancelled"] is False, "it is over"
    assert (await peer.call("mgp/stream/cancel", request_id=str(id_)))["cancelled"] is False
    assert len(pending.notes) == 1


async def test_t71_a_call_that_does_not_stream_is_cancelled_too_and_a_stranger_cancels_nothing() -> None:
    story = StoryServer()
    peer, other = await story.peer(modern=False), await story.peer(modern=False)
    id_, pending = peer.start("tools/call", name="wait", arguments={})
    other_id, others = other.start("tools/call", name="wait", arguments={})
    assert id_ == other_id
    answer = await peer.call("mgp/stream/cancel", request_id=id_)
    assert answer == {"cancelled": True, "partial_result": {"content": []}}
    with pytest.raises(Refusal):
        await pending.answer
    assert (await peer.call("mgp/stream/cancel", request_id=id_))["cancelled"] is False
    story.gate.set()
    assert (await others.answer)["content"][0]["text"] == "done"
    plain = await story.peer(capabilities={})
    with pytest.raises(Refusal, match="not agreed"):
        await plain.call("mgp/stream/cancel", request_id=1)


async def test_a_generator_in_a_thread_waits_for_its_reader_and_ends_when_it_is_cancelled() -> None:
    story = StoryServer()
    peer = await story.peer()
    id_, pending = peer.start("tools/call", name="count", arguments={}, _mgp={"stream": True})
    await noted(pending, 1)
    peer.link.hold(id_, on=True)
    await until(lambda: story.told - len(pending.notes) >= AHEAD - 1)  # as far ahead of its reader as it may be
    await peer.call("mgp/stream/cancel", request_id="nobody")  # chunks before this answer have arrived
    stood = len(pending.notes)
    assert story.told <= stood + AHEAD + 2
    peer.link.hold(id_, on=False)
    await noted(pending, stood + 200)
    answer = await peer.call("mgp/stream/cancel", request_id=id_)
    chunks = [note["index"] for method, note in pending.notes if method == CHUNK]
    assert chunks == list(range(len(chunks)))
    assert len(answer["partial_result"]["content"]) >= len(chunks)
    assert await asyncio.to_thread(story.ended.wait, 10), "the generator was not closed"
