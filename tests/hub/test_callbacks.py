"""Callbacks of servers through the hub: a person confirms, a client gives input, nobody is asked twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.config.settings import AgentSettings
from interlock.hub.auth.principals import local_person
from interlock.hub.calls.dispatch.callbacks import MAX_PER_CALL, CallbackRelay
from interlock.protocols.mgp.callbacks import REQUEST

from .legacy_client import LegacyClient
from .modern_client import ModernClient
from .running_hub import RawClient, RunningHub, running_hub, until
from .streaming_client import StreamingClient
from .test_streaming import plain

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
CONFIRM = {
    "callback_id": "cb-1",
    "type": "confirmation",
    "message": "Delete 15 files?",
    "options": ["confirm", "cancel"],
}
INPUT = {"callback_id": "cb-2", "type": "input", "message": "Which name?"}
CHOICE = {"callback_id": "cb-3", "type": "selection", "message": "Which?", "options": ["red", "blue"]}


def heard(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(json.loads(answer["result"]["content"][0]["text"]))


async def open_decision(hub: RunningHub) -> str:
    inbox = hub.hub_app.inbox
    await until(lambda: inbox.open_count == 1)
    return str(inbox.all(only_open=True)[0].id)


async def answer(hub: RunningHub, word: Any) -> str:
    """Answer the one open request as a person who has seen it in full."""
    decision, inbox = await open_decision(hub), hub.hub_app.inbox
    view = await inbox.view(inbox.get(decision))
    assert "Delete 15 files?" in str(view)
    await inbox.answer(decision, word, local_person("ada"), "terminal", inbox.get(decision).request.view)
    return decision


@pytest.mark.parametrize(("word", "response"), [("once", "confirm"), ("no", "cancel")])
async def test_t73_a_person_answers_a_confirmation_in_the_inbox_and_the_client_is_not_asked(
    tmp_path: Path, word: str, response: str
) -> None:
    """The client agreed on callbacks, and nobody said that a person sits before it: a model may."""
    async with running_hub(tmp_path, {"s": plain()}) as hub, StreamingClient(hub, hub.key("bot"), modern=True) as one:
        pending = asyncio.ensure_future(one.stream("s__ask", {**CONFIRM, "times": 2}, 1))
        decision = await answer(hub, word)
        said = {"callback_id": "cb-1", "response": response}
        assert heard(await pending) == [said, said], "a repeated request gets the recorded answer"
        assert one.notes(REQUEST) == []
        assert hub.hub_app.inbox.get(decision).state.value == ("used" if word == "once" else "denied")
        assert hub.hub_app.inbox.open_count == 0


async def test_t73_an_attended_client_confirms_and_any_client_gives_input_under_the_hubs_own_ids(
    tmp_path: Path,
) -> None:
    agents = {"bot": AgentSettings(attended_by="ada")}
    async with (
        running_hub(tmp_path, {"s": plain()}, agents=agents) as hub,
        StreamingClient(hub, hub.key("bot"), modern=True) as one,
        StreamingClient(hub, hub.key("other"), modern=True) as two,
    ):
        pending = asyncio.ensure_future(one.stream("s__ask", CONFIRM, "x"))
        (asked,) = await one.heard(REQUEST)
        assert (asked["request_id"], asked["type"], asked["options"]) == ("x", "confirmation", ["confirm", "cancel"])
        assert asked["callback_id"] != "cb-1"
        respond = {"callback_id": asked["callback_id"], "response": "confirm"}
        assert (await two.ask("mgp/callback/respond", respond, 1))["result"]["accepted"] is False
        assert (await one.ask("mgp/callback/respond", respond, 2))["result"]["accepted"] is True
        assert heard(await pending) == [{"callback_id": "cb-1", "response": "confirm"}]
        for callback, response in ((INPUT, "Ada"), (CHOICE, "blue")):
            pending = asyncio.ensure_future(two.stream("s__ask", callback, callback["callback_id"]))
            asked = (await two.heard(REQUEST, 1 if callback is INPUT else 2))[-1]
            respond = {"callback_id": asked["callback_id"], "response": response}
            assert (await two.ask("mgp/callback/respond", respond, f"r{response}"))["result"]["accepted"] is True
            assert heard(await pending) == [{"callback_id": callback["callback_id"], "response": response}]
        lines = 300 * "\ngrößer"
        told = {"callback_id": "cb-4", "type": "notification", "message": "by\u200bthe way" + lines}
        assert (await two.stream("s__ask", told, 9))["result"]["content"][0]["text"] == "told"
        assert two.notes(REQUEST)[-1]["message"] == "by\\u{200B}the way" + lines, "before the result"


async def test_t73_few_notifications_of_a_call_wait_for_a_thread() -> None:
    relay = CallbackRelay(*cast(Any, (None,) * 4))
    told = {"callback_id": "cb-4", "type": "notification", "message": 2_000 * "a\ufe0f"}
    before = len(asyncio.all_tasks())
    for _ in range(1_000):
        relay.on_request(json.dumps(told).encode())
    waiting = len(asyncio.all_tasks()) - before
    relay.stop()
    assert waiting == MAX_PER_CALL


async def test_t73_few_answers_to_a_repeated_callback_are_under_way_at_once(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": plain()}) as hub, StreamingClient(hub, hub.key("bot"), modern=True) as one:
        repeated = {**INPUT, "timeout_ms": 50, "repeats": 5_000, "times": 40}
        before, tasks = len(asyncio.all_tasks()), list[int]()
        pending = asyncio.ensure_future(one.stream("s__ask", repeated, 1))
        await until(lambda: tasks.append(len(asyncio.all_tasks())) or pending.done())
        assert len(heard(await pending)) == 40
        assert max(tasks) < before + 2 * MAX_PER_CALL


async def test_t74_a_callback_that_nobody_answers_in_time_is_answered_by_the_hub(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": plain()}) as hub, StreamingClient(hub, hub.key("bot"), modern=True) as one:
        late = {"response": None, "timed_out": True}
        for number, callback in enumerate((CONFIRM, INPUT)):
            answered = heard(await one.stream("s__ask", {**callback, "timeout_ms": 50}, number))
            assert answered == [{"callback_id": callback["callback_id"], **late}]
        await until(lambda: hub.hub_app.inbox.open_count == 0)
        assert len(hub.hub_app.service.pipeline.dispatcher.callbacks.open) == 0
        unclear = {**CONFIRM, "callback_id": "cb-9", "options": ["delete all", "delete one"]}
        assert heard(await one.stream("s__ask", unclear, 7)) == [{"callback_id": "cb-9", "response": None}]
    async with (
        running_hub(tmp_path / "plain", {"s": plain()}) as hub,
        StreamingClient(hub, hub.key("bot"), modern=True, capabilities={}) as one,
    ):
        assert heard(await one.stream("s__ask", INPUT, 1)) == [{"callback_id": "cb-2", "response": None}]


async def test_t74_a_callback_is_answered_although_the_store_cannot_take_its_request(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": plain()}) as hub, StreamingClient(hub, hub.key("bot"), modern=True) as one:
        store = hub.hub_app.store
        await store.commit(lambda database: database.execute("ALTER TABLE document_columns RENAME TO away"))
        answered = heard(await one.stream("s__ask", CONFIRM, 1))
        await store.commit(lambda database: database.execute("ALTER TABLE away RENAME TO document_columns"))
    assert answered == [{"callback_id": "cb-1", "response": None}]


async def test_t41_a_confirmation_masks_the_secrets_among_the_arguments(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    async with running_hub(tmp_path, {"s": plain()}) as hub, StreamingClient(hub, hub.key("bot"), modern=True) as one:
        pending = asyncio.ensure_future(one.stream("s__ask", {**CONFIRM, "note": f"use {token}"}, 1))
        view = (await hub.operate("approvals.show", id=await open_decision(hub)))["view"]
        await answer(hub, "no")
        await pending
    assert token not in view
    assert "use [secret: github_token" in view


async def test_t74_a_call_that_ends_before_its_callback_leaves_no_request_open(tmp_path: Path) -> None:
    """The call ends while its request is being stored: 64 of those would shut the caller out of approvals."""
    async with running_hub(tmp_path, {"s": plain()}) as hub, StreamingClient(hub, hub.key("bot"), modern=True) as one:
        for number in range(24):
            early = {**CONFIRM, "callback_id": f"cb-{number}", "times": 0}
            assert (await one.stream("s__ask", early, number))["result"]["content"][0]["text"] == "told"
        inbox, background = hub.hub_app.inbox, hub.hub_app.service.pipeline.dispatcher.callbacks.background
        await until(lambda: inbox.open_count == 0 and len(background) == 0)
        pending = asyncio.ensure_future(one.stream("s__ask", CONFIRM, "last"))
        await answer(hub, "no")
        assert heard(await pending) == [{"callback_id": "cb-1", "response": "cancel"}]


async def test_clients_without_mgp_answer_by_elicitation_in_both_eras(tmp_path: Path) -> None:
    agents = {"bot": AgentSettings(attended_by="ada")}
    said = {"action": "accept", "content": {"confirm": True, "answer": "blue"}}
    async with running_hub(tmp_path, {"s": plain()}, agents=agents) as hub:
        old = LegacyClient(hub.url + "/mcp", {"elicitation/create": said}, hub.key("bot"))
        await old.initialize({"elicitation": {}})
        new = ModernClient(hub.url + "/mcp", {"elicitation/create": said}, hub.key("bot"))
        new.capabilities = {"elicitation": {"form": {}}}
        for client in (old, new):
            for callback, response in ((CONFIRM, "confirm"), (CHOICE, "blue")):
                answered = heard(await client.call("s__ask", callback))
                assert answered == [{"callback_id": callback["callback_id"], "response": response}]
        assert [asked["params"]["message"] for asked in new.asked] == ["s: Delete 15 files?", "s: Which?"]


class Overheard(RawClient):
    """Keeps the last response as it came."""

    raw = b""

    async def post(self, *args: Any) -> Any:
        answer = await super().post(*args)
        self.raw = answer[2]
        return answer


async def test_a_stateless_client_gets_a_notification_as_log_message_only_if_it_asked_for_them(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": plain()}) as hub:
        client = Overheard(hub.url + "/mcp", hub.key("bot"))
        told = {"callback_id": "cb-4", "type": "notification", "message": "by the way"}
        for level, heard in (({}, False), ({LOG_LEVEL: "info"}, True), ({LOG_LEVEL: "error"}, False)):
            params = {"name": "s__ask", "arguments": told, "_meta": level}
            assert (await client.modern("tools/call", params))["result"]["content"][0]["text"] == "told"
            assert (b"by the way" in client.raw) is heard, (level, client.raw)
