"""Streams that break off (handshake era): asked for again where the server said how, never sent twice otherwise."""

from __future__ import annotations

import asyncio

import pytest

from interlock.protocols.mcp.revisions import R2025_11_25, R2026_07_28
from loop_clock import advance
from waiting import until


async def test_a_broken_stream_is_asked_for_again_after_the_time_the_server_named(at) -> None:
    loop = asyncio.get_running_loop()
    left: list[float] = []

    async def script(visit) -> None:
        if visit.verb == "POST":
            await visit.stream()
            await visit.event(id="e-1", retry=200)
            left.append(loop.time())
            visit.hang_up()
        else:
            left.append(loop.time())
            await visit.stream()
            await visit.event({"jsonrpc": "2.0", "id": 1, "result": {"late": True}})
            await visit.end()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    assert await linked.ask() == {"late": True}
    assert linked.web.visits[1].headers["last-event-id"] == "e-1"
    assert linked.web.visits[1].headers["accept"] == "text/event-stream"
    assert left[1] - left[0] >= 0.19


async def test_a_stream_is_asked_for_again_as_often_as_something_new_comes(at) -> None:
    async def script(visit) -> None:
        seen = int(visit.headers.get("last-event-id", "0"))
        await visit.stream()
        if seen < 15:
            await visit.event(id=str(seen + 1), retry=1)
            visit.hang_up()
        else:
            await visit.event({"jsonrpc": "2.0", "id": 1, "result": {}})
            await visit.end()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    assert await linked.ask() == {}
    assert len(linked.web.visits) == 16


async def test_a_stream_that_gives_nothing_new_is_given_up(at) -> None:
    async def script(visit) -> None:
        if visit.verb == "POST":
            await visit.stream()
            await visit.event(id="1", retry=1)
        visit.hang_up()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    assert (await linked.lose()).name == "OUTCOME_UNKNOWN"
    assert len(linked.web.visits) == 11


async def test_a_broken_stream_without_an_event_id_is_lost(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        await visit.event({"jsonrpc": "2.0", "method": "n"})
        await visit.end()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    assert (await linked.lose("tools/list")).name == "OUTCOME_UNKNOWN"
    assert len(linked.web.visits) == 1


async def test_streams_of_the_stateless_era_are_not_resumed(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        await visit.event(id="1", retry=1)
        await visit.end()

    linked = await at(script)
    linked.link.speak(R2026_07_28)
    assert (await linked.lose()).name == "OUTCOME_UNKNOWN"
    assert len(linked.web.visits) == 1


async def test_an_event_id_cannot_smuggle_a_header(at) -> None:
    async def script(visit) -> None:
        if visit.verb == "POST":
            await visit.stream()
            await visit.chunk(b"id: a\x01b\nretry: 1\ndata:\n\n")
            await visit.end()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    assert (await linked.lose()).name == "OUTCOME_UNKNOWN"
    assert len(linked.web.visits) == 1


async def test_the_standing_stream_is_opened_again_where_it_broke_off(at) -> None:
    async def script(visit) -> None:
        await visit.stream()
        if "last-event-id" not in visit.headers:
            await visit.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="7", retry=10)
            visit.hang_up()
        else:
            await visit.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
            await visit.gone()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    linked.link.join_session(None)
    linked.link.listen()
    question = await asyncio.wait_for(linked.listener.questions.get(), 120)
    assert question.method == "roots/list"
    assert linked.listener.notes == [("notifications/tools/list_changed", b"{}")]
    assert [visit.headers.get("last-event-id") for visit in linked.web.visits] == [None, "7"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the test moves the loop's clock
async def test_a_server_without_a_standing_stream_is_asked_once(at) -> None:
    async def script(visit) -> None:
        await (visit.reply(405) if visit.verb == "GET" else visit.result())

    linked = await at(script)
    linked.link.listen()
    linked.link.listen()
    await linked.link.listening(120)
    advance(3600)
    await linked.ask()  # another request for the stream would have gone out before
    await linked.ask()
    assert linked.web.methods() == ["GET", "tools/call", "tools/call"]
    assert linked.listener.lines == []


async def test_progress_on_the_standing_stream_still_finds_its_request(at) -> None:
    async def script(visit) -> None:
        if visit.verb == "GET":
            await visit.stream()
            note = {"progressToken": 1, "progress": 1}
            await until(lambda: linked.link.pending)
            await visit.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
            await visit.gone()
        else:
            await until(lambda: linked.notes)
            await visit.result()

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    linked.link.listen()
    await linked.ask(wants_progress=True)
    assert [method for method, _ in linked.notes] == ["notifications/progress"]
