"""Questions about calls through a whole hub: held, told to come back, approved once, denied, never widened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings
from interlock.config.value_types import Mode
from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.inbox import MAX_OPEN_PER_ASKER
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault

from .people import read_and_answer
from .running_hub import RawClient, RunningHub, child, messages, running_hub, text_of, until
from .test_sharing import LegacyClient

ADA = Principal("person:ada", "person")
ASK = {"careful": AgentSettings(ask=("busy__ec*",))}


def asking_hub(
    tmp_path: Path, *, hold_s: float = 0.0, valid_s: float = 600, agents: Mapping[str, AgentSettings] = ASK
) -> AbstractAsyncContextManager[RunningHub]:
    settings = HubSettings(
        timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=hold_s, valid_s=valid_s)
    )
    return running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=agents)


def echo(text: str, **more: Any) -> dict[str, Any]:
    return {"name": "busy__echo", "arguments": {"text": text}, **more}


def error_of(answer: Any) -> Any:
    """The error's details, whichever way the refusal was told."""
    if "error" in answer:
        return answer["error"]["data"]
    return answer["result"]["_meta"]["dev.interlock/error"]


async def only_open(hub: RunningHub) -> Decision:
    await until(lambda: len(hub.hub_app.inbox.all(only_open=True)) == 1)
    return hub.hub_app.inbox.all(only_open=True)[0]


async def test_a_held_call_goes_on_when_it_is_approved(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, hold_s=30) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        held = asyncio.ensure_future(client.modern("tools/call", echo("a")))
        decision = await only_open(hub)
        assert (decision.request.asker, decision.request.shown) == ("careful", "busy__echo")
        assert decision.request.rule == "ask: busy__ec*"
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert text_of(await held) == "a"
        assert hub.hub_app.inbox.get(decision.id).state is DecisionState.USED


async def test_a_call_that_was_not_answered_in_time_is_told_to_come_back_and_its_ticket_is_good_once(
    tmp_path: Path,
) -> None:
    async with asking_hub(tmp_path) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        told = await client.modern("tools/call", echo("a"))
        decision = await only_open(hub)
        assert error_of(told)["name"] == "APPROVAL_PENDING"
        assert error_of(told)["decision"] == decision.id
        assert f"waiting for approval {decision.id}; repeat the call after it is given" in text_of(told)
        again = await client.modern("tools/call", echo("a"))
        assert error_of(again)["decision"] == decision.id, "the same call joins the open question"
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert text_of(await client.modern("tools/call", echo("a"))) == "a"
        third = await client.modern("tools/call", echo("a"))
        assert error_of(third)["decision"] != decision.id


