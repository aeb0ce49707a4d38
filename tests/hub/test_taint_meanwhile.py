"""A taint makes no plan old: a call that waited for its client is checked for it again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from interlock.config.settings import ApprovalSettings, HubSettings, ProfileSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.principals import local_person
from interlock.hub.calls.call import FleetingCheck
from interlock.hub.calls.gates.taint import RULE, TaintGate, TaintPolicy
from interlock.hub.catalog.target import Target
from interlock.protocols.mgp.permissions import Risk

from .people import read_and_answer
from .raw_server import RawHttpServer
from .running_hub import running_hub
from .test_roots_of_new_clients import OFFICIAL, client_in


async def test_t129_a_call_that_waited_for_roots_asks_if_its_caller_was_tainted_meanwhile(tmp_path: Path) -> None:
    settings = HubSettings(
        timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=20), approvals=ApprovalSettings(hold_s=0)
    )
    profiles = {"work": ProfileSettings(taint="ask")}
    async with RawHttpServer() as web:
        servers = {"r": OFFICIAL, "web": ServerSettings(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=settings, profiles=profiles) as hub:
            key = await hub.new_key("ci", profile="work")
            first, other = client_in(hub, "/work", key), client_in(hub, "/work", key)
            first.path = other.path = "/profiles/work/mcp"
            other.capabilities = {}
            asked = await first.start("r__known")
            assert [each["method"] for each in asked["inputRequests"].values()] == ["roots/list"]
            await other.ask("tools/call", {"name": "web__ok", "arguments": {"text": "x"}})
            call = {"name": "r__known", "arguments": {}}
            answer = await first.ask("tools/call", call, **first.reply(asked))
            refused = answer["result"]["_meta"]["dev.interlock/error"]
            assert (refused["name"], refused["gate"], refused["rule"]) == ("APPROVAL_PENDING", "taint", RULE)
            assert "web ok" in answer["result"]["content"][0]["text"], "the person and the agent read the source"
            (decision,) = hub.hub_app.inbox.all(only_open=True)
            assert decision.request.rule == RULE
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", local_person("ada"))
            again = await first.call("r__known")
            assert "error" not in again, again


def test_a_taint_gate_that_only_observes_passes_a_call_for_good() -> None:
    tool = SimpleNamespace(name="save")
    target = Target("tool", "notes", "save", cast("Any", tool))
    policy = TaintPolicy(
        {"work": ProfileSettings(taint="ask")}, cast("Any", None), cast("Any", None), lambda _: Risk.DANGEROUS
    )
    assert isinstance(TaintGate(policy, "guard", print).check(target), FleetingCheck)
    assert not isinstance(TaintGate(policy, "observe", print).check(target), FleetingCheck)
