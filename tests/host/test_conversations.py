"""Conversations through a whole hub: tools behind the gates, approvals, failures, restarts, and the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from hub.people import read_and_answer
from hub.running_hub import RunningHub, child, running_hub, until
from hub.test_changes import opened
from hub.test_journal import only
from hub.test_mgp_events import events, session, subscribe
from interlock.cli.app import app
from interlock.config.home import socket_path
from interlock.config.model_settings import HostSettings, ModelSettings
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings
from interlock.config.settings import ServerSettings as Settings
from interlock.host import Host
from interlock.host.hooks import ModelResponse
from interlock.host.turn import Turn
from interlock.hub.auth.principals import Principal
from interlock.hub.conversation_documents import CONVERSATIONS
from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.injections import ArrangedInjections, SourcedInjection
from interlock.server import Image, Server, Text
from interlock.web.control import ControlSocket
from interlock.wire.errors import Fault

from .model_server import Asked, anthropic_text, head, model_server, openai_call, openai_text, raw, refused, stalls

ADA = Principal("person:ada", "person")
SCRIPT = [
    {"when": "Please add", "text": "Adding.", "tool": "busy__add", "arguments": {"a": 40, "b": 2}},
    {"when": "42", "text": "It is {result}."},
    {"when": "Please hang", "tool": "busy__hang", "arguments": {"mark": "m"}},
    {"when": "Now fail", "error": "the cable is out"},
    {"when": "the wrong", "tool": "busy__add", "arguments": {"a": "many"}},
    {"when": "nothing like it", "tool": "busy__missing"},
    {"text": "Hello. You said: {user}"},
    {"text": "Again: {user}"},
]


@pytest.fixture
def short_home() -> Iterator[Path]:
    """A home whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="il-"))
    socket_path(folder).parent.mkdir(parents=True, exist_ok=True)
    yield folder
    shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def talking_hub(
    folder: Path, models: Mapping[str, ModelSettings] | None = None, **more: Any
) -> AsyncIterator[RunningHub]:
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    made = {"toy": ModelSettings(kind="scripted", script=str(script)), **(models or {})}
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60), approvals=ApprovalSettings(hold_s=0))
    more.setdefault("host", HostSettings(model="toy", system="Be brief."))
    more.setdefault("agents", {"careful": AgentSettings(ask=("busy__add",))})
    async with running_hub(folder, {"busy": child("busy_server.py")}, hub=settings, models=made, **more) as hub:
        yield hub


async def perform(hub: RunningHub, name: str, **params: Any) -> Any:
    result = await hub.operations.perform(hub.operations.hub_user, name, msgspec.json.encode(params))
    return msgspec.to_builtins(result)