async def test_a_ticket_serves_one_of_many_calls_at_the_same_time(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        await client.modern("tools/call", echo("a"))
        await read_and_answer(hub.hub_app.inbox, (await only_open(hub)).id, "once", ADA)
        answers = await asyncio.gather(*(client.modern("tools/call", echo("a"), id=id_) for id_ in range(8)))
        assert [text_of(answer) for answer in answers].count("a") == 1
        assert hub.hub_app.hub.open_calls == 0


async def test_t32_an_approval_is_worth_nothing_for_other_arguments_another_tool_or_another_caller(
    tmp_path: Path,
) -> None:
    agents = {"careful": AgentSettings(ask=("busy__*",)), "other": AgentSettings(ask=("busy__*",))}
    async with asking_hub(tmp_path, agents=agents) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        told = await client.modern("tools/call", echo("harmless"))
        await read_and_answer(hub.hub_app.inbox, error_of(told)["decision"], "once", ADA)
        swapped = await client.modern("tools/call", echo("harmful"))
        assert error_of(swapped)["name"] == "APPROVAL_PENDING"
        assert error_of(swapped)["decision"] != error_of(told)["decision"]
        added = {"name": "busy__add", "arguments": {"a": 1}}
        assert error_of(await client.modern("tools/call", added))["name"] == "APPROVAL_PENDING"
        thief = RawClient(hub.url + "/mcp", hub.key("other"))
        assert error_of(await thief.modern("tools/call", echo("harmless")))["name"] == "APPROVAL_PENDING"
        assert text_of(await client.modern("tools/call", echo("harmless"))) == "harmless"


async def test_t32_whoever_asked_cannot_answer_nor_can_an_agent(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", echo("a"))
        decision = await only_open(hub)
        for by in (Principal("careful", "agent"), Principal("other", "agent"), Principal("ci", "service")):
            with pytest.raises(Fault, match="only a person"):
                await read_and_answer(hub.hub_app.inbox, decision.id, "once", by)
        assert hub.hub_app.inbox.get(decision.id).state is DecisionState.OPEN


async def test_a_question_is_answered_once_however_many_answer_at_the_same_time(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", echo("a"))
        decision = await only_open(hub)
        people = [Principal(f"person:{number}", "person") for number in range(6)]
        answers = [read_and_answer(hub.hub_app.inbox, decision.id, "once", person) for person in people]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(not isinstance(outcome, Fault) for outcome in outcomes) == 1


async def test_a_denial_is_told_with_who_denied_and_the_same_call_is_not_asked_again(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, hold_s=30) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        held = asyncio.ensure_future(client.modern("tools/call", echo("a")))
        decision = await only_open(hub)
        await hub.hub_app.inbox.answer(decision.id, "no", ADA, "terminal")
        refused = await held
        assert error_of(refused)["name"] == "PERMISSION_DENIED"
        assert "denied by person:ada" in refused["error"]["message"]
        again = await client.modern("tools/call", echo("a"))
        assert error_of(again)["decision"] == decision.id


async def test_open_questions_and_unused_approvals_outlive_the_hub(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        key = await hub.new_key("careful")
        first = error_of(await RawClient(hub.url + "/mcp", key).modern("tools/call", echo("a")))["decision"]
        second = error_of(await RawClient(hub.url + "/mcp", key).modern("tools/call", echo("b")))["decision"]
        await read_and_answer(hub.hub_app.inbox, second, "once", ADA)
    async with asking_hub(tmp_path) as hub:
        client = RawClient(hub.url + "/mcp", key)
        assert [decision.id for decision in hub.hub_app.inbox.all(only_open=True)] == [first]
        assert text_of(await client.modern("tools/call", echo("b"))) == "b"
        assert error_of(await client.modern("tools/call", echo("a")))["decision"] == first
        await read_and_answer(hub.hub_app.inbox, first, "once", ADA)
        assert text_of(await client.modern("tools/call", echo("a"))) == "a"


async def test_after_the_deadline_neither_question_nor_approval_is_worth_anything(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, valid_s=0.3) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        approved = error_of(await client.modern("tools/call", echo("a")))["decision"]
        await read_and_answer(hub.hub_app.inbox, approved, "once", ADA)
        left = error_of(await client.modern("tools/call", echo("b")))["decision"]
        await until(lambda: not hub.hub_app.inbox.all(only_open=True))
        with pytest.raises(Fault, match="expired"):
            await read_and_answer(hub.hub_app.inbox, left, "once", ADA)
        assert error_of(await client.modern("tools/call", echo("a")))["decision"] != approved
        await hub.hub_app.inbox.sweep()
        assert hub.hub_app.inbox.get(left).state is DecisionState.EXPIRED
        assert hub.hub_app.inbox.get(approved).state is DecisionState.EXPIRED


async def test_a_caller_who_wants_progress_gets_it_while_the_call_is_held(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, hold_s=30) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        await client.initialize()
        params = echo("a", _meta={"progressToken": "p1"})
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
        held = asyncio.ensure_future(client.post(body))
        decision = await only_open(hub)
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        heard = messages((await held)[2])
        told = [message["params"] for message in heard if message.get("method") == "notifications/progress"]
        assert told[0] == {"progressToken": "p1", "progress": 0, "message": f"waiting for approval {decision.id} (0 s)"}
        assert text_of(heard[-1]) == "a"


async def test_progress_grows_from_being_held_to_being_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.hub.calls.pipeline.call_approvals.PROGRESS_EVERY_S", 0.001)
    async with asking_hub(tmp_path, hold_s=30, agents={"careful": AgentSettings(ask=("busy__report",))}) as hub:
        client = LegacyClient(hub.url + "/mcp", {}, hub.key("careful"))
        await client.initialize()
        params = {"name": "busy__report", "arguments": {}, "_meta": {"progressToken": "p1"}}
        held = asyncio.ensure_future(client.request("tools/call", params))
        decision = await only_open(hub)
        await until(lambda: len(client.heard) > 3)
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        await held
        steps = [message["params"]["progress"] for message in client.heard if "progress" in message.get("method", "")]
        assert steps == sorted(set(steps))
        assert steps[-3:] == [1, 2, 3]


async def test_a_caller_that_leaves_leaves_the_question_open_and_nothing_held(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, hold_s=30) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        held = asyncio.ensure_future(client.modern("tools/call", echo("a")))
        decision = await only_open(hub)
        await until(lambda: awaits_approval(hub))
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        await until(lambda: not hub.hub_app.hub.pipeline.waiting)
        assert hub.hub_app.inbox.get(decision.id).state is DecisionState.OPEN
        assert [row["caller_gone"] for row in (await hub.operate("approvals.list"))["decisions"]] == [True]
        # The same call comes again and waits for the same answer.
        held = asyncio.ensure_future(client.modern("tools/call", echo("a")))
        await until(lambda: awaits_approval(hub))
        assert [row["caller_gone"] for row in (await hub.operate("approvals.list"))["decisions"]] == [False]
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert text_of(await held) == "a"


def awaits_approval(hub: RunningHub) -> bool:
    """Whether the hub holds a call for an approval."""
    return any(caller.open_calls.awaiting_approval for caller in hub.hub_app.authenticator.callers)


async def test_secrets_in_arguments_are_not_kept(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        secret = "ghp_" + "a1B2" * 9
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", echo(f"use {secret} now"))
        decision = await only_open(hub)
        assert "use " in decision.request.summary
        assert secret not in msgspec.json.encode(decision).decode()


async def test_arguments_that_do_not_fit_are_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        wrong = {"name": "busy__echo", "arguments": {"text": 5}}
        refused = await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", wrong)
        assert error_of(refused)["name"] == "INVALID_TOOL_ARGS"
        assert not hub.hub_app.inbox.all(only_open=False)


async def test_one_agent_cannot_fill_the_inbox(tmp_path: Path) -> None:
    agents = {**ASK, "second": ASK["careful"]}
    async with asking_hub(tmp_path, agents=agents) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        for number in range(MAX_OPEN_PER_ASKER):
            await client.modern("tools/call", echo(str(number)))
        full = await client.modern("tools/call", echo("one more"))
        assert error_of(full)["name"] == "RESOURCE_EXHAUSTED"
        other = await RawClient(hub.url + "/mcp", hub.key("second")).modern("tools/call", echo("a"))
        assert error_of(other)["name"] == "APPROVAL_PENDING"


@pytest.mark.parametrize(("said", "state"), [(True, DecisionState.USED), (False, DecisionState.DENIED)])
async def test_an_attended_client_is_asked_itself(tmp_path: Path, said: bool, state: DecisionState) -> None:
    agents = {"careful": AgentSettings(ask=("busy__ec*",), attended_by="ada")}
    async with asking_hub(tmp_path, hold_s=30, agents=agents) as hub:
        answers = {"elicitation/create": {"action": "accept", "content": {"approve": said}}}
        legacy_client = LegacyClient(hub.url + "/mcp", answers, hub.key("careful"))
        await legacy_client.initialize({"elicitation": {}})
        answer = await legacy_client.call("busy__echo", {"text": "a"})
        assert ("result" in answer) is said
        (decision,) = hub.hub_app.inbox.all(only_open=False)
        assert (decision.state, decision.answered_by, decision.answered_in) == (state, "person:ada", "client")
        asked = next(message for message in legacy_client.heard if message.get("method") == "elicitation/create")
        assert "busy__echo" in asked["params"]["message"]


async def test_a_client_that_nobody_attends_is_not_asked(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        await client.initialize({"elicitation": {}})
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": echo("a")}
        _, _, answer = await client.post(msgspec.json.encode(body))
        assert b"APPROVAL_PENDING" in answer
        assert b"elicitation/create" not in answer


async def test_always_makes_a_rule_for_that_call_alone_which_can_be_revoked(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        inbox = hub.hub_app.inbox
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        told = await client.modern("tools/call", echo("a"))
        await read_and_answer(inbox, error_of(told)["decision"], "always", ADA)
        for _ in range(3):
            assert text_of(await client.modern("tools/call", echo("a"))) == "a"
        assert error_of(await client.modern("tools/call", echo("b")))["name"] == "APPROVAL_PENDING"
        (rule,) = inbox.rules()
        assert "careful may call busy__echo" in rule.explain()
        await inbox.revoke_rule(rule.id, ADA)
        assert error_of(await client.modern("tools/call", echo("a")))["name"] == "APPROVAL_PENDING"


async def test_after_three_equal_answers_a_rule_is_offered(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        inbox = hub.hub_app.inbox
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        offered = []
        for _ in range(3):
            told = await client.modern("tools/call", echo("a"))
            answered = await read_and_answer(inbox, error_of(told)["decision"], "once", ADA)
            offered.append(inbox.offers_rule(answered))
            assert text_of(await client.modern("tools/call", echo("a"))) == "a"
        assert offered == [False, False, True]
        await inbox.make_rule(answered.id, ADA)
        assert text_of(await client.modern("tools/call", echo("a"))) == "a"


DANGEROUS = {"security": {"risk_level": "dangerous"}}
CONFIRMED = {"security": {"risk_level": "safe", "confirmation_required": True}}
HINTED = {"annotations": {"destructiveHint": True}}
PLAIN: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("mode", "declared", "asks"),
    [
        ("guard", DANGEROUS, True),
        ("guard", CONFIRMED, True),
        ("guard", HINTED, False),
        ("guard", PLAIN, False),
        ("locked", DANGEROUS, True),
        ("locked", CONFIRMED, True),
        ("locked", HINTED, True),
        ("locked", PLAIN, False),
        ("observe", DANGEROUS, False),
        ("observe", CONFIRMED, False),
    ],
)
async def test_risk_asks_as_the_mode_says(tmp_path: Path, mode: Mode, declared: dict[str, Any], asks: bool) -> None:
    wish = tmp_path / "tools.json"
    wish.write_text(json.dumps({"name": "act", "inputSchema": {"type": "object"}, **declared}))
    settings = HubSettings(mode=mode, timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0))
    async with running_hub(tmp_path, {"s": child("changing_server.py", str(wish), era="legacy")}, hub=settings) as hub:
        answer = await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "s__act", "arguments": {}})
        assert (text_of(answer) != "{}") is asks
        if asks:
            assert error_of(answer)["name"] == "APPROVAL_PENDING"
        noted = any("would ask before act" in line.text for line in hub.hub_app.logs.tail("s", 100))
        assert noted is (not asks and declared is not PLAIN)


@pytest.mark.parametrize("mode", ["guard", "observe"])
async def test_what_would_ask_is_noted_for_a_call_and_not_for_a_search(tmp_path: Path, mode: Mode) -> None:
    wish = tmp_path / "tools.json"
    wish.write_text(json.dumps({"name": "act", "inputSchema": {"type": "object"}, **HINTED}))
    settings = HubSettings(mode=mode, timeouts=TimeoutSettings(start_s=30))
    asking = {"eager": AgentSettings(ask=("s__act",))} if mode == "observe" else {}
    servers = {"s": child("changing_server.py", str(wish), era="legacy")}
    async with running_hub(tmp_path, servers, hub=settings, agents=asking) as hub:
        eager = RawClient(hub.url + "/mcp", hub.key("eager"))

        def noted() -> list[str]:
            lines = (line.text for line in hub.hub_app.logs.tail("s", 100))
            return [line for line in lines if "would ask before act for eager" in line]

        found = await eager.modern("tools/call", {"name": "find_tools", "arguments": {"query": "act"}})
        assert "s__act" in str(found)
        assert (await hub.operate("why", agent="eager", tool="s__act", arguments={}))["judgement"][
            "outcome"
        ] == "allowed"
        assert noted() == []
        for _ in range(2):
            await eager.modern("tools/call", {"name": "s__act", "arguments": {}})
        assert len(noted()) == (2 if mode == "observe" else 1), "each rule once"


async def test_questions_that_are_asked_together_never_share_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.hub.approvals.decision.LETTERS", "ab")
    async with asking_hub(tmp_path) as hub:
        names = [f"t{number}" for number in range(40)]
        asked = [ApprovalRequest("changed_tool", "s", "server", "s", name, name, "?", "r") for name in names]
        await hub.hub_app.inbox.ask_all(asked)
        found = hub.hub_app.inbox.all(only_open=True)
        assert {decision.request.name for decision in found} == set(names)
        assert len({decision.id for decision in found}) == 40
