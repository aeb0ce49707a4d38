"""Tools that an agent asks for and may not call yet: a person decides, and the agent hears of it, in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings
from interlock.discovery.tokens import TokenCounter
from interlock.hub.auth.principals import local_person
from interlock.wire.errors import Fault

from .people import read_and_answer
from .running_hub import FINDS_TOOLS, RawClient, RunningHub, child, running_hub, text_of, until
from .test_changes import listening, opened
from .test_permissions import open_question, shelly

ADA = local_person("ada")
SOUGHT = "many__measure_tide_height"
NEED = {"context": "I need the tide", "reason": "capability_gap", "requirements": {"capabilities": ["tide height"]}}
CLOSED = {"many": child("many_server.py", "60", access="opt-in")}
ASKING = {"asker": AgentSettings(request=("many__measure_*",))}


def settings(**more: Any) -> HubSettings:
    timeouts = TimeoutSettings(start_s=30, discovery_s=20, tool_s=20)
    return HubSettings(budget=2_000, timeouts=timeouts, approvals=ApprovalSettings(hold_s=0), **more)


async def decision_of(hub: RunningHub) -> Any:
    await until(lambda: bool(hub.hub_app.inbox.all(only_open=True)))
    (decision,) = hub.hub_app.inbox.all(only_open=True)
    return decision


def event_of(stream: Any) -> Any:
    return next((m["params"] for m in stream.heard if m.get("method") == "notifications/mgp.event"), None)


async def test_a_stateless_agent_asks_is_told_and_calls(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        other = RawClient(hub.url + "/mcp", hub.key("other"))
        wanted = {"dev.cloto/mgp": {"tools": True}}
        async with listening(client, **wanted) as stream, listening(other, **wanted) as foreign:
            asked = (await client.modern("mgp/tools/request", NEED | {"task_trace_id": "t-1"}))["result"]
            assert asked["status"] == "pending_approval"
            assert asked["tools_loaded"] == []
            decision = await decision_of(hub)
            assert asked["tools_pending"] == [{"tool": SOUGHT, "decision": decision.id}]
            assert decision.request.kind == "tool_access"
            assert "I need the tide" in decision.request.summary
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
            await until(lambda: event_of(stream) is not None)
            told = event_of(stream)
            assert told["channel"] == "tool.request"
            assert told["subscription_id"] == asked["request_id"] == told["data"]["request_id"]
            assert told["data"]["task_trace_id"] == "t-1"
            assert told["data"]["status"] == "fulfilled"
            assert told["data"]["tools_loaded"][0]["inputSchema"]["required"] == ["harbour"]
            assert event_of(foreign) is None
        called = await client.modern("tools/call", {"name": SOUGHT, "arguments": {"harbour": "Brest"}})
        assert text_of(called) == "2.4 m at Brest"
        (grant,) = hub.hub_app.grants.of_agent("asker")
        assert (grant.tool_name, grant.granted_by) == ("measure_tide_height", ADA.id)
        assert grant.expires_at is not None  # approved once: until the approval would have expired


async def test_many_tools_that_share_a_word_with_a_short_need_do_not_meet_it(tmp_path: Path) -> None:
    need = {"context": "c", "reason": "capability_gap", "requirements": {"capabilities": ["archive pigeon lofts"]}}
    async with running_hub(tmp_path, {"many": child("many_server.py", "300")}, hub=settings()) as hub:
        asked = (await RawClient(hub.url + "/mcp").modern("mgp/tools/request", need))["result"]
        assert (asked["status"], asked["tools_loaded"]) == ("unavailable", [])


async def test_a_session_hears_of_it_and_has_the_tool_in_its_list(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        await client.initialize(FINDS_TOOLS)
        async with opened(client, "GET", b"", {}) as stream:
            asked = (await client.legacy("mgp/tools/request", NEED))["result"]
            assert asked["status"] == "pending_approval"
            again = (await client.legacy("mgp/tools/request", NEED))["result"]
            assert again["tools_pending"] == asked["tools_pending"]  # the same question, asked once
            await read_and_answer(hub.hub_app.inbox, (await decision_of(hub)).id, "always", ADA)
            await until(lambda: event_of(stream) is not None)
            await until(lambda: "notifications/tools/list_changed" in stream.methods())
            assert len([m for m in stream.methods() if m == "notifications/mgp.event"]) == 1
        listed = (await client.legacy("tools/list"))["result"]["tools"]
        assert SOUGHT in {tool["name"] for tool in listed}
        (grant,) = hub.hub_app.grants.of_agent("asker")
        assert grant.expires_at is None


async def test_a_plain_client_hears_the_list_change_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        await client.initialize()
        async with opened(client, "GET", b"", {}) as stream:
            asked = await client.legacy("tools/call", {"name": "request_tools", "arguments": NEED})
            assert asked["result"]["structuredContent"]["status"] == "pending_approval"
            await read_and_answer(hub.hub_app.inbox, (await decision_of(hub)).id, "once", ADA)
            await until(lambda: "notifications/tools/list_changed" in stream.methods())
            assert event_of(stream) is None


async def test_a_no_is_told_and_not_asked_again(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        async with listening(client, **{"dev.cloto/mgp": {"tools": True}}) as stream:
            await client.modern("mgp/tools/request", NEED)
            await hub.hub_app.inbox.answer((await decision_of(hub)).id, "no", ADA, "terminal")
            await until(lambda: event_of(stream) is not None)
            assert event_of(stream)["data"]["tools_unavailable"] == [{"tool": SOUGHT, "reason": f"denied by {ADA.id}"}]
        again = (await client.modern("mgp/tools/request", NEED))["result"]
        assert again["status"] == "unavailable"
        assert again["tools_unavailable"] == [{"tool": SOUGHT, "reason": f"denied by {ADA.id}"}]
        assert not hub.hub_app.inbox.all(only_open=True)


@pytest.mark.parametrize("agents", [{}, {"asker": AgentSettings(request=("many__create_*",))}], ids=["none", "others"])
async def test_nothing_is_told_of_tools_that_may_not_be_asked_for(
    tmp_path: Path, agents: dict[str, AgentSettings]
) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=agents) as hub:
        asked = await RawClient(hub.url + "/mcp", hub.key("asker")).modern("mgp/tools/request", NEED)
        assert asked["result"]["status"] == "unavailable"
        assert "tide_height" not in str(asked)
        assert not hub.hub_app.inbox.all(only_open=True)


async def test_what_was_denied_or_the_key_does_not_permit_cannot_be_asked_for(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        await hub.deny("asker", "many", "measure_tide_height")
        asked = await RawClient(hub.url + "/mcp", hub.key("asker")).modern("mgp/tools/request", NEED)
        assert asked["result"]["status"] == "unavailable"
        await hub.take("asker", "many", "measure_tide_height")
        key = await hub.new_key("asker", permissions=("invoke:many__create_*",))
        asked = await RawClient(hub.url + "/mcp", key).modern("mgp/tools/request", NEED)
        assert asked["result"]["status"] == "unavailable"
        assert not hub.hub_app.inbox.all(only_open=True)


async def test_finding_never_shows_what_can_only_be_asked_for(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        found = (await client.modern("mgp/tools/discover", {"query": "tide height"}))["result"]
        assert found["tools"] == []
        assert found["total_available"] == 0


async def test_whoever_asked_cannot_answer(tmp_path: Path) -> None:
    async with running_hub(tmp_path, CLOSED, hub=settings(), agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        await client.modern("mgp/tools/request", NEED)
        caller = hub.hub_app.authenticator.admit("/mcp", {b"authorization": f"Bearer {client.key}".encode()})
        decision = await decision_of(hub)
        with pytest.raises(Fault):
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", caller.principal)
        assert hub.hub_app.grants.of_agent("asker") == []


async def test_a_tool_that_waits_for_another_decision_is_pending_too(tmp_path: Path) -> None:
    servers = {"shifty": child("busy_server.py")}
    async with running_hub(tmp_path, servers, hub=settings()) as hub:
        offer = hub.hub_app.catalog.offer("shifty")
        assert offer is not None
        tool = next(iter(offer.tools.values()))
        offer.withhold(tool, "abc")
        hub.hub_app.catalog.put(offer)
        query = tool.name.replace("_", " ")
        client = RawClient(hub.url + "/mcp")
        asked = (await client.modern("mgp/tools/request", {"context": query}))["result"]
        assert asked["status"] == "pending_approval"
        assert {"tool": tool.exposed, "decision": "abc"} in asked["tools_pending"]
        found = (await client.modern("mgp/tools/discover", {"query": query}))["result"]["tools"]
        assert tool.exposed not in {each["name"] for each in found}


async def test_a_tool_whose_server_waits_for_a_permission_is_pending_until_it_has_it(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell", "filesystem.read", era="modern")
    async with script.running_hub("stdio", hold_s=0) as hub:
        client = RawClient(hub.url + "/mcp")
        async with listening(client, **{"dev.cloto/mgp": {"tools": True}}) as stream:
            question = await open_question(hub, "shell.execute")
            asked = (await client.modern("mgp/tools/request", {"context": "run"}))["result"]
            assert asked["status"] == "pending_approval"
            assert {"tool": "s__run", "decision": question.id} in asked["tools_pending"]
            await read_and_answer(hub.hub_app.inbox, question.id, "once", ADA)
            await until(lambda: event_of(stream) is not None)
            assert event_of(stream)["data"]["tools_loaded"][0]["name"] == "s__run"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"context": " "},
        {"context": 5},
        {"context": "x" * 9_000},
        {"requirements": []},
        {"requirements": {"capabilities": "tide"}},
        {"requirements": {"capabilities": ["tide"] * 9}},
        {"context": "tide", "requirements": {"input_types": ["x"] * 9}},
        {"context": "tide", "requirements": {"preferred_risk_level": "none"}},
    ],
)
async def test_a_request_that_cannot_be_read_is_refused_by_method_and_by_tool(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings()) as hub:
        client = RawClient(hub.url + "/mcp")
        assert (await client.modern("mgp/tools/request", asked))["error"]["data"]["name"] == "INVALID_PARAMS"
        tool = await client.modern("tools/call", {"name": "request_tools", "arguments": asked})
        assert tool["result"]["isError"] is True


async def test_nobody_is_asked_where_a_tool_that_can_be_called_fits_better(tmp_path: Path) -> None:
    servers = {"many": child("many_server.py", "60"), "shut": child("many_server.py", "60", access="opt-in")}
    agents = {"asker": AgentSettings(request=("shut__*",))}
    async with running_hub(tmp_path, servers, hub=settings(), agents=agents) as hub:
        asked = (await RawClient(hub.url + "/mcp", hub.key("asker")).modern("mgp/tools/request", NEED))["result"]
        assert asked["status"] == "fulfilled"
        assert "call_tool" in asked["note"], "the model learns how to call what its list does not show"
        assert [tool["name"] for tool in asked["tools_loaded"]] == [SOUGHT]
        assert not hub.hub_app.inbox.all(only_open=True)


async def test_what_fits_only_with_a_higher_risk_is_said_to(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"many": child("many_server.py", "60")}, hub=settings()) as hub:
        need = NEED | {"requirements": {"capabilities": ["tide height"], "preferred_risk_level": "safe"}}
        asked = (await RawClient(hub.url + "/mcp").modern("mgp/tools/request", need))["result"]
        assert asked["status"] == "unavailable"
        assert asked["tools_unavailable"][0]["reason"] == "the fitting tools have a higher risk than safe"


async def test_a_question_that_nobody_answers_in_time_is_told(tmp_path: Path) -> None:
    hub_settings = msgspec.structs.replace(settings(), approvals=ApprovalSettings(hold_s=0, valid_s=1))
    async with running_hub(tmp_path, CLOSED, hub=hub_settings, agents=ASKING) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("asker"))
        async with listening(client, **{"dev.cloto/mgp": {"tools": True}}) as stream:
            asked = (await client.modern("mgp/tools/request", NEED))["result"]
            assert asked["status"] == "pending_approval"
            await until(lambda: event_of(stream) is not None)
            told = event_of(stream)["data"]
            assert told["status"] == "unavailable"
            assert told["tools_unavailable"] == [{"tool": SOUGHT, "reason": "nobody answered in time"}]


async def test_context_tokens_added_is_what_the_list_grew_by(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"many": child("many_server.py", "300")}, hub=settings()) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize(FINDS_TOOLS)
        before = (await client.legacy("tools/list"))["result"]["tools"]
        asked = (await client.legacy("mgp/tools/request", NEED))["result"]
        after = (await client.legacy("tools/list"))["result"]["tools"]
        count = TokenCounter()
        grown = count(json.dumps(after, separators=(",", ":"))) - count(json.dumps(before, separators=(",", ":")))
        assert len(after) - len(before) == len(asked["tools_loaded"]) == asked["session_tools_count"]
        await hub.counted("many")
        session = (await client.legacy("mgp/tools/session"))["result"]
        assert len(session["cached"]) == len(asked["tools_loaded"])
        freed = (await client.legacy("mgp/tools/session/evict", {"tools": session["cached"]}))["result"]["tokens_freed"]
        assert grown <= freed <= grown * 1.5
        again = (await client.legacy("mgp/tools/request", NEED))["result"]
        assert again["context_tokens_added"] == freed
