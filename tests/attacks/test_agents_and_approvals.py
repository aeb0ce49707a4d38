"""An agent is not told how to approve, cannot answer for itself, and its calls do not outlive its patience."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.mgp_script import error_of
from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, RunningHub, messages, running_hub, until
from interlock.cli.control.agent_environment import AGENTS, agent_of, with_environment
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.composition import approvals
from interlock.hub.tool_search.searching_clients import how_it_searches

SETTINGS = HubSettings(
    timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60),
    approvals=ApprovalSettings(hold_s=600),
    anonymous=False,
)
CALL = {"name": "web__ok", "arguments": {}}


async def _approve(hub: RunningHub) -> None:
    [row] = (await hub.operate("approvals.list"))["decisions"]
    view = (await hub.operate("approvals.show", id=row["id"]))["view_hash"]
    await hub.operate("approvals.answer", id=row["id"], answer="once", view=view, terminal=True)


async def test_t125_only_a_call_that_reports_progress_is_held_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "UNFOLLOWED_S", 0.05)
    agents = {"ci": AgentSettings(ask=("**",)), "patient": AgentSettings(ask=("**",), hold_s=600)}
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=SETTINGS, agents=agents) as hub:
            client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
            refused = await client.modern("tools/call", CALL)
            error = error_of(refused)
            assert error["name"] == "APPROVAL_PENDING"
            # The model is told to ask, and not how to approve.
            assert "interlock" not in json.dumps(refused).replace("dev.interlock/", "")
            assert "ask the user" in error["hint"]
            await _approve(hub)
            assert "result" in await client.modern("tools/call", CALL)
            assert web.called == 1

            params = {**CALL, "_meta": {"progressToken": 7}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            old = RawClient(hub.url + "/mcp", client.key)
            await old.initialize()
            held = asyncio.create_task(old.post(msgspec.json.encode(body)))
            await until(lambda: hub.hub_app.inbox.open_count == 1)
            await _approve(hub)
            said = messages((await held)[2])
            told = [each["params"]["progress"] for each in said if each.get("method") == "notifications/progress"]
            assert told
            assert all(len(str(value)) <= 5 for value in told), "people read it"
            assert "content" in said[-1]["result"]

            patient = RawClient(hub.url + "/mcp", await hub.new_key("patient"))
            waiting = asyncio.create_task(patient.modern("tools/call", CALL))
            await until(lambda: hub.hub_app.inbox.open_count == 1)
            await _approve(hub)
            assert "content" in (await waiting)["result"]


@pytest.mark.parametrize("variable", AGENTS)
def test_t125_the_environment_of_an_agent_is_recognized(variable: str) -> None:
    assert agent_of({variable: "1", "HOME": "/"}) is not None
    assert agent_of({"HOME": "/", variable: ""}) is None


def _searches(name: str, **environ: str) -> bool:
    line = msgspec.json.encode({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": name}}})
    info: Any = json.loads(with_environment(line + b"\n", environ))["params"]["clientInfo"]
    return bool(how_it_searches(msgspec.json.encode(info)))


def test_who_searches_by_itself_is_decided_by_the_client_and_its_environment() -> None:
    assert _searches("claude-code")
    assert _searches("claude-code", ANTHROPIC_BASE_URL="https://api.anthropic.com")
    assert not _searches("claude-code", ANTHROPIC_BASE_URL="http://127.0.0.1:4000/v1")
    assert not _searches("claude-code", ANTHROPIC_BASE_URL="https://anthropic.com.evil.example")
    assert _searches("claude-code", ANTHROPIC_BASE_URL="http://127.0.0.1:4000", ENABLE_TOOL_SEARCH="true")
    assert not _searches("claude-code", ENABLE_TOOL_SEARCH="0")
    assert _searches("qwen-cli-mcp-client-interlock")
    assert not _searches("gemini-cli-mcp-client", ANTHROPIC_BASE_URL="http://127.0.0.1")
    assert with_environment(b"{]\n", {"ANTHROPIC_BASE_URL": "http://[::"}) == b"{]\n"
