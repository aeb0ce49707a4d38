"""Inferred risks: in `guard` the hub asks a person who is there to answer, and makes a note where nobody is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ProfileSettings
from interlock.hub.admin.operations import Operations
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import local_person

from .legacy_client import LegacyClient
from .people import read_and_answer
from .running_hub import RawClient, RunningHub, running_hub
from .test_validators import scripted

ADA = local_person("ada")
UNSAFE: list[tuple[str, dict[str, object], str]] = [
    ("run", {"command": "rm -rf notes"}, "shell.recursive_delete"),
    ("fetch", {"url": "http://127.0.0.1/"}, "address.loopback"),
    ("python", {"code": "import os\nos.system('id')"}, "code.process"),
]


def guard(hold_s: float = 0, mode: Any = "guard") -> HubSettings:
    return HubSettings(mode=mode, approvals=ApprovalSettings(hold_s=hold_s))


async def call(hub: RunningHub, name: str, arguments: dict[str, object]) -> dict[str, Any]:
    client = RawClient(hub.url + "/mcp", hub.key("agent"))
    answer = await client.modern("tools/call", {"name": f"s__{name}", "arguments": arguments})
    return dict(answer.get("result") or answer)


def watch(hub: RunningHub) -> Callable[[], None]:
    """A person at a terminal, who follows the questions as `interlock watch` does."""
    following = Operations(hub.hub_app, lambda: None).follow("approvals.list", b'{"follow":true}')
    assert following is not None
    return following.subscription.close


@pytest.mark.parametrize(("name", "arguments", "rule"), UNSAFE)
async def test_with_nobody_there_it_is_noted_and_goes_out(
    tmp_path: Path, name: str, arguments: dict[str, object], rule: str
) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        assert not (await call(hub, name, arguments)).get("isError")
        assert hub.hub_app.findings.would_refuse["s", rule] == 1
        assert hub.hub_app.inbox.all(only_open=False) == []


@pytest.mark.parametrize(("name", "arguments", "rule"), UNSAFE)
async def test_who_watches_is_asked_and_the_answer_holds_for_that_call_once(
    tmp_path: Path, name: str, arguments: dict[str, object], rule: str
) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        leave = watch(hub)
        asked = await call(hub, name, arguments)
        error = asked["_meta"]["dev.interlock/error"]
        assert (error["name"], error["gate"], error["rule"]) == ("APPROVAL_PENDING", "validators", f"inferred: {rule}")
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        assert rule in decision.request.text
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert not (await call(hub, name, arguments)).get("isError"), "it was allowed"
        assert hub.hub_app.inbox.get(decision.id).state is DecisionState.USED
        assert not hub.hub_app.findings.would_refuse, "a person has decided: nothing would be refused"
        again = await call(hub, name, arguments)
        assert again["_meta"]["dev.interlock/error"]["name"] == "APPROVAL_PENDING", "the answer was used up"
        leave()
        assert hub.hub_app.inbox.watched is False


@pytest.mark.parametrize(("name", "arguments", "rule"), UNSAFE)
async def test_why_shows_what_is_noted_and_when_it_is_asked(
    tmp_path: Path, name: str, arguments: dict[str, object], rule: str
) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        hub.key("agent")

        async def why(given: dict[str, object]) -> Any:
            return await hub.operate("why", agent="agent", tool=f"s__{name}", arguments=given)

        shown = await why(arguments)
        judged = shown["judgement"]
        assert (judged["outcome"], [text.partition(": ")[0] for text in judged["findings"]]) == ("allowed", [rule])
        assert "interlock watch" in judged["hint"]
        (validators,) = [gate for gate in shown["gates"] if gate["gate"] == "validators"]
        assert (validators["outcome"], f"noted: {rule}" in validators["message"]) == ("passed", True)
        watch(hub)
        assert (await why(arguments))["judgement"]["outcome"] == "asked"
        assert not hub.hub_app.findings.would_refuse, "nobody called"


async def test_a_no_refuses_the_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        watch(hub)
        await call(hub, "run", {"command": "rm -rf notes"})
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        await hub.hub_app.inbox.answer(decision.id, "no", ADA, "terminal")
        denied = await call(hub, "run", {"command": "rm -rf notes"})
        assert denied["error"]["data"]["name"] == "PERMISSION_DENIED"


async def test_neither_a_request_nor_a_no_ends_when_the_person_leaves(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        leave, command = watch(hub), {"command": "rm -rf notes"}
        await call(hub, "run", command)
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        leave()
        assert hub.hub_app.inbox.watched is False
        waiting = await call(hub, "run", command)
        error = waiting["_meta"]["dev.interlock/error"]
        assert (error["name"], error["decision"]) == ("APPROVAL_PENDING", decision.id)
        shown = await hub.operate("why", agent="agent", tool="s__run", arguments=command)
        assert shown["judgement"]["outcome"] == "asked"
        await hub.hub_app.inbox.answer(decision.id, "no", ADA, "terminal")
        denied = await call(hub, "run", command)
        assert denied["error"]["data"]["name"] == "PERMISSION_DENIED"
        shown = await hub.operate("why", agent="agent", tool="s__run", arguments=command)
        assert "denied by person:ada" in shown["judgement"]["message"]
        assert not (await call(hub, "run", {"command": "rm -rf other"})).get("isError"), "nobody was asked about this"


async def test_an_approval_is_for_those_arguments_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        watch(hub)
        await call(hub, "run", {"command": "rm -rf notes"})
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        other = await call(hub, "run", {"command": "rm -rf /"})
        assert other["_meta"]["dev.interlock/error"]["name"] == "APPROVAL_PENDING"


async def test_what_is_safe_is_never_asked(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        watch(hub)
        assert not (await call(hub, "run", {"command": "ls -l"})).get("isError")
        assert hub.hub_app.inbox.all(only_open=False) == []


async def test_no_approval_lets_a_call_reach_a_metadata_service(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        watch(hub)
        refused = await call(hub, "fetch", {"url": "http://169.254.169.254/"})
        assert refused["_meta"]["dev.interlock/error"]["name"] == "VALIDATION_BLOCKED"
        assert hub.hub_app.inbox.all(only_open=False) == []


@pytest.mark.parametrize(("mode", "refused"), [("locked", True), ("observe", False)])
async def test_locked_refuses_it_and_observe_notes_it_whoever_is_there(
    tmp_path: Path, mode: str, refused: bool
) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard(mode=mode)) as hub:
        watch(hub)
        result = await call(hub, "run", {"command": "rm -rf notes"})
        assert bool(result.get("isError")) is refused
        if refused:
            assert result["_meta"]["dev.interlock/error"]["name"] == "VALIDATION_BLOCKED"
        assert hub.hub_app.inbox.all(only_open=False) == []


async def test_the_person_before_an_attended_client_is_asked_there(tmp_path: Path) -> None:
    agents = {"agent": AgentSettings(attended_by="ada")}
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard(30), agents=agents) as hub:
        answers = {"elicitation/create": {"action": "accept", "content": {"approve": True}}}
        legacy_client = LegacyClient(hub.url + "/mcp", answers, hub.key("agent"))
        await legacy_client.initialize({"elicitation": {}})
        answer = await legacy_client.call("s__run", {"command": "rm -rf notes"})
        assert not answer["result"].get("isError")
        asked = next(message for message in legacy_client.heard if message.get("method") == "elicitation/create")
        assert "shell.recursive_delete" in asked["params"]["message"]


async def test_why_tells_a_person_what_to_type(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, hub=guard()) as hub:
        watch(hub)
        await call(hub, "run", {"command": "rm -rf notes"})
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        assert f"`interlock approvals approve {decision.id}`" in (await hub.operate("why"))["refusal"]["hint"]

        async def hint(tool: str) -> str:
            shown = await hub.operate("why", agent="agent", tool=tool, arguments={"command": "rm -rf notes"})
            return str(shown["judgement"]["hint"])

        assert "`interlock watch`" in await hint("s__run")
        assert await hint("s__rnu") == "`interlock list` lists the tools"
        denied = {"entry_type": "server_grant", "agent_id": "agent", "server_id": "s", "permission": "deny"}
        await hub.operate("grants.grant", **denied)
        assert "`interlock grants allow agent s run`" in await hint("s__run"), "an entry for the tool comes first"


async def test_why_names_the_profile_that_leaves_a_tool_out(tmp_path: Path) -> None:
    agents, profiles = {"agent": AgentSettings(profile="work")}, {"work": ProfileSettings(tools=("other__*",))}
    async with running_hub(tmp_path, {"s": scripted(tmp_path)}, agents=agents, profiles=profiles) as hub:
        shown = await hub.operate("why", agent="agent", tool="s__run", arguments={"command": "ls"})
        assert "the profile `work` of agent leaves it out" in shown["judgement"]["hint"], shown
        assert "grants" not in shown["judgement"]["hint"], "a grant would change nothing"
