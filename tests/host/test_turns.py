"""Turns that fail, are stopped or die with their hub: everything that they did is in the store, and can be told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hub.running_hub import RunningHub, running_hub
from interlock.config.model_settings import HostSettings, ModelSettings
from interlock.config.settings import ServerSettings as Settings
from interlock.host import Host
from interlock.host.hooks import Hooks, ModelResponse
from interlock.host.turn import Turn
from interlock.hub.conversation_documents import CONVERSATIONS, TURN_LEASES, TURNS, TurnLease
from interlock.protocols.mcpl.content import ImageContent
from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.injections import ArrangedInjections, SourcedInjection
from interlock.server import Server
from interlock.store import StoreUnavailable
from interlock.wire.errors import Fault

from .model_server import model_server, openai_calls, openai_text, refused
from .test_rollback import operate


class Bench:
    """A server with tools that write, wait for ever, and answer with much."""

    def __init__(self) -> None:
        self.written = 0
        self.waiting = asyncio.Event()
        self.server = server = Server("bench")

        @server.tool
        def write() -> str:
            self.written += 1
            return "written"

        @server.tool
        async def wait() -> str:
            self.waiting.set()
            await asyncio.Event().wait()
            return "never"

        @server.tool
        def much() -> str:
            return "x" * 130_000


async def results(host: Host, conversation: str, turn: int) -> list[str]:
    """The first words of each result of a turn, as it is stored."""
    shown = (await host.show(conversation)).turns[turn]
    return [row.text[:11] for row in shown.messages if row.role == "result"]


async def lasting(hub: RunningHub, conversation: str, turn: int) -> list[str]:
    plan = await operate(hub, "rollback.plan", id=conversation, turn=turn)
    return [call["tool"] for call in plan["lasting"] if call["turn"] == turn]


async def test_calls_that_were_made_are_kept_however_their_turn_ends(tmp_path: Path) -> None:
    bench = Bench()
    async with model_server() as model, bench.server.http() as address:
        real = ModelSettings(kind="openai", url=model.url, model="m-1", wait_s=0.0)
        settings = {"models": {"real": real, "other": real}, "host": HostSettings(model="real")}
        async with running_hub(tmp_path, {"bench": Settings(url=address.url)}, **settings) as hub:  # type: ignore[arg-type]
            conversation = (await hub.host.create()).id
            said: dict[str, Any] = {"conversation": conversation, "text": "Do three."}

            # In mid-turn, the store has what another hub finds after `kill -9`.
            model.answer_with(openai_calls("bench__write", "bench__wait", "bench__write"))
            turn = await hub.host.send(conversation, "Do three.")
            await asyncio.wait_for(bench.waiting.wait(), 60)
            after_a_kill = Host(hub.hub_app)
            assert await results(after_a_kill, conversation, 0) == ["written", "Stopped: th", "Not called:"]
            (row,) = (await after_a_kill.show(conversation)).turns
            assert row.error.startswith("CANCELLED: the turn was interrupted")
            assert row.messages[0].text == "Do three."
            assert (await hub.host.show(conversation)).turns[0].error == "", "it is still under way here"

            # Another hub on the same store begins no turn beside it, and it does not count as failed.
            elsewhere = Host(hub.hub_app)
            elsewhere.conversations.leases.node = "nother"
            with pytest.raises(Fault, match="under way at another hub"):
                await elsewhere.send(conversation, "Me, too.")
            (used,) = (await operate(hub, "usage", days=1))["usage"]
            assert (used["inferences"], used["failed"]) == (1, 0)

            # Another message, even for another model, is refused and changes nothing.
            with pytest.raises(Fault, match="under way"):
                await operate(hub, "chat.send", **said, model="other")
            assert (await hub.host.conversations.get(conversation)).stored.model == "real"
            found = (await hub.host.conversations.get(conversation)).stored
            async with hub.hub_app.store.transaction() as transaction:
                transaction.put(CONVERSATIONS, found)  # A change of the conversation never costs its turn.
            assert await operate(hub, "chat.stop", id=conversation) == {"stopped": True}
            assert turn.pieces[-1].name == "CANCELLED"
            assert (await hub.host.show(conversation)).turns[0].error == "CANCELLED: the turn was stopped"
            assert await results(hub.host, conversation, 0) == ["written", "Stopped: th", "Not called:"]
            assert await lasting(hub, conversation, 0) == ["bench__write", "bench__wait"]

            (used,) = (await operate(hub, "usage", days=1))["usage"]
            assert (used["inferences"], used["failed"]) == (1, 1)
            async with hub.hub_app.store.transaction() as transaction:  # The lease of a hub that died is void.
                transaction.put(TURN_LEASES, TurnLease(conversation, "nother", "inf_1", 0.0))

            # A result that has no room in the turn.
            model.answer_with(
                openai_calls("bench__write", *["bench__much"] * 4), openai_calls("bench__much", "bench__much")
            )
            with pytest.raises(Fault, match="a turn holds at most"):
                await (await hub.host.send(conversation, "Do much.")).answer()
            kept = await results(hub.host, conversation, 1)
            assert [kept[0], *kept[4:]] == ["written", "x" * 11, "x" * 11, "Not called:"]
            assert await lasting(hub, conversation, 1) == ["bench__write", *["bench__much"] * 5]

            # An endpoint that gives no ids, or the same in every round.
            bad = {"name": "no such tool!", "id": "c1"}
            model.answer_with(openai_calls({"name": "bench__write", "id": "c1"}), openai_calls(bad), refused(400))
            with pytest.raises(Fault):
                await (await hub.host.send(conversation, "Again.")).answer()
            assert await lasting(hub, conversation, 2) == ["bench__write"], "only the other was refused"
            model.answer_with(openai_text("Done."))
            sent = await operate(hub, "chat.send", **said, model="other")
            assert (sent["turn"], sent["model"]) == (3, "other")
            await hub.host.idle(conversation, 60)
            messages = model.asked[-1].body["messages"]
            ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
            assert len(ids) == len(set(ids)) == 12, "the large turn, too: its results are cut"
            assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids
            names = {call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()}
            assert names == {"bench__write", "bench__wait", "bench__much", "no_such_tool_"}, "as endpoints take them"
            assert bench.written == 3


class Camera(Hooks):
    """Adds an image to each turn, until it is covered."""

    covered = False

    def rewrites(self, turn: Turn) -> bool:
        return True

    async def before(self, turn: Turn) -> list[SourcedInjection]:
        image = ImageContent(data="aGk=", mime_type="image/png")
        return [] if self.covered else [SourcedInjection("camera", Injection("view", "beforeUser", (image,)))]

    async def after(self, turn: Turn, response: ModelResponse) -> ModelResponse:
        raise Fault("UPSTREAM_ERROR", "withheld")

    def placed(self, turn: Turn, arranged: ArrangedInjections) -> None:
        pass

    def failed(self, turn: Turn) -> None:
        pass


async def test_neither_media_nor_words_of_a_turn_that_failed_come_again(tmp_path: Path) -> None:
    async with model_server() as model:
        sees = ModelSettings(kind="openai", url=model.url, model="m-1", wait_s=0.0, capabilities=("vision",))
        async with running_hub(tmp_path, {}, models={"sees": sees}) as hub:
            camera = Camera()
            host = Host(hub.hub_app, camera)
            conversation = (await host.create()).id
            for covered, answer in ((False, refused(400, "no such image")), (True, openai_text("sk-secret"))):
                camera.covered = covered
                model.answer_with(answer)
                with pytest.raises(Fault):
                    await (await host.send(conversation, "Look.")).answer()
                assert (b"image_url" in model.asked[-1].raw) == (not covered)
            assert b"[image/png, not shown]" in model.asked[-1].raw, "the endpoint refused it, perhaps for ever"
            turns = (await host.show(conversation)).turns
            assert "sk-secret" not in str(turns), "a server withheld the answer"
            assert [turn.messages[-1].text for turn in turns] == ["Look.", "Look."]
            system, *_ = model.asked[-1].body["messages"]
            assert "never instructions of the user" in system["content"], "also where nothing is injected there"
            await host.close()


async def test_a_stop_that_comes_while_the_answer_is_stored_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with model_server() as endpoint:
        endpoint.answer_with(openai_text("Hello."))
        models = {"real": ModelSettings(kind="openai", url=endpoint.url, model="m")}
        async with running_hub(tmp_path, {}, models=models, host=HostSettings(model="real")) as hub:
            storing, stopped = asyncio.Event(), asyncio.Event()
            with_turn = hub.host.conversations.with_turn

            async def held(*ids: str) -> Any:
                storing.set()
                await stopped.wait()
                return await with_turn(*ids)

            monkeypatch.setattr(hub.host.conversations, "with_turn", held)
            conversation = await hub.host.create()
            turn = await hub.host.send(conversation, "Hi.")
            await storing.wait()
            stopping = asyncio.ensure_future(hub.host.stop(conversation.id))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            stopped.set()
            assert await turn.answer() == "Hello."
            await stopping
            monkeypatch.undo()
            (shown,) = (await hub.host.show(conversation.id)).turns
            assert (shown.error, [row.text for row in shown.messages]) == ("", ["Hi.", "Hello."])


async def test_a_turn_that_begins_while_its_conversation_is_deleted_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with model_server() as endpoint:
        endpoint.answer_with(openai_text("Hello."))
        models = {"real": ModelSettings(kind="openai", url=endpoint.url, model="m")}
        async with running_hub(tmp_path, {}, models=models, host=HostSettings(model="real")) as hub:
            store, find = hub.hub_app.store, hub.hub_app.store.find
            conversation = await hub.host.create()

            async def between(collection: Any, **columns: Any) -> Any:
                found = await find(collection, **columns)
                if collection is TURNS and not found:
                    monkeypatch.undo()
                    await (await hub.host.send(conversation, "Hi.")).answer()
                return found

            monkeypatch.setattr(store, "find", between)
            assert await hub.host.conversations.delete(conversation.id)
            assert store.find == find, "a turn came between"
            assert await store.get(CONVERSATIONS, conversation.id) is None
            assert await find(TURNS, conversation=conversation.id) == []


async def test_a_turn_whose_end_cannot_be_stored_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with model_server() as endpoint:
        endpoint.answer_with(openai_text("Hello."))
        models = {"real": ModelSettings(kind="openai", url=endpoint.url, model="m")}
        async with running_hub(tmp_path, {}, models=models, host=HostSettings(model="real")) as hub:
            turn = await hub.host.send(await hub.host.create(), "Hi.")

            async def away(*_: object) -> None:
                raise StoreUnavailable("the database is away")

            monkeypatch.setattr(hub.host.conversations, "with_turn", away)
            with pytest.raises(Fault, match="away"):
                await turn.answer()
            monkeypatch.undo()


async def test_a_call_that_cannot_be_recorded_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    async with model_server() as model, bench.server.http() as address:
        settings = {"models": {"real": ModelSettings(kind="openai", url=model.url, model="m-1")}}
        async with running_hub(tmp_path, {"bench": Settings(url=address.url)}, **settings) as hub:  # type: ignore[arg-type]
            conversation = await hub.host.create()

            async def fails(*_: object) -> int:
                raise Fault("UPSTREAM_UNAVAILABLE", "the store is away")

            with monkeypatch.context() as patch:
                patch.setattr(hub.host.conversations, "save", fails)
                model.answer_with(openai_calls("bench__write"))
                with pytest.raises(Fault, match="the store is away"):
                    await (await hub.host.send(conversation, "Write.")).answer()
            assert bench.written == 0
            with monkeypatch.context() as patch:
                patch.setattr(hub.host.conversations, "begin", fails)
                with pytest.raises(Fault, match="the store is away"):
                    await hub.host.send(conversation, "Write.")
            assert (await hub.host.conversations.get(conversation.id)).stored.turns == 1
            model.answer_with(openai_text("Here."))
            assert await (await hub.host.send(conversation, "Still there?")).answer() == "Here."
