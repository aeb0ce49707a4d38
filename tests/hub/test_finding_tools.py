"""A thousand tools behind the hub, a small context in front of it: found, called, and within the budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ProfileSettings, TimeoutSettings
from interlock.discovery.tokens import TokenCounter

from .running_hub import FINDS_TOOLS, MGP, RawClient, RunningHub, child, last_message, running_hub, text_of, until

BUDGET = 2_000
count_tokens = TokenCounter()


def small(budget: int | None = BUDGET) -> HubSettings:
    timeouts = TimeoutSettings(start_s=30, discovery_s=20, tool_s=20)
    return HubSettings(budget=budget, timeouts=timeouts, approvals=ApprovalSettings(hold_s=0))


async def counted(hub: RunningHub) -> None:
    """Wait until the tokens of every tool are counted, not estimated."""
    await hub.counted("many")


async def find(client: RawClient, **arguments: Any) -> Any:
    answer = await client.modern("tools/call", {"name": "find_tools", "arguments": arguments})
    return answer["result"]


async def test_a_thousand_tools_take_no_more_than_the_budget_and_the_sought_one_is_found_and_called(
    tmp_path: Path,
) -> None:
    servers = {"many": child("many_server.py", "1000")}
    async with running_hub(tmp_path, servers, hub=small(None)) as hub:
        everything = (await RawClient(hub.url + "/mcp").modern("tools/list"))["result"]["tools"]
        assert len(everything) == 1000
        before = count_tokens(json.dumps(everything, separators=(",", ":")))
    async with running_hub(tmp_path, servers, hub=small()) as hub:
        await counted(hub)
        client = RawClient(hub.url + "/mcp")
        listed = (await client.modern("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["find_tools", "call_tool", "request_tools"]
        after = count_tokens(json.dumps(listed, separators=(",", ":")))
        assert after < BUDGET < before
        found = await find(client, query="how high is the tide in a harbour?")
        tool = found["structuredContent"]["tools"][0]
        assert tool["name"] == "many__measure_tide_height"
        assert tool["inputSchema"]["required"] == ["harbour"]
        assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
        inner = {"name": tool["name"], "arguments": {"harbour": "Brest"}}
        called = await client.modern("tools/call", {"name": "call_tool", "arguments": inner})
        assert text_of(called) == "2.4 m at Brest"


async def test_results_never_exceed_the_budget_and_say_what_was_left_out(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"many": child("many_server.py", "300")}, hub=small(1_200)) as hub:
        await counted(hub)
        client = RawClient(hub.url + "/mcp")
        found = (await find(client, query="archive a ticket", max_results=20))["structuredContent"]
        spent = sum(
            hub.hub_app.tokens.of(hub.hub_app.catalog.tool(hub_view(hub), tool["name"]))  # type: ignore[arg-type]
            for tool in found["tools"]
        )
        assert found["tools"]
        assert spent <= 1_200
        assert found["left_out_for_budget"]


def hub_view(hub: RunningHub) -> Any:
    return hub.hub_app.authenticator.admit("/mcp", {}).view


async def test_call_tool_is_judged_as_the_inner_tool(tmp_path: Path) -> None:
    agents = {"careful": AgentSettings(ask=("many__measure_*",))}
    async with running_hub(tmp_path, {"many": child("many_server.py", "100")}, hub=small(), agents=agents) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        inner = {"name": "many__measure_tide_height", "arguments": {"harbour": "Brest"}}
        refused = await client.modern("tools/call", {"name": "call_tool", "arguments": inner})
        assert refused["result"]["_meta"]["dev.interlock/error"]["rule"] == "ask: many__measure_*"
        wrong = {"name": "many__create_invoice_0", "arguments": {"title": 1}}
        bad = await client.modern("tools/call", {"name": "call_tool", "arguments": wrong})
        assert bad["result"]["_meta"]["dev.interlock/error"]["gate"] == "schema"
        ghost = await client.modern("tools/call", {"name": "call_tool", "arguments": {"name": "nobody__x"}})
        assert ghost["error"]["data"]["name"] == "TOOL_NOT_FOUND"


async def test_nobody_finds_what_they_may_not_call(tmp_path: Path) -> None:
    profiles = {"work": ProfileSettings(tools=("many__create_*",), level="L2")}
    async with running_hub(
        tmp_path,
        {"many": child("many_server.py", "200")},
        hub=small(),
        profiles=profiles,
        agents={"bound": AgentSettings(profile="work")},
    ) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("bound"))
        found = (await find(client, query="tide height of a harbour", max_results=20))["structuredContent"]
        assert found["total_available"] == 20
        assert all(tool["name"].startswith("many__create_") for tool in found["tools"])


async def test_pinned_tools_stay_listed_and_levels_show_what_they_say(tmp_path: Path) -> None:
    profiles = {
        "l0": ProfileSettings(level="L0"),
        "l1": ProfileSettings(level="L1"),
        "l2": ProfileSettings(level="L2"),
        "l3": ProfileSettings(level="L3", pinned=("many__measure_*",)),
    }
    async with running_hub(tmp_path, {"many": child("many_server.py", "100")}, hub=small(), profiles=profiles) as hub:
        listed = {}
        for name in profiles:
            tools = (await RawClient(hub.url + f"/profiles/{name}/mcp").modern("tools/list"))["result"]["tools"]
            listed[name] = tools
        discovery_tools = ["find_tools", "call_tool", "request_tools"]
        assert len(listed["l0"]) == 100
        assert [tool["name"] for tool in listed["l1"]] == discovery_tools
        assert "Categories:" in listed["l1"][0]["description"]
        assert [tool["name"] for tool in listed["l2"]] == discovery_tools
        assert [tool["name"] for tool in listed["l3"]] == [*discovery_tools, "many__measure_tide_height"]
        bare = (await RawClient(hub.url + "/servers/many/mcp").modern("tools/list"))["result"]["tools"]
        assert len(bare) == 100


async def test_requested_tools_appear_in_the_sessions_own_list_and_can_be_evicted(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"many": child("many_server.py", "300")}, hub=small()) as hub:
        await counted(hub)
        client, other = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        await client.initialize(FINDS_TOOLS)
        await other.initialize(FINDS_TOOLS)
        asked = {"context": "I need the tide", "requirements": {"capabilities": ["tide height", "zzqqy"]}}
        granted = (await client.legacy("mgp/tools/request", asked))["result"]
        assert granted["status"] == "partial"
        assert granted["tools_unavailable"][0]["capability"] == "zzqqy"
        name = granted["tools_loaded"][0]["name"]
        assert name == "many__measure_tide_height"
        assert granted["context_tokens_added"] > 0
        assert name in {tool["name"] for tool in (await client.legacy("tools/list"))["result"]["tools"]}
        assert name not in {tool["name"] for tool in (await other.legacy("tools/list"))["result"]["tools"]}
        session = (await client.legacy("mgp/tools/session"))["result"]
        assert name in session["cached"]
        assert (await client.legacy("mgp/tools/session/evict", {"tools": [name]}))["result"]["tokens_freed"] > 0
        again = await client.legacy("mgp/tools/session/evict", {"tools": [name]})
        assert again["error"]["code"] == -32602


async def test_a_very_long_query_is_read(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"many": child("many_server.py", "20")}, hub=small()) as hub:
        query = "Nobody knows why the figures were late. " * 500 + "How high is the tide at the harbour?"
        method = await RawClient(hub.url + "/mcp").modern("mgp/tools/discover", {"query": query})
        assert method["result"]["tools"][0]["name"] == "many__measure_tide_height"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": 5},
        {"query": "x", "max_results": 0},
        {"query": "x", "max_results": 10**9},
        {"query": "x", "strategy": "magic"},
        {"query": "x", "filter": {"risk_level_max": "none"}},
        {"query": "x", "filter": {"colour": "red"}},
        {"query": "x", "filter": {"status": "weird"}},
        {"query": "x", "filter": {"server": ""}},
        {"query": "x", "filter": {"categories": "files"}},
        {"query": "x", "filter": []},
        {"query": ["x"]},
        {"query": "x", "max_results": True},
        {"query": "x", "more": 1},
    ],
)
async def test_a_search_that_cannot_be_read_is_told_to_the_model(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with running_hub(tmp_path, {"many": child("many_server.py", "20")}, hub=small()) as hub:
        result = await find(RawClient(hub.url + "/mcp"), **arguments)
        assert result["isError"] is True
        method = await RawClient(hub.url + "/mcp").modern("mgp/tools/discover", arguments)
        assert "error" in method or arguments.get("more")


async def test_params_of_a_method_that_cannot_be_read_are_invalid(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}, hub=small()) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize(MGP)
        for method in (b"discover", b"request", b"session", b"session/evict"):
            for query, expected in (
                (b"1e999", (-32602, "params:")),
                (b"9" * 5_000, (-32602, "params:")),
                (b'"\xff"', (-32700, "not JSO")),  # No message that is not UTF-8 reaches a method.
            ):
                body = b'{"jsonrpc":"2.0","id":1,"method":"mgp/tools/%b","params":{"query":%b}}' % (method, query)
                answer = last_message((await client.post(body))[2])
                assert (answer["error"]["code"], answer["error"]["message"][:7]) == expected, (method, query[:9])
                assert answer["id"] == 1


async def test_the_index_follows_servers_that_come_and_go(tmp_path: Path) -> None:
    from interlock.config.settings import Config

    first = {"many": child("many_server.py", "50")}
    async with running_hub(tmp_path, first, hub=small()) as hub:
        client = RawClient(hub.url + "/mcp")
        assert (await find(client, query="tide height"))["structuredContent"]["tools"]
        await hub.hub_app.apply(Config(hub=small(), servers={"busy": child("busy_server.py")}))
        await until(lambda: bool(hub.hub_app.catalog.offer("busy").tools))  # type: ignore[union-attr]
        found = (await find(client, query="tide height", max_results=20))["structuredContent"]["tools"]
        assert all(tool["name"].startswith("busy__") for tool in found)
        offer = hub.hub_app.catalog.offer("busy")
        assert offer is not None
        assert hub.hub_app.search.indexed_tools == len(offer.tools), "tools that are gone take no place"
