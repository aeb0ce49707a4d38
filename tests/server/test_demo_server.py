"""The demo server's tools do what they say."""

from __future__ import annotations

from typing import Any

import pytest
from peer import Peer, Refusal

from interlock.server.demo import MAX_NOTES, demo_server


@pytest.fixture
async def peer() -> Peer:
    return Peer(demo_server())


async def text(peer: Peer, tool: str, **arguments: Any) -> str:
    """The text of a call's result."""
    said = (await peer.tool(tool, arguments))["content"][0]["text"]
    assert isinstance(said, str)
    return said


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (1, "mi", "km", 1.609344),
        (100, "C", "F", 212),
        (0, "K", "C", -273.15),
        (2, "GiB", "MiB", 2048),
        (1, "lb", "oz", 16),
    ],
)
async def test_units(peer: Peer, value: float, source: str, target: str, result: float) -> None:
    answer = await peer.tool("convert", {"value": value, "source": source, "target": target})
    assert answer["structuredContent"] == pytest.approx(result)


async def test_units_of_different_kinds_do_not_convert(peer: Peer) -> None:
    assert "do not measure the same" in await text(peer, "convert", value=1, source="kg", target="km")
    assert (await peer.tool("convert", {"value": 1, "source": "parsec", "target": "km"}))["isError"]


async def test_times_in_zones(peer: Peer) -> None:
    answer = await peer.tool("time_in", {"zones": ["Asia/Tokyo", "UTC"], "at": "2026-01-01T12:00:00+00:00"})
    assert [row["local"] for row in answer["structuredContent"]] == [
        "2026-01-01T21:00:00+09:00",
        "2026-01-01T12:00:00+00:00",
    ]
    assert "did you mean Europe/Paris" in await text(peer, "time_in", zones=["Europe/Pariss"])
    assert "no zone" in await text(peer, "time_in", zones=["../../etc/passwd"])
    assert "no offset" in await text(peer, "time_in", zones=["UTC"], at="2026-01-01T12:00:00")


async def test_figures(peer: Peer) -> None:
    figures = (await peer.tool("text_figures", {"text": "One two. Three!\n"}))["structuredContent"]
    assert (figures["words"], figures["sentences"], figures["lines"], figures["longest_word"]) == (3, 2, 1, "Three")
    assert (await peer.tool("text_figures", {"text": ""}))["structuredContent"]["words"] == 0
    assert (await peer.tool("describe", {"numbers": [1, 2, 6]}))["structuredContent"]["mean"] == 3
    assert (
        await text(peer, "compare", before="a\nb", after="a\nc") == "--- before\n+++ after\n@@ -1,2 +1,2 @@\n a\n-b\n+c"
    )


async def test_notes_are_kept_read_listed_and_deleted(peer: Peer) -> None:
    await peer.tool("keep_note", {"title": "milk", "text": "buy some"})
    read = await peer.call("resources/read", uri="note://text/milk")
    assert read["contents"][0]["text"] == "buy some"
    assert (await peer.call("resources/read", uri="note://index"))["contents"][0]["text"] == '["milk","welcome"]'
    template = {"type": "ref/resource", "uri": "note://text/{title}"}
    suggested = await peer.call("completion/complete", ref=template, argument={"name": "title", "value": "m"})
    assert suggested["completion"]["values"] == ["milk"]
    await peer.tool("delete_note", {"title": "milk"})
    with pytest.raises(Refusal):
        await peer.call("resources/read", uri="note://text/milk")
    assert (await peer.tool("delete_note", {"title": "milk"}))["isError"]


async def test_there_are_never_too_many_notes(peer: Peer) -> None:
    for number in range(MAX_NOTES - 1):
        assert "kept" in await text(peer, "keep_note", title=str(number), text="x")
    assert "delete one first" in await text(peer, "keep_note", title="more", text="x")


async def test_a_person_can_be_asked_for_a_note(peer: Peer) -> None:
    first = await peer.tool("ask_for_note")
    given = {"note": {"action": "accept", "content": {"title": "my list", "text": "eggs"}}}
    last = await peer.tool("ask_for_note", requestState=first["requestState"], inputResponses=given)
    assert last["structuredContent"] == "kept as note://text/my-list"


async def test_a_prompt_with_figures(peer: Peer) -> None:
    got = await peer.call("prompts/get", name="review", arguments={"text": "Hello there."})
    assert "friendly" in got["messages"][0]["content"]["text"]
    assert '"words": 2' in got["messages"][1]["content"]["text"]


@pytest.mark.parametrize("numbers", [[1.7e308, 1.7e308], [-1.7e308, -1.7e308, 1.0]])
async def test_numbers_too_large_to_reckon_with_are_told(numbers: list[float]) -> None:
    answer = await Peer(demo_server()).tool("describe", {"numbers": numbers})
    assert answer["content"][0]["text"] == "the numbers are too large to compute with"


async def test_the_examples_of_every_tool_work() -> None:
    server = demo_server()
    peer = Peer(server)
    for tool in server.tools:
        for arguments in tool.examples:
            assert "isError" not in await peer.tool(tool.key, dict(arguments)), tool.key
