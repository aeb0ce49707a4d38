"""Lists show the risk that calls meet, and a declaration that cannot be read counts as the strictest."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from hub.mgp_script import MgpScript, error_of, listed, policy, tool
from hub.running_hub import RawClient
from interlock.config.value_types import Mode

OFFER = {"version": "0.2.0", "extensions": ["security"], "permissions_required": ["shell.execute"]}
SECURITY: list[Any] = [
    None,
    {},
    {"side_effects": ["process"]},
    {"risk_level": "safe"},
    {"risk_level": "dangerous"},
    {"risk_level": "perilous"},
    {"risk_level": "safe", "permissions_required": []},
    {"risk_level": "safe", "permissions_required": ["shell.execute"]},
    {"risk_level": "safe", "permissions_required": [], "confirmation_required": True},
    {"risk_level": "moderate", "permissions_required": [], "reversible": False, "side_effects": ["disk"]},
    ["safe"],
]
HINTS: list[Any] = [None, {"destructiveHint": True}]
TOOLS = [
    tool(
        f"t{number}", **{key: value for key, value in (("security", said), ("annotations", hints)) if value is not None}
    )
    for number, (said, hints) in enumerate(itertools.product(SECURITY, HINTS))
]


@pytest.mark.parametrize("mode", ["guard", "locked", "observe"])
async def test_t121_a_tool_asks_exactly_where_its_listing_says_so(tmp_path: Path, mode: Mode) -> None:
    script = MgpScript(tmp_path, era="legacy", mgp=OFFER, tools=TOOLS)
    async with script.running_hub(mode=mode, permissions=policy("auto_approve")) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize({"mgp": {"version": "0.2.0", "extensions": ["security"]}})
        shown = {each["name"]: each["security"] for each in (await client.legacy("tools/list"))["result"]["tools"]}
        assert len(shown) == len(TOOLS)
        for name, security in shown.items():
            answer = await client.legacy("tools/call", {"name": name, "arguments": {}})
            asked = "result" not in answer or "_meta" in answer["result"]
            assert asked is security.get("confirmation_required", False), (name, security, answer)
            if security["risk_level"] == "dangerous":
                assert asked or mode == "observe", name


@pytest.mark.parametrize(
    "said", [{"version": 2}, "all", {"version": "0.2.0", "extensions": [], "permissions_required": 7}]
)
async def test_t122_a_declaration_that_cannot_be_read_needs_every_permission(tmp_path: Path, said: Any) -> None:
    script = MgpScript(tmp_path, mgp=said, tools=[tool("a")])
    async with script.running_hub() as hub:
        assert await listed(hub) == []
        answer = await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "s__a", "arguments": {}})
        assert error_of(answer)["name"] in ("APPROVAL_PENDING", "TOOL_NOT_FOUND")
        row = (await hub.operate("status"))["servers"][0]
        assert row["trust"] == "sandboxed"
        assert "cannot be read" in row["mgp"]["warning"]
        assert len(row["permissions"]) == 11