async def pieces(turn: Turn) -> list[tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    async for piece in turn:
        if piece.kind == "text" and found and found[len(found) - 1][0] == "text":
            found[len(found) - 1] = ("text", found[len(found) - 1][1] + piece.text)
        else:
            found[len(found)] = (piece.kind, piece.text)
    return list(found.values())


async def test_clients_hear_of_the_tokens_and_failures_of_the_hubs_models(tmp_path: Path) -> None:
    async with talking_hub(tmp_path) as hub:
        client, other = await session(hub), await session(hub, hub.key("other"))
        async with opened(client, "GET", b"", {}) as own, opened(other, "GET", b"", {}) as others:
            for one in (client, other):
                assert (await subscribe(one, "model.*"))["subscribed"] == ["model.*"]
            conversation = await hub.host.create()
            await pieces(await hub.host.send(conversation, "Hello."))
            await pieces(await hub.host.send(conversation, "Now fail."))
            await until(lambda: bool(events(own, "model.error")))
            [used], [failed] = events(own, "model.token_usage"), events(own, "model.error")
            assert used["data"]["tokens_used"] == used["data"]["input_tokens"] + used["data"]["output_tokens"] > 0
            assert used["data"]["conversation_id"] == conversation.id
            assert (failed["severity"], "cable" in failed["data"]["reason"]) == ("error", True)
            assert events(others) == [], "conversations of others are for readers of the audit log"


async def test_a_conversation_uses_tools_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with talking_hub(tmp_path) as hub:
        conversation = await hub.host.create()
        first = await pieces(await hub.host.send(conversation, "Please add."))
        assert first == [
            ("text", "Adding."),
            ("tool", '{"a":40,"b":2}'),
            ("result", "42"),
            ("text", "It is 42."),
            ("done", "Adding.\n\nIt is 42."),
        ]
        executed = await only(hub, "TOOL_EXECUTED")
        assert (executed.record.actor, executed.record.name) == ("local", "add"), "a call like any other"
        told = await only(hub, "dev.interlock.turn")
        assert told.record.details["conversationId"] == conversation.id
        # Failures are answers too: the model may correct itself, and the conversation goes on.
        for said, text in (("wrong", "Invalid arguments"), ("nothing like it", "TOOL_NOT_FOUND")):
            kinds = dict(await pieces(await hub.host.send(conversation, f"Do the {said}.")))
            assert text in kinds["result"]
            assert "done" in kinds
        (failed,) = await pieces(await hub.host.send(conversation, "Now fail."))
        assert failed == ("error", "the script says: the cable is out")
        assert (await perform(hub, "conversations.list"))["conversations"][0]["turns"] == 4
        stored = b"".join(path.read_bytes() for path in (tmp_path / "home").glob("hub.db*"))
        assert b"Please add." not in stored, "what was said is sealed"
    async with talking_hub(tmp_path) as hub:
        sent = await perform(hub, "chat.send", conversation=conversation.id, text="Still there?")
        assert sent == {"conversation": conversation.id, "turn": 4, "model": "toy", "agent": "local"}
        seen: list[Any] = []
        while True:
            found = await perform(hub, "chat.read", conversation=conversation.id, turn=4, after=len(seen))
            seen += found["pieces"]
            if found["ended"]:
                break
        assert "Still there?" in seen[-1]["text"]
        shown = await perform(hub, "conversations.show", id=conversation.id)
        said = [(row["role"], row["text"]) for row in shown["turns"][0]["messages"]]
        assert said[:2] == [("user", "Please add."), ("assistant", "Adding.")]
        assert shown["turns"][3]["error"].startswith("UPSTREAM_ERROR")
        with pytest.raises(Fault, match="belongs to local"):
            await perform(hub, "chat.send", conversation=conversation.id, text="Hi", agent="careful")
        assert (await perform(hub, "conversations.delete", id=conversation.id)) == {"deleted": True}
        with pytest.raises(Fault, match="no conversation"):
            await hub.host.send(conversation.id, "Hi")


async def test_t141_a_call_waits_for_a_person_and_a_model_never_acts_as_one(tmp_path: Path) -> None:
    async with talking_hub(tmp_path) as hub:
        conversation = await hub.host.create(Principal("careful", "agent"))
        turn = await hub.host.send(conversation, "Please add.")
        with pytest.raises(Fault, match="under way"):
            await hub.host.send(conversation, "And more.")
        await until(lambda: any(piece.kind == "approval" for piece in turn.pieces))
        (waiting,) = hub.hub_app.inbox.all(only_open=True)
        assert [piece.name for piece in turn.pieces if piece.kind == "approval"] == [waiting.id]
        await read_and_answer(hub.hub_app.inbox, waiting.id, "once", ADA)
        assert await turn.answer() == "Adding.\n\nIt is 42."
        # A person says no: the model learns it, and the turn ends.
        turn = await hub.host.send(conversation, "Please add again.")
        await until(lambda: any(piece.kind == "approval" for piece in turn.pieces))
        (waiting,) = hub.hub_app.inbox.all(only_open=True)
        await read_and_answer(hub.hub_app.inbox, waiting.id, "no", ADA)
        await turn.answer()
        (refusal,) = [piece for piece in turn.pieces if piece.kind == "result"]
        assert refusal.failed
        plans = [await perform(hub, "rollback.plan", id=conversation.id, turn=turn) for turn in (1, 0)]
        stays = [[(call["turn"], call["tool"]) for call in plan["lasting"]] for plan in plans]
        assert stays == [[], [(0, "busy__add")]], "the refused call did nothing"
        # Stopping a turn leaves a conversation that goes on.
        turn = await hub.host.send(conversation, "Please hang.")
        await until(lambda: any(piece.kind == "tool" for piece in turn.pieces))
        assert await perform(hub, "chat.stop", id=conversation.id) == {"stopped": True}
        assert turn.pieces[-1].name == "CANCELLED"
        assert "Hm?" in await (await hub.host.send(conversation, "Hm?")).answer()
        # A model never acts as a person, and a revoked key ends its conversations.
        await hub.new_key("eve", "person")
        with pytest.raises(Fault, match="does not act as"):
            await perform(hub, "chat.send", text="Hi", agent="eve")
        await hub.new_key("coder")
        sent = await perform(hub, "chat.send", text="Hi", agent="coder")
        await perform(hub, "chat.read", conversation=sent["conversation"], turn=0)
        await hub.host.idle(sent["conversation"], 60)
        await hub.operate("keys.revoke", agent="coder")
        turn = await hub.host.send(sent["conversation"], "Please add.")
        with pytest.raises(Fault, match="no longer valid"):
            await turn.answer()


class Watching:
    """Adds a note that changes in every turn, and hides a word of the answers."""

    def rewrites(self, turn: Turn) -> bool:
        return True

    async def before(self, turn: Turn) -> list[SourcedInjection]:
        fixed = SourcedInjection("memory", Injection("memory", "system", "The user likes tea."))
        return [fixed, SourcedInjection("memory", Injection("memory", "beforeUser", f"Note {turn.index}."))]

    async def after(self, turn: Turn, response: ModelResponse) -> ModelResponse:
        return msgspec.structs.replace(response, text=response.text.replace("sk-secret", "[REDACTED]"))

    def placed(self, turn: Turn, arranged: ArrangedInjections) -> None:
        pass

    def failed(self, turn: Turn) -> None:
        pass


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_each_prompt_begins_with_the_whole_prompt_before(tmp_path: Path, kind: Any) -> None:
    text = openai_text if kind == "openai" else anthropic_text
    async with model_server() as server:
        models = {"real": ModelSettings(kind=kind, url=server.url, model="m-1", key="k")}
        async with talking_hub(tmp_path, models) as hub:
            host = Host(hub.hub_app, Watching())
            conversation = await host.create(model="real")
            server.answer_with(*(text("The key is sk-sec", f"ret {index}.") for index in range(12)))
            for index in range(12):
                turn = await host.send(conversation, f"Turn {index}, tell me.")
                assert await turn.answer() == f"The key is [REDACTED] {index}."
                assert "sk-sec" not in "".join(piece.text for piece in turn.pieces), "held until it was judged"
            for before, after in zip(server.asked, server.asked[1:], strict=False):
                stable = before.raw.rstrip(b"]}")
                assert after.raw.startswith(stable)
            last = server.asked[-1].raw
            assert b"sk-secret" not in last
            assert last.count(b"The user likes tea.") == 1
            assert b'\\"server\\":\\"memory\\"' in last
            await host.close()


async def test_a_model_that_fails_or_stalls_leaves_a_conversation_that_goes_on(tmp_path: Path) -> None:
    async with model_server() as server:
        real = ModelSettings(kind="openai", url=server.url, model="m-1", wait_s=0.0)
        models = {"real": real, "hasty": msgspec.structs.replace(real, idle_s=0.05)}
        async with talking_hub(tmp_path, models) as hub:
            conversation = await hub.host.create(model="real")
            faults = []
            for model, *answers in (
                ("real", refused(500, "broken")),
                ("hasty", stalls),
                ("real", openai_call("busy__add", '{"a": 40, "b": 2}'), refused(400, "too long")),
            ):
                server.answer_with(*answers)
                await perform(hub, "chat.send", conversation=conversation.id, text="Hello?", model=model)
                turn, _ = hub.host.running[conversation.id]
                with pytest.raises(Fault) as caught:
                    await turn.answer()
                faults.append(caught.value.name)
            assert faults == ["UPSTREAM_UNAVAILABLE", "UPSTREAM_TIMEOUT", "UPSTREAM_ERROR"]
            server.answer_with(openai_text("Here I am."))
            assert await (await hub.host.send(conversation, "And now?")).answer() == "Here I am."
            # A model whose settings change while it answers still ends its answer.
            going_on = asyncio.Event()

            async def slowly(asked: Asked) -> AsyncGenerator[bytes, None]:
                whole = [piece async for piece in openai_text("One ", "two")(asked)]
                yield b"".join(whole[:2])
                await going_on.wait()
                yield b"".join(whole[2:])

            server.answer_with(slowly)
            turn = await hub.host.send(conversation, "Slowly, please.")
            await until(lambda: any(piece.kind == "text" for piece in turn.pieces))
            models["real"] = msgspec.structs.replace(real, idle_s=45.0)
            config = msgspec.structs.replace(hub.hub_app.config, models={**hub.hub_app.config.models, **models})
            await hub.hub_app.apply(config)
            hub.host.models.get("real")
            going_on.set()
            assert await turn.answer() == "One two"
            roles = [message["role"] for message in server.asked[-1].body["messages"]][:7]
            # The call of the third turn had its result, so the model is told of it.
            assert roles == ["system", "user", "user", "user", "assistant", "tool", "user"]
            # Tokens count also where the answer had no end: cut off by the endpoint, stopped by a person.
            going_on.clear()
            half = {"choices": [{"delta": {"content": "word" * 50}}]}
            server.answer_with(raw(head(), f"data: {json.dumps(half)}\n\n".encode()), slowly)
            with pytest.raises(Fault, match="complete"):
                await (await hub.host.send(conversation, "Cut off.")).answer()
            turn = await hub.host.send(conversation, "Stop.")
            await until(lambda: any(piece.kind == "text" for piece in turn.pieces))
            await perform(hub, "chat.stop", id=conversation.id)
            with pytest.raises(Fault, match="stopped"):
                await turn.answer()
            cut, stopped = (await hub.host.show(conversation.id)).turns[-2:]
            assert (cut.input_tokens > 0, cut.output_tokens >= 50) == (True, True)
            assert (stopped.input_tokens > 0, stopped.output_tokens > 0) == (True, True)


async def test_a_model_that_sees_is_shown_the_images_of_results_and_another_reads_of_them(tmp_path: Path) -> None:
    painter = Server("painter")

    @painter.tool
    def paint() -> list[Image | Text]:
        """Paint."""
        return [Text("Here."), Image(b"hi", "image/png"), Image(b"x" * 300_000, "image/png"), Image(b"v", "image/svg")]

    async with model_server() as server, painter.http() as address:
        sees = ModelSettings(kind="openai", url=server.url, model="m-1", capabilities=("tools", "vision"))
        models = {"sees": sees, "blind": msgspec.structs.replace(sees, capabilities=("tools",))}
        tables = {"painter": Settings(url=address.url)}
        async with running_hub(tmp_path, tables, models=models, host=HostSettings(model="sees")) as hub:
            conversation = await hub.host.create()
            server.answer_with(openai_call("painter__paint", "{}"), openai_text("A sea."))
            assert await (await hub.host.send(conversation, "Paint.")).answer() == "A sea."
            *_, result, shown = server.asked[-1].body["messages"]
            assert result["content"] == "Here.\n[image/png]\n[image/png, not shown]\n[image/svg, not shown]"
            assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
            assert shown["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
            server.answer_with(openai_text("No idea."))
            await perform(hub, "chat.send", conversation=conversation.id, text="And?", model="blind")
            turn, _ = hub.host.running[conversation.id]
            assert await turn.answer() == "No idea."
            assert b"aGk=" not in json.dumps(server.asked[-1].body).encode()


async def test_a_person_talks_at_the_terminal_and_through_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_home: Path
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(short_home))
    async with talking_hub(tmp_path) as hub:
        control = ControlSocket(hub.hub_app, hub.operations)
        await control.listen(socket_path(short_home))

        async def interlock(*arguments: str, stdin: str = "") -> Result:
            return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), input=stdin)

        try:
            piped = await interlock("chat", stdin="Please add.\n")
            assert (piped.exit_code, piped.stdout) == (0, "Adding.\nIt is 42.\n")
            assert "busy__add" in piped.stderr
            lines = [json.loads(line) for line in (await interlock("chat", "--json", "Hi")).stdout.splitlines()]
            assert [lines[0]["kind"], lines[-1]["kind"], lines[-1]["finish"]] == ["turn", "done", "end_turn"]
            id_ = lines[0]["conversation"]
            assert "Again: And you?" in (await interlock("chat", "-c", id_, "And you?")).stdout
            failed = await interlock("chat", "-c", id_, "Now fail.")
            assert (failed.exit_code, "the cable is out" in failed.stderr) == (1, True)
            with monkeypatch.context() as attended:
                attended.setattr("interlock.cli.conversations.chat.is_attended", lambda: True)
                terminal = await interlock("chat", stdin="Hello\n\nNow fail.\nPlease add.\n")
            assert terminal.exit_code == 0
            assert "You said: Hello" in terminal.stdout
            assert terminal.stdout.endswith("It is 42.\n"), "a turn that fails ends neither command nor conversation"
            assert "interlock chat --conversation conv_" in terminal.stderr
            wrong = await interlock("chat", "-m", "none", "Hi")
            assert (wrong.exit_code, "no model 'none'" in wrong.stderr) == (1, True)
            listed = (await interlock("conversations")).stdout
            assert id_ in listed
            assert "3 turns" in listed
            shown = (await interlock("conversations", "show", id_)).stdout
            assert "And you?" in shown
            assert "the cable is out" in shown
            assert "Deleted" in (await interlock("conversations", "delete", id_)).stdout
        finally:
            await control.close()


