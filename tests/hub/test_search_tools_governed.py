"""The tools and methods for finding tools are governed like any tool: counted, recorded, foreseen by `why`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import Rate
from interlock.hub.audit.record import INTENDED

from .running_hub import RawClient, RunningHub, child, running_hub
from .test_journal import entries

FIND = {"name": "find_tools", "arguments": {"query": "say it again"}}


async def why(hub: RunningHub, agent: str, tool: str, arguments: dict[str, Any]) -> Any:
    return (await hub.operate("why", agent=agent, tool=tool, arguments=arguments))["judgement"]


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", FIND, "find_tools"),
        ("tools/call", {**FIND, "name": "mgp.tools.discover"}, "find_tools"),
        ("mgp/tools/discover", FIND["arguments"], "mgp/tools/discover"),
    ],
)
async def test_a_search_counts_for_its_callers_rate_and_is_in_the_record(
    tmp_path: Path, method: str, params: dict[str, Any], name: str
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci", rate=Rate(per_minute=1)))
        assert (await why(hub, "ci", "find_tools", FIND["arguments"]))["outcome"] == "allowed"  # type: ignore[arg-type]
        assert "result" in await client.modern(method, params)
        refused = (await client.modern(method, params))["error"]
        assert (refused["data"]["name"], refused["data"]["gate"]) == ("RATE_LIMITED", "rates")
        foreseen = await why(hub, "ci", "find_tools", FIND["arguments"])  # type: ignore[arg-type]
        assert (foreseen["outcome"], foreseen["gate"]) == ("refused", "rates")
        told = [entry.record for entry in await entries(hub, actor="ci")]
        done = [one for one in told if one.event != INTENDED]
        assert [(one.event, one.name, one.gate) for one in done] == [
            ("TOOL_EXECUTED", name, ""),
            ("TOOL_BLOCKED", name, "rates"),
        ]
        assert len(done[0].arguments) == 64


async def test_why_of_call_tool_is_why_of_the_tool_it_calls(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await hub.deny("ci", "busy", "add")
        for inner, outcome, gate in (
            ({"name": "busy__echo", "arguments": {"text": "x"}}, "allowed", ""),
            ({"name": "busy__echo", "arguments": {"text": 5}}, "refused", "schema"),
            ({"name": "busy__add", "arguments": {}}, "refused", "access"),
            ({"name": "nothing", "arguments": {}}, "refused", "resolve"),
            ({"arguments": {}}, "refused", "schema"),
        ):
            foreseen = await why(hub, "ci", "call_tool", inner)
            assert (foreseen["outcome"], foreseen["gate"]) == (outcome, gate), inner
            real = await client.modern("tools/call", {"name": "call_tool", "arguments": inner})
            good = "error" not in real and not real["result"].get("isError")
            assert good == (outcome == "allowed"), inner


async def test_the_hubs_own_tools_are_validated_like_any_other(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("ada"))

        async def validated(tool: str, **arguments: Any) -> Any:
            answer = await client.modern("tools/validate", {"name": tool, "arguments": arguments})
            return answer["result"]["valid"] if "result" in answer else answer["error"]["data"]["name"]

        assert await validated("find_tools", query="echo") is True
        assert await validated("mgp.tools.discover", query="echo") is True
        assert await validated("find_tools") == "INVALID_TOOL_ARGS"
        assert await validated("call_tool", name="busy__echo", arguments={"text": "x"}) is True
        assert await validated("call_tool", name="busy__echo", arguments={"text": 5}) == "INVALID_TOOL_ARGS"
        assert await validated("call_tool", name="busy__none", arguments={}) == "TOOL_NOT_FOUND"
        assert await validated("call_tool") == "INVALID_TOOL_ARGS"
        assert not hub.hub_app.hub.open_calls
