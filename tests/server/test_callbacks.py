"""A function asks in the middle of a call: with MGP's callbacks where they are agreed, as elicitation otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from peer import Peer, Refusal

from interlock.client import Client
from interlock.client.handlers import Handlers
from interlock.protocols.mgp.callbacks import REQUEST
from interlock.server import Context, Server

pytestmark = pytest.mark.anyio

CALLBACKS = {"mgp": {"version": "0.2.0", "extensions": ["bidirectional"]}}


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    async def delete(ctx: Context, timeout_s: float = 30) -> str:
        """Delete files."""
        sure = await ctx.confirm("This operation will delete 15 files. Continue?", timeout_s=timeout_s)
        return "deleted" if sure else "kept"

    @server.tool
    def name(ctx: Context) -> str:
        """From a thread."""
        return asyncio.run(ctx.ask_input("Which name?")) or "nobody"

    @server.tool
    async def colour(ctx: Context) -> str:
        """A choice."""
        ctx.tell("about to ask")
        return await ctx.select("Which colour?", ["red", "blue"]) or "none"

    return server


async def asked(pending: Any, count: int = 1) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while len(pending.notes) < count:
            pending.noted.clear()
            await pending.noted.wait()
    method, params = pending.notes[count - 1]
    assert method == REQUEST
    return dict(params)


@pytest.mark.parametrize("modern", [True, False])
async def test_a_callback_has_the_members_of_the_protocol_and_is_answered_once(modern: bool) -> None:
    peer = Peer(asking_server(), capabilities=CALLBACKS)
    if not modern:
        await peer.legacy()
    id_, pending = peer.start("tools/call", name="delete", arguments={})
    callback = await asked(pending)
    said = callback.pop("callback_id")
    assert callback == {
        "request_id": id_,
        "type": "confirmation",
        "message": "This operation will delete 15 files. Continue?",
        "options": ["confirm", "cancel"],
        "timeout_ms": 30_000,
    }
    with pytest.raises(Refusal, match="does not fit"):
        await peer.call("mgp/callback/respond", callback_id=said, response="maybe")
    unknown = await peer.call("mgp/callback/respond", callback_id="cb-unknown", response="confirm")
    assert (unknown["callback_id"], unknown["accepted"]) == ("cb-unknown", False)
    assert (await peer.call("mgp/callback/respond", callback_id=said, response="confirm"))["accepted"] is True
    assert (await pending.answer)["content"][0]["text"] == "deleted"
    assert (await peer.call("mgp/callback/respond", callback_id=said, response="confirm"))["accepted"] is True
    assert (await peer.call("mgp/callback/respond", callback_id=said, response="cancel"))["accepted"] is False


async def test_another_principal_answers_nothing_and_a_late_answer_confirms_nothing() -> None:
    server = asking_server()
    peer, other = Peer(server, capabilities=CALLBACKS), Peer(server, capabilities=CALLBACKS, principal_name="other")
    _, pending = peer.start("tools/call", name="delete", arguments={"timeout_s": 0.05})
    said = (await asked(pending))["callback_id"]
    assert (await other.call("mgp/callback/respond", callback_id=said, response="confirm"))["accepted"] is False
    assert (await pending.answer)["content"][0]["text"] == "kept"
    assert (await peer.call("mgp/callback/respond", callback_id=said, response="confirm"))["accepted"] is False


async def test_a_client_of_ours_answers_all_four_types() -> None:
    heard: list[str] = []

    async def answer(callback: dict[str, Any]) -> object:
        heard.append(callback["type"])
        return {"confirmation": "confirm", "input": "Ada", "selection": "blue"}.get(callback["type"])

    async with Client(asking_server(), handlers=Handlers(callback=answer)) as client:
        answers = [(await client.call_tool(name))["content"][0]["text"] for name in ("delete", "name", "colour")]
    assert answers == ["deleted", "Ada", "blue"]
    assert heard == ["confirmation", "input", "notification", "selection"]


async def test_a_client_without_mgp_is_asked_by_elicitation() -> None:
    asked: list[Any] = []

    async def elicit(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["requestedSchema"]["properties"])
        return {"action": "accept", "content": {"confirm": True, "answer": "red"}}

    async with Client(asking_server(), handlers=Handlers(elicit_form=elicit)) as client:
        answers = [(await client.call_tool(name))["content"][0]["text"] for name in ("delete", "name", "colour")]
    assert answers == ["deleted", "red", "red"]
    assert asked[2] == {"answer": {"type": "string", "enum": ["red", "blue"]}}
