"""Permissions of servers: declared, asked for, decided, told to the server, withheld, revoked, kept over restarts."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import PermissionSettings, TimeoutSettings
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.states import DecisionState as Asked
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.draining import Draining
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mgp.permissions import STANDARD
from interlock.wire.errors import Fault

from .mgp_script import ADA, ERAS, TRANSPORTS, MgpScript, call, error_of, listed, needing, policy, tool
from .people import read_and_answer
from .running_hub import RawClient, RunningHub, text_of, until

REQUEST, RESPONSE = "mgp/permission/request", "mgp/permission/response"
OFFER = {"version": "0.2.0", "extensions": ["security"]}
TOOLS = [needing("run", "shell.execute"), needing("look", "filesystem.read"), needing("add")]


def shelly(tmp_path: Path, *permissions: str, **more: Any) -> MgpScript:
    """A server that says it needs these."""
    said = {"era": "legacy", "mgp": {**OFFER, "permissions_required": list(permissions)}, "tools": TOOLS, **more}
    return MgpScript(tmp_path, **said)


async def open_question(hub: RunningHub, permission: str) -> Decision:
    def found() -> list[Decision]:
        open_ = hub.hub_app.inbox.all(only_open=True)
        return [one for one in open_ if one.request.kind == "permission" and one.request.name == permission]

    await until(lambda: len(found()) == 1)
    return found()[0]


def asked_about(hub: RunningHub) -> set[str]:
    return {one.request.name for one in hub.hub_app.inbox.all(only_open=True)}


async def standing(hub: RunningHub, permission: str, *grants: str) -> None:
    await until(lambda: hub.hub_app.permissions.status("s", permission).grant in grants)


async def control(hub: RunningHub, method: str, **params: Any) -> Any:
    """The answer for the person at the terminal."""
    return await hub.operate(method, **params)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_is_asked_to_wait_and_told_the_outcome_before_it_may_begin(
    tmp_path: Path, transport: str, era: str
) -> None:
    script = shelly(tmp_path, "shell", "filesystem.read", era=era)
    async with script.running_hub(transport, hold_s=30, wait=False) as hub:
        for permission in ("shell.execute", "filesystem.read"):
            question = await open_question(hub, permission)
            assert hub.hub_app.upstreams["s"].state is ServerState.CONNECTING
            await read_and_answer(hub.hub_app.inbox, question.id, "once", ADA)
        await hub.state("s", ServerState.CONNECTED)
        first = {"legacy": ["initialize", REQUEST, RESPONSE, "notifications/initialized"]}
        order = [method for method in script.methods() if method != "server/discover"]
        assert order[:3] == first["legacy"][:3] if era == "legacy" else order[:2] == [REQUEST, RESPONSE]
        if era == "legacy":
            assert order[3] == "notifications/initialized"
        (asked,) = script.params(REQUEST)
        assert asked["permissions"] == ["shell.execute", "filesystem.read"]
        assert asked["policy"] == "interactive"
        (told,) = script.params(RESPONSE)
        assert told["request_id"] == asked["request_id"]
        assert told["grants"] == {"shell.execute": "approved", "filesystem.read": "approved"}
        assert told["approved_by"] == "person:ada"
        assert await listed(hub) == ["s__run", "s__look", "s__add"]
        assert hub.hub_app.inbox.get(question.id).state is Asked.USED


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("era", ERAS)
async def test_what_nobody_answers_is_deferred_and_its_tools_come_with_the_answer(
    tmp_path: Path, transport: str, era: str
) -> None:
    script = shelly(tmp_path, "shell.execute", era=era)
    async with script.running_hub(transport) as hub:
        assert script.params(RESPONSE)[0]["grants"] == {"shell.execute": "deferred"}
        assert await listed(hub) == ["s__add"], "what another tool needs was never asked about and is not granted"
        refused = error_of(await call(hub, "run"))
        question = await open_question(hub, "shell.execute")
        assert (refused["name"], refused["decision"]) == ("APPROVAL_PENDING", question.id)
        assert refused["gate"] == "permissions"
        changes = hub.hub_app.catalog.generation
        await read_and_answer(hub.hub_app.inbox, question.id, "once", ADA)
        await until(lambda: hub.hub_app.catalog.generation != changes)
        assert await listed(hub) == ["s__run", "s__add"]
        await until(lambda: len(script.params(RESPONSE)) > 1)
        assert script.params(RESPONSE)[-1]["grants"]["shell.execute"] == "approved"


async def test_a_listener_hears_that_its_list_changed_when_the_answer_comes(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        heard: list[str] = []

        class RecordingListener:
            list_scope = hub.hub_app.authenticator.admit_principal(Principal("a", "agent"), "/mcp").list_scope

            def list_changed(self, which: str) -> None:
                heard.append(which)

        hub.hub_app.change_notifier.listen(RecordingListener())
        question = await open_question(hub, "shell.execute")
        await read_and_answer(hub.hub_app.inbox, question.id, "once", ADA)
        await until(lambda: heard == ["tools"])


async def test_tools_need_what_they_name_and_without_a_name_all_that_the_server_declares(tmp_path: Path) -> None:
    tools = [
        needing("named", "memory.read"),
        needing("free"),
        tool("silent"),
        tool("bare", security={"risk_level": "safe"}),
    ]
    script = shelly(tmp_path, "system.info", tools=tools)
    async with script.running_hub(permissions=policy("deny_all", approve=("memory",))) as hub:
        assert await listed(hub) == ["s__named", "s__free"]
    async with script.running_hub(permissions=policy("deny_all", approve=("system.info",))) as hub:
        assert await listed(hub) == ["s__free", "s__silent", "s__bare"]


async def test_a_sandboxed_server_cannot_say_that_a_tool_needs_less_than_it(tmp_path: Path) -> None:
    script = shelly(tmp_path, "system.info", tools=[needing("free")])
    async with script.running_hub(permissions=policy("deny_all"), trust="sandboxed") as hub:
        assert await listed(hub) == []


@pytest.mark.parametrize(
    ("settings", "grants"),
    [
        (policy("auto_approve"), {"shell.execute": "approved", "camera": "approved"}),
        (policy("deny_all"), {"shell.execute": "denied", "camera": "denied"}),
        (policy("config_only", approve=("camera",)), {"shell.execute": "denied", "camera": "approved"}),
        (policy("auto_approve", deny=("shell",)), {"shell.execute": "denied", "camera": "approved"}),
        (policy("deny_all", approve=("camera",), deny=("camera",)), {"shell.execute": "denied", "camera": "denied"}),
        (policy("interactive", approve=("shell", "camera")), {"shell.execute": "approved", "camera": "approved"}),
    ],
)
async def test_policies_decide_without_asking_anyone(
    tmp_path: Path, settings: PermissionSettings, grants: dict[str, str]
) -> None:
    script = shelly(tmp_path, "shell", "camera")
    async with script.running_hub(permissions=settings) as hub:
        assert REQUEST not in script.methods(), "nobody is waited for"
        assert script.params(RESPONSE)[0]["grants"] == grants
        assert {"shell.execute", "camera"}.isdisjoint(asked_about(hub))
        assert ("s__run" in await listed(hub)) is (grants["shell.execute"] == "approved")


async def test_a_denied_server_degrades_to_the_tools_that_do_without(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", "filesystem.read")
    async with script.running_hub(permissions=policy("deny_all", approve=("filesystem.read",))) as hub:
        assert await listed(hub) == ["s__look", "s__add"]
        assert text_of(await call(hub, "look")) == "look ran {}"
        refused = await call(hub, "run")
        assert refused["error"]["data"]["name"] == "PERMISSION_DENIED"
        assert refused["error"]["data"]["rule"] == "shell.execute: policy deny_all"
        assert "run" not in [message["name"] for message in script.params("tools/call")]


async def test_a_denied_server_is_refused_where_it_must_have_everything_and_comes_with_the_approval(
    tmp_path: Path,
) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(wait=False, permissions=policy("deny_all", on_denied="refuse")) as hub:
        await hub.state("s", ServerState.ERROR)
        upstream = hub.hub_app.upstreams["s"]
        assert upstream.refused
        assert "notifications/initialized" not in script.methods()
        assert upstream.problem is not None
        assert "interlock permissions approve s shell.execute" in upstream.problem.hint
        await control(hub, "permissions.approve", server="s", permissions=["shell.execute"], terminal=True)
        await hub.state("s", ServerState.CONNECTED)
        assert text_of(await call(hub, "add")) == "add ran {}"
        await control(hub, "permissions.revoke", server="s", permissions=["shell.execute"])
        await until(lambda: upstream.refused)


async def test_what_the_operator_requires_or_no_longer_requires_holds_with_the_new_configuration(
    tmp_path: Path,
) -> None:
    script = MgpScript(tmp_path, tools=[tool("plain")])
    requires, free = policy("deny_all", require=("network.outbound",)), policy("deny_all")
    async with script.running_hub(permissions=free) as hub:
        assert await listed(hub) == ["s__plain"]
        for settings, tools in ((requires, []), (free, ["s__plain"]), (requires, [])):
            config = hub.hub_app.config
            changed = msgspec.structs.replace(config.servers["s"], permissions=settings)
            await hub.hub_app.apply(msgspec.structs.replace(config, servers={"s": changed}))
            assert await listed(hub) == tools
            assert ("error" in await call(hub, "plain")) is (not tools)
        assert script.methods().count("initialize") == 1, "all of it without a restart"


async def test_t31_a_server_that_must_have_everything_is_ended_with_its_open_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drains: list[object] = []

    async def drain(self: Draining, *limits: object) -> None:
        drains.append(limits)

    monkeypatch.setattr(Draining, "drain", drain)
    script = shelly(tmp_path, "shell.execute", silent=["tools/call"])
    waits = TimeoutSettings(start_s=60, discovery_s=60, tool_s=60)
    async with script.running_hub(permissions=policy("auto_approve", on_denied="refuse"), waits=waits) as hub:
        calling = asyncio.ensure_future(call(hub, "add"))
        await until(lambda: "tools/call" in script.methods())
        await control(hub, "permissions.revoke", server="s", permissions=["shell.execute"])
        assert error_of(await calling)["name"] == "OUTCOME_UNKNOWN"
        await until(lambda: hub.hub_app.upstreams["s"].refused)
        assert drains == [], "the call was cut off, and had no time to finish"


async def test_an_undotted_name_that_is_no_family_is_refused_with_4000(tmp_path: Path) -> None:
    tools = [needing("odd", "everything"), needing("add")]
    script = shelly(tmp_path, "root", "memory.read", tools=tools)
    async with script.running_hub(permissions=policy("auto_approve")) as hub:
        assert script.params(RESPONSE)[0]["grants"] == {"root": "denied", "memory.read": "approved"}
        assert await listed(hub) == ["s__add"]
        client = RawClient(hub.url + "/mcp")
        await client.initialize({"mgp": {"version": "0.2.0", "extensions": ["tool_discovery"]}})
        refused = error_of(await client.legacy("tools/call", {"name": "s__odd", "arguments": {}}))
        assert refused["name"] == "INVALID_TOOL_ARGS"
        with pytest.raises(Fault, match="no such permission") as told:
            await control(hub, "permissions.approve", server="s", permissions=["everything"], terminal=True)
        assert told.value.kind.mgp == 4000


async def test_custom_permissions_are_decided_like_any_other(tmp_path: Path) -> None:
    script = shelly(tmp_path, "com.example.fly", tools=[needing("fly", "com.example.fly")])
    async with script.running_hub() as hub:
        question = await open_question(hub, "com.example.fly")
        assert question.request.risk == "dangerous", "nobody vouches for it"
        await read_and_answer(hub.hub_app.inbox, question.id, "always", ADA)
        await standing(hub, "com.example.fly", "approved")
        assert await listed(hub) == ["s__fly"]


async def test_every_standard_type_is_asked_about_with_its_risk(tmp_path: Path) -> None:
    script = shelly(tmp_path, *STANDARD)
    async with script.running_hub() as hub:
        risks = {one.request.name: one.request.risk for one in hub.hub_app.inbox.all(only_open=True)}
        assert risks == {name: risk.word for name, risk in STANDARD.items()}


async def test_nothing_that_a_server_answers_is_believed(tmp_path: Path) -> None:
    """T32: an approval needs a person; the server may say what it likes."""
    claim = {"grants": {"shell.execute": "approved"}, "approved_by": "admin", "expires_at": None}
    script = shelly(tmp_path, "shell.execute", answers={}, claims=claim)
    async with script.running_hub() as hub:
        assert hub.hub_app.permissions.status("s", "shell.execute").grant == "deferred"
        assert "s__run" not in await listed(hub)
        question = await open_question(hub, "shell.execute")
        for by in (Principal("s", "agent"), Principal("s", "service")):
            with pytest.raises(Fault):
                await read_and_answer(hub.hub_app.inbox, question.id, "once", by)
            with pytest.raises(Fault, match="only a person can grant"):
                await hub.hub_app.permissions.put("s", "shell.execute", "approved", by)


async def test_an_approval_needs_a_terminal_and_a_denial_does_not(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        with pytest.raises(Fault, match="terminal"):
            await control(hub, "permissions.approve", server="s", permissions=["shell.execute"])
        assert (await control(hub, "permissions.deny", server="s", permissions=["shell"]))["permissions"][0][
            "grant"
        ] == "denied"


@pytest.mark.parametrize("settings", [policy(), policy("auto_approve"), policy("interactive", approve=("shell",))])
async def test_t31_what_is_revoked_is_gone_at_the_next_call(tmp_path: Path, settings: PermissionSettings) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(permissions=settings, mode="guard") as hub:
        if settings.policy == "interactive" and not settings.approve:
            await control(hub, "permissions.approve", server="s", permissions=["shell"], terminal=True)
        assert "s__run" in await listed(hub)
        done = await control(hub, "permissions.revoke", server="s", permissions=["shell"], because="enough")
        assert done["permissions"][0]["grant"] == "denied"
        refused = await call(hub, "run")
        assert refused["error"]["data"]["name"] == "PERMISSION_DENIED"
        assert "revoked by person:" in refused["error"]["data"]["rule"]
        assert "s__run" not in await listed(hub)
        await until(lambda: script.params(RESPONSE)[-1]["grants"]["shell.execute"] == "denied")
        assert "shell.execute" not in asked_about(hub), "who has just said no is not asked"


async def test_an_approval_ends_when_it_expires(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(permissions=policy("deny_all")) as hub:
        permissions = hub.hub_app.permissions
        soon = datetime.now(UTC) + timedelta(seconds=1.0)
        await permissions.put("s", "shell.execute", "approved", ADA, expires_at=soon)
        assert "s__run" in await listed(hub)
        await until(lambda: permissions.status("s", "shell.execute").grant == "denied")
        assert (await call(hub, "run"))["error"]["data"]["name"] == "PERMISSION_DENIED"
        await until(lambda: "run" not in hub.hub_app.catalog.offers()["s"].tools)


async def test_the_end_of_an_approval_is_told_with_it_and_cannot_be_over_already(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        end = datetime.now(UTC) + timedelta(hours=8)
        approve = {"server": "s", "permissions": ["shell"], "terminal": True}
        done = await control(hub, "permissions.approve", **approve, expires_at=end)
        assert datetime.fromisoformat(done["permissions"][0]["expires_at"]) == end
        await until(lambda: len(script.params(RESPONSE)) == 2)
        assert datetime.fromisoformat(script.params(RESPONSE)[-1]["expires_at"]) == end
        with pytest.raises(Fault, match="in the past"):
            await control(hub, "permissions.approve", **approve, expires_at=end - timedelta(days=1))


async def test_decisions_and_open_questions_outlive_the_hub(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", "camera", "filesystem.read")
    async with script.running_hub() as hub:
        await read_and_answer(hub.hub_app.inbox, (await open_question(hub, "shell.execute")).id, "once", ADA)
        await hub.hub_app.inbox.answer((await open_question(hub, "camera")).id, "no", ADA, "terminal")
        await standing(hub, "shell.execute", "approved")
        await standing(hub, "camera", "denied")
        waiting = (await open_question(hub, "filesystem.read")).id
    async with script.running_hub() as hub:
        grants = script.params(RESPONSE)[-1]["grants"]
        assert grants == {"shell.execute": "approved", "camera": "denied", "filesystem.read": "deferred"}
        assert (await open_question(hub, "filesystem.read")).id == waiting
        listing = (await control(hub, "permissions.list"))["permissions"]
        assert {row["permission"]: row["by"] for row in listing} == {
            "shell.execute": "person:ada",
            "camera": "person:ada",
            "filesystem.read": None,
        }


async def test_an_answer_that_came_while_the_hub_was_ending_is_taken_at_the_next_start(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        question = await open_question(hub, "shell.execute")
        await hub.hub_app.permissions.close()
        await read_and_answer(hub.hub_app.inbox, question.id, "once", ADA)
        await hub.hub_app.permissions.close()  # waits for work that is under way
        assert hub.hub_app.permissions.status("s", "shell.execute").grant == "deferred"
    async with script.running_hub() as hub:
        await standing(hub, "shell.execute", "approved")
        assert "s__run" in await listed(hub)


async def test_an_approval_is_for_the_server_as_it_was_and_a_denial_for_its_name(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", "camera")
    async with script.running_hub(permissions=policy("deny_all")) as hub:
        await hub.hub_app.permissions.put("s", "shell.execute", "approved", ADA)
        assert "s__run" in await listed(hub)
    async with script.running_hub(permissions=policy("deny_all"), cwd=str(tmp_path)) as hub:
        assert "s__run" not in await listed(hub), "another command under the same name"
        await hub.hub_app.permissions.put("s", "camera", "denied", ADA)
    async with script.running_hub(permissions=policy("auto_approve")) as hub:
        assert hub.hub_app.permissions.status("s", "camera").grant == "denied"


async def test_config_only_takes_nobodys_word_but_the_configurations(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(permissions=policy("config_only")) as hub:
        approve = {"server": "s", "permissions": ["shell"], "terminal": True}
        done = await control(hub, "permissions.approve", **approve)
        assert (done["permissions"][0]["grant"], done["permissions"][0]["rule"]) == ("denied", "policy config_only")
        assert "s__run" not in await listed(hub)


async def test_a_changed_policy_holds_without_a_restart_of_the_server(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        await open_question(hub, "shell.execute")
        config = hub.hub_app.config
        changed = msgspec.structs.replace(config.servers["s"], permissions=policy("auto_approve"))
        await hub.hub_app.apply(msgspec.structs.replace(config, servers={"s": changed}))
        assert "s__run" in await listed(hub)
        assert hub.hub_app.inbox.all(only_open=True) == [], "there is nothing left to ask"
        assert script.methods().count("initialize") == 1


async def test_a_configuration_that_changes_nothing_tells_a_server_nothing(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", tools=[tool("a")])
    async with script.running_hub() as hub:
        for _ in range(3):
            await hub.hub_app.apply(hub.hub_app.config)
        await hub.hub_app.permissions.put("s", "shell.execute", "approved", ADA)
        await until(lambda: script.params(RESPONSE)[-1]["grants"]["shell.execute"] == "approved")
        assert len(script.params(RESPONSE)) == 2


async def test_observe_withholds_nothing(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(mode="observe", permissions=policy("deny_all")) as hub:
        assert "s__run" in await listed(hub)


async def test_later_drafts_names_are_tried_where_a_server_does_not_know_the_first(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", knows=["mgp/permission/await", "mgp/permission/grant"])
    async with script.running_hub() as hub:
        assert script.params("mgp/permission/grant")[0]["grants"] == {"shell.execute": "deferred"}
        assert script.params("mgp/permission/await")[0]["permissions"] == ["shell.execute"]
        assert hub.hub_app.upstreams["s"].state is ServerState.CONNECTED


async def test_a_server_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", silent=[REQUEST])
    async with script.running_hub() as hub:
        assert RESPONSE in script.methods()
        assert hub.hub_app.upstreams["s"].state is ServerState.CONNECTED


async def test_a_server_that_did_not_agree_on_security_is_told_nothing_and_bound_all_the_same(tmp_path: Path) -> None:
    script = MgpScript(tmp_path, tools=TOOLS)
    async with script.running_hub(permissions=policy("deny_all")) as hub:
        assert not [method for method in script.methods() if "mgp" in method]
        assert await listed(hub) == ["s__add"]


async def test_what_the_operator_requires_is_needed_though_the_server_does_not_say_so(tmp_path: Path) -> None:
    script = MgpScript(tmp_path, tools=[tool("plain")])
    async with script.running_hub(permissions=policy("deny_all", require=("network.outbound",))) as hub:
        assert await listed(hub) == []
        await control(hub, "permissions.approve", server="s", permissions=["network"], terminal=True)
        assert await listed(hub) == ["s__plain"]


async def test_more_permissions_than_anyone_can_judge_refuse_the_server(tmp_path: Path) -> None:
    script = shelly(tmp_path, *(f"com.example.p{number}" for number in range(100)))
    async with script.running_hub(wait=False) as hub:
        await hub.state("s", ServerState.ERROR)
        assert hub.hub_app.inbox.all(only_open=True) == []


async def test_what_was_decided_stands_in_the_record(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", "camera")
    async with script.running_hub(permissions=policy("interactive", deny=("camera",))) as hub:
        await control(hub, "permissions.approve", server="s", permissions=["shell"], terminal=True)
        await control(hub, "permissions.revoke", server="s", permissions=["shell"])
        entries = (await control(hub, "audit.search", server="s", most=100))["entries"]
        records = [entry["record"] for entry in entries if "PERMISSION" in entry["record"]["event"]]
        found = [(record["event"], record["details"]["permission"]) for record in records]
        assert ("PERMISSION_DENIED", "camera") in found
        assert [event for event, name in found if name == "shell.execute"] == [
            "PERMISSION_GRANTED",
            "PERMISSION_REVOKED",
        ]


async def test_an_agent_without_access_learns_nothing_of_a_tool_that_lacks_a_permission(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(access="opt-in") as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("stranger"))
        hidden = await client.modern("tools/call", {"name": "s__run", "arguments": {}})
        absent = await client.modern("tools/call", {"name": "s__none", "arguments": {}})
        assert hidden["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert hidden["error"]["data"].keys() == absent["error"]["data"].keys()


async def test_the_risk_of_a_tool_counts_the_permissions_its_server_needs(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute", tools=[tool("silent"), needing("free")])
    async with script.running_hub(mode="locked", permissions=policy("auto_approve")) as hub:
        assert error_of(await call(hub, "silent"))["name"] == "APPROVAL_PENDING"
        assert error_of(await call(hub, "silent"))["gate"] == "risk"
        assert text_of(await call(hub, "free")) == "free ran {}"


async def test_many_answers_at_the_same_time_leave_one_entry_each(tmp_path: Path) -> None:
    names = [f"com.example.p{number}" for number in range(20)]
    script = shelly(tmp_path, *names, tools=[tool("a")])
    async with script.running_hub() as hub:
        questions = hub.hub_app.inbox.all(only_open=True)
        assert len(questions) == 20
        await asyncio.gather(*(read_and_answer(hub.hub_app.inbox, one.id, "once", ADA) for one in questions))
        await until(lambda: all(each.grant == "approved" for each in hub.hub_app.permissions.statuses("s")[:20]))


async def test_a_server_that_names_ever_new_permissions_does_not_fill_the_inbox(tmp_path: Path) -> None:
    script = shelly(tmp_path, *(f"com.example.a{number}" for number in range(40)), tools=[tool("a")])
    async with script.running_hub() as hub:
        script.say(mgp={**OFFER, "permissions_required": [f"com.example.b{number}" for number in range(40)]})
        await hub.operate("servers.restart", server="s")
        await until(lambda: "com.example.b39" in asked_about(hub))
        assert asked_about(hub) == {f"com.example.b{number}" for number in range(40)}


async def test_a_person_has_their_few_seconds_once_and_later_connections_do_not_wait_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(hold_s=2) as hub:
        await open_question(hub, "shell.execute")
        client = RawClient(hub.url + "/mcp")
        await client.initialize({"roots": {}})
        waits: list[str] = []
        settled = hub.hub_app.inbox.settled

        async def counted(id: str, seconds: float) -> Any:
            waits.append(id)
            return await settled(id, seconds)

        monkeypatch.setattr(hub.hub_app.inbox, "settled", counted)
        await client.legacy("tools/call", {"name": "s__add", "arguments": {}})
        assert script.methods().count("initialize") == 2, "the client has a connection of its own"
        assert waits == []


async def test_a_server_that_is_gone_from_the_configuration_asks_nothing_any_more(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        await open_question(hub, "shell.execute")
        await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, servers={}))
        assert asked_about(hub) == set()


async def test_every_connection_of_a_server_is_told_what_changed(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize({"roots": {}})
        await client.legacy("tools/call", {"name": "s__add", "arguments": {}})
        before = len(script.params(RESPONSE))
        await hub.hub_app.permissions.put("s", "shell.execute", "approved", ADA)
        await until(lambda: len(script.params(RESPONSE)) == before + 2)


async def admin(hub: RunningHub, key: str, verb: str, path: str = "", **body: Any) -> tuple[int, Any]:
    """The answer of the admin API."""
    said = json.dumps(body).encode() if body else b""
    status, _, answer = await RawClient(f"{hub.url}/admin/permissions{path}", key).send(
        verb, said, {"accept": "application/json"}
    )
    return status, json.loads(answer)


async def test_the_admin_api_grants_and_revokes_for_people_and_for_nobody_else(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub() as hub:
        ada = await hub.new_key("ada", "person")
        machine = await hub.new_key("root", "admin")
        agent = await hub.new_key("bot")
        wanted = {"permissions": ["shell"], "because": "needed"}
        for key in (agent, machine):
            assert (await admin(hub, key, "POST", "/s/approve", **wanted))[0] == 403
        assert (await admin(hub, agent, "GET"))[0] == 403
        assert "s__run" not in await listed(hub)
        status, done = await admin(hub, ada, "POST", "/s/approve", **wanted)
        assert (status, done["permissions"][0]["by"]) == (200, "ada")
        assert "s__run" in await listed(hub)
        assert (await admin(hub, agent, "POST", "/s/revoke", **wanted))[0] == 403
        status, done = await admin(hub, machine, "POST", "/s/revoke", **wanted)
        assert (status, done["permissions"][0]["rule"]) == (200, "revoked by root")
        assert "s__run" not in await listed(hub)
        status, found = await admin(hub, machine, "GET")
        assert {row["permission"]: row["grant"] for row in found["permissions"]}["shell.execute"] == "denied"


async def test_why_names_the_gate_and_the_rule_without_calling(tmp_path: Path) -> None:
    script = shelly(tmp_path, "shell.execute")
    async with script.running_hub(permissions=policy("deny_all")) as hub:
        found = (await control(hub, "why", agent="local", tool="s__run"))["judgement"]
        assert (found["outcome"], found["gate"], found["error"]) == ("refused", "permissions", "PERMISSION_DENIED")
        assert found["rule"] == "shell.execute: policy deny_all"
        assert "interlock permissions approve s shell.execute" in found["hint"]
        assert "tools/call" not in script.methods()
        assert (await control(hub, "why", agent="local", tool="s__add"))["judgement"]["outcome"] == "allowed"


async def test_a_new_session_in_place_of_a_lost_one_is_told_before_it_may_begin(tmp_path: Path) -> None:
    idempotent = {**needing("look", "filesystem.read"), "annotations": {"readOnlyHint": True}}
    script = shelly(tmp_path, "filesystem.read", tools=[idempotent], session="one")
    async with script.running_hub("http", permissions=policy("auto_approve"), era="legacy") as hub:
        assert text_of(await call(hub, "look")) == "look ran {}"
        script.say(session="two")
        assert text_of(await call(hub, "look")) == "look ran {}"
        methods = script.methods()
        again = len(methods) - 1 - methods[::-1].index("initialize")
        assert methods[again + 1 : again + 3] == [RESPONSE, "notifications/initialized"]
