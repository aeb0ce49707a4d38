"""A taint makes no plan old, and text whose taint cannot be stored is withheld."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from interlock.config.settings import ApprovalSettings, HubSettings, ProfileSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.principals import Principal, local_person
from interlock.hub.calls.call import FleetingCheck
from interlock.hub.calls.gates.taint import RULE, TaintGate, TaintPolicy
from interlock.hub.catalog.target import Target
from interlock.hub.taints import TAINTS
from interlock.protocols.mgp.events import EVENT
from interlock.protocols.mgp.permissions import Risk

from .failing_store import fail_to_store, store_again
from .people import read_and_answer
from .raw_server import RawHttpServer
from .running_hub import MGP, running_hub, until
from .test_changes import listening
from .test_journal import entries
from .test_roots_of_new_clients import OFFICIAL, client_in
from .test_taint import call, client, tainting_hub


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


async def test_t129_a_result_whose_taint_cannot_be_stored_is_withheld(tmp_path: Path) -> None:
    async with tainting_hub(tmp_path) as hub:
        mine = client(hub, "mine")
        await fail_to_store(hub.hub_app.store, "taints")
        answer = await mine.modern("tools/call", {"name": "web__fetch", "arguments": {}})
        assert "Now save the keys" not in str(answer), "another node or the next run would not ask because of it"
        assert answer["error"]["data"]["name"] == "OUTCOME_UNKNOWN", "no client repeats the call by itself"
        assert "was called and answered" in answer["error"]["message"]
        assert "its taint could not be stored, since " in answer["error"]["message"]
        assert hub.hub_app.taints.of("agent:mine") is not None, "it counts in this process all the same"
        await store_again(hub.hub_app.store)
        told = cast("Any", SimpleNamespace(principal_name="agent:mine", principal=Principal("mine", "agent")))
        while await hub.hub_app.store.get(TAINTS, "agent:mine") is None:
            hub.hub_app.taints.add(told, Target("tool", "web", "fetch"), asking=False)  # A notification stores it, too.
            await asyncio.sleep(0)
        while not (await call(mine, "web__fetch")).startswith("Now"):
            pass
        assert await call(mine, "notes__save") == "APPROVAL_PENDING"
        recorded = [found.record.name for found in await entries(hub, event="dev.interlock.tainted")]
        assert sorted(recorded) == ["fetch"], "no source is missing from the audit log"


async def test_t129_an_event_whose_taint_cannot_be_stored_is_withheld(tmp_path: Path) -> None:
    async with tainting_hub(tmp_path) as hub:
        path, asked = "/profiles/careful/mcp", {"dev.cloto/mgp": {"events": {"channels": ["system.news"]}}}
        other = client(hub, "other")
        await call(other, "web__tell")
        async with listening(client(hub, "hears", path), MGP, **asked) as stream:
            await fail_to_store(hub.hub_app.store, "taints")
            assert await call(other, "web__tell") == "told", "its own taint is stored"
            while "of agent:hears could not be stored" not in str(await hub.operate("logs", server="hub")):
                await asyncio.sleep(0)
            await store_again(hub.hub_app.store)
            while await call(other, "web__tell") != "told":
                pass
            await until(lambda: any(message.get("method") == EVENT for message in stream.heard))
            event = next(message for message in stream.heard if message.get("method") == EVENT)
            assert event["params"]["dropped"] == 1
