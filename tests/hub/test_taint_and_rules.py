"""`taint = "ask"`: a rule answers no question that a taint asks, whenever the taint comes to a call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    ProfileSettings,
    ServerSettings,
    TimeoutSettings,
)
from interlock.hub.approvals.decision import Decision
from interlock.hub.auth.principals import local_person
from interlock.hub.calls.gates.taint import RULE
from interlock.hub.calls.gates.validator_checks import FIND_HERE
from loop_clock import advance

from .instructed_server import InstructedServer
from .legacy_client import answers
from .modern_client import ModernClient
from .people import read_and_answer
from .raw_server import RawHttpServer
from .running_hub import RawClient, RunningHub, child, running_hub, text_of, until
from .test_recovering import busy, calls, scripted
from .test_taint_questions import QUESTIONS, in_the_call
from .test_waiting_for_a_server import OK, Gated

ADA = local_person("ada")


@contextlib.asynccontextmanager
async def asking_hub(
    folder: Path, name: str, server: ServerSettings, agent: AgentSettings
) -> AsyncIterator[RunningHub]:
    """A hub with a trusted server, one with text of strangers, and the agent `ci`."""
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, tool_s=60), approvals=ApprovalSettings(hold_s=600))
    async with RawHttpServer() as strange:
        servers = {name: server, "strange": ServerSettings(url=strange.url, era="legacy")}
        profiles, agents = {"work": ProfileSettings(taint="ask")}, {"ci": agent}
        async with running_hub(folder, servers, hub=settings, profiles=profiles, agents=agents) as hub:
            yield hub


async def taint(hub: RunningHub) -> None:
    await RawClient(hub.url + "/mcp", hub.key("ci")).modern("tools/call", {**OK, "name": "strange__ok"})
    assert hub.hub_app.taints.of("agent:ci") is not None


async def question(hub: RunningHub) -> Decision:
    (decision,) = await until(lambda: hub.hub_app.inbox.all(only_open=True))
    return decision


async def allowed_always(hub: RunningHub, call: Coroutine[Any, Any, Any]) -> Any:
    """The answer to a call that a person approves for good."""
    asked = asyncio.ensure_future(call)
    await read_and_answer(hub.hub_app.inbox, (await question(hub)).id, "always", ADA)
    return await asked


async def test_t129_a_rule_does_not_send_a_call_that_waited_for_its_server_while_its_caller_was_tainted(
    tmp_path: Path,
) -> None:
    async with Gated() as web:
        server = ServerSettings(url=web.url, era="legacy", trust="trusted")
        async with asking_hub(tmp_path, "web", server, AgentSettings(profile="work", ask=("web__ok",))) as hub:
            client = RawClient(hub.url + "/mcp", hub.key("ci"))
            await allowed_always(hub, client.modern("tools/call", OK))
            assert text_of(await client.modern("tools/call", OK)) == "fine"
            web.gate.clear()
            await hub.operate("servers.restart", server="web")
            await until(lambda: hub.hub_app.upstreams["web"].pool.shared is None)
            waiting = asyncio.ensure_future(client.modern("tools/call", OK))
            await until(lambda: hub.hub_app.hub.open_calls == 1)
            await taint(hub)
            web.gate.set()
            await until(lambda: waiting.done() or hub.hub_app.inbox.all(only_open=True))
            assert web.called == 2
            decision = await question(hub)
            assert decision.request.rule == RULE
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
            assert text_of(await waiting) == "fine"
            assert (web.called, hub.hub_app.hub.open_calls) == (3, 0)


async def test_t129_a_rule_does_not_send_a_call_again_whose_caller_was_tainted_meanwhile(tmp_path: Path) -> None:
    script = scripted(tmp_path, {"get": ["ok", busy(retry_after_ms=15_000), "ok"]})
    server = child("mgp_server.py", str(script.path), trust="trusted")
    async with asking_hub(tmp_path, "s", server, AgentSettings(profile="work", ask=("s__get",))) as hub:
        client, get = RawClient(hub.url + "/mcp", hub.key("ci")), {"name": "s__get", "arguments": {}}
        await allowed_always(hub, client.modern("tools/call", get))
        waiting = asyncio.ensure_future(client.modern("tools/call", get))
        await until(lambda: calls(script, "get") == 2 and not hub.hub_app.hub.open_calls)
        await taint(hub)
        advance(16)
        await until(lambda: waiting.done() or hub.hub_app.inbox.all(only_open=True))
        assert calls(script, "get") == 2
        decision = await question(hub)
        assert decision.request.rule == RULE
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert text_of(await waiting) == "get ran {}"
        assert calls(script, "get") == 3


async def test_t129_a_rule_does_not_send_the_next_round_of_a_call_whose_caller_was_tainted_meanwhile(
    tmp_path: Path,
) -> None:
    async with InstructedServer().http() as web:
        server = ServerSettings(url=web.url, era="modern", trust="trusted")
        async with asking_hub(tmp_path, "web", server, AgentSettings(profile="work", ask=("web__do",))) as hub:
            client, wish = ModernClient(hub.url + "/mcp", answers("ada"), hub.key("ci")), in_the_call(QUESTIONS[0])
            await allowed_always(hub, client.call("web__do", wish))
            await client.call("web__do", wish)
            assert len(web.asked("tools/call")) == 4, "a rule holds for every round"
            asked = await client.start("web__do", wish)
            assert asked["resultType"] == "input_required"
            await taint(hub)
            params = {"name": "web__do", "arguments": wish}
            waiting = asyncio.ensure_future(client.ask("tools/call", params, **client.reply(asked)))
            await until(lambda: waiting.done() or hub.hub_app.inbox.all(only_open=True))
            assert len(web.asked("tools/call")) == 5
            decision = await question(hub)
            assert decision.request.rule == RULE
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
            assert "ada" in str(await waiting)


async def test_t129_an_approval_from_before_the_taint_does_not_answer_it(tmp_path: Path) -> None:
    async with InstructedServer().http() as web:
        server = ServerSettings(url=web.url, era="modern", trust="trusted")
        async with asking_hub(tmp_path, "web", server, AgentSettings(profile="work", ask=("web__do",))) as hub:
            client, wish = ModernClient(hub.url + "/mcp", {}, hub.key("ci")), {"text": "done"}
            params = {"name": "web__do", "arguments": wish}
            first = asyncio.ensure_future(client.ask("tools/call", dict(params)))
            earlier = await question(hub)
            first.cancel()
            await until(lambda: not hub.hub_app.hub.pipeline.waiting)
            await read_and_answer(hub.hub_app.inbox, earlier.id, "once", ADA)
            await taint(hub)
            waiting = asyncio.ensure_future(client.ask("tools/call", dict(params)))
            await until(lambda: waiting.done() or hub.hub_app.inbox.all(only_open=True))
            assert not waiting.done(), waiting.result()
            decision = await question(hub)
            assert decision.request.rule == RULE, "the person sees the sources now"
            assert web.asked("tools/call") == []
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
            assert "result" in await waiting
            assert len(web.asked("tools/call")) == 1


async def test_t129_a_rule_about_a_finding_does_not_answer_the_taint_behind_a_long_check(tmp_path: Path) -> None:
    wish = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    wish.write_text(json.dumps({"name": "run_command", "inputSchema": schema}))
    server = child("changing_server.py", str(wish), era="legacy", trust="trusted")
    async with asking_hub(tmp_path, "s", server, AgentSettings(profile="work", attended_by="ada")) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("ci"))
        long = {"name": "s__run_command", "arguments": {"command": "rm -rf /", "text": "a" * FIND_HERE}}
        await allowed_always(hub, client.modern("tools/call", long))
        assert "result" in await client.modern("tools/call", long)
        await taint(hub)
        waiting = asyncio.ensure_future(client.modern("tools/call", long))
        await until(lambda: waiting.done() or hub.hub_app.inbox.all(only_open=True))
        assert not waiting.done(), waiting.result()
        decision = await question(hub)
        assert decision.request.rule == RULE
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert "result" in await waiting