async def test_the_example_holds_a_conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "examples" / "conversation.py"
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    counted, thanks = await names["main"](tmp_path)
    assert '"words":7' in counted
    assert thanks == "You said: Thank you."
    assert "demo__text_figures" in capsys.readouterr().out


async def test_conversations_are_bounded_in_number_length_and_age(tmp_path: Path) -> None:
    script = tmp_path / "short.json"
    script.write_text('[{"text": "{user}"}]')
    models = {"short": ModelSettings(kind="scripted", script=str(script), context_window=2000, max_tokens=200)}
    settings = HostSettings(model="short", conversations_per_agent=2)
    async with talking_hub(tmp_path, models, host=settings) as hub:
        first, second = await hub.host.create(), await hub.host.create()
        for index in range(12):
            await (await hub.host.send(first, f"Turn {index}. " + "So it goes. " * 40)).answer()
        kept = (await hub.host.conversations.get(first.id)).stored
        assert kept.turns == 12
        assert 0 < kept.first < 12, "the oldest turns are left out of prompts, and stay to be shown"
        assert len((await perform(hub, "conversations.show", id=first.id))["turns"]) == 12
        third = await hub.host.create()
        left = {row["id"] for row in (await perform(hub, "conversations.list"))["conversations"]}
        assert left == {first.id, third.id}, "the one unused for longest gives way"
        with pytest.raises(Fault, match="no conversation"):
            await hub.host.send(second, "Hello?")
        stored = (await hub.host.conversations.get(third.id)).stored
        old = msgspec.structs.replace(stored, updated=stored.updated - 91 * 86_400)
        async with hub.hub_app.store.transaction() as transaction:
            transaction.put(CONVERSATIONS, old)
        await hub.host.conversations.sweep()
        left = {row["id"] for row in (await perform(hub, "conversations.list"))["conversations"]}
        assert left == {first.id}
