"""The audit log has more than calls: grants, keys, decisions, rules, servers, reloads; with who did it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    ServerSettings,
    TimeoutSettings,
    ValidationSettings,
)
from interlock.hub.audit import search as records
from interlock.hub.audit.mgp_format import to_mgp
from interlock.hub.audit.record import EVENTS
from interlock.hub.audit.search import FoundEntry
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerState
from interlock.store import NotRecorded, StoreFull
from interlock.store.records import Search
from interlock.wire.errors import Fault

from .people import read_and_answer
from .running_hub import MODERN, RawClient, RunningHub, child, last_message, own_python, running_hub, until

ADA = Principal("person:ada", "person")
TRACE = "0af7651916cd43dd8448eb211c80319c"
META = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


async def entries(hub: RunningHub, **wanted: Any) -> list[FoundEntry]:
    await hub.hub_app.recorder.flushed()
    return (await hub.hub_app.store.read(lambda database: records.search(database, Search(**wanted), 1000)))[::-1]


async def entries_soon(hub: RunningHub, count: int, **wanted: Any) -> list[FoundEntry]:
    """The same, once there are so many."""

    async def found() -> list[FoundEntry] | None:
        rows = await entries(hub, **wanted)
        return rows if len(rows) >= count else None

    return await until(found) or []


async def only(hub: RunningHub, event: str) -> FoundEntry:
    found = await entries(hub, event=event)
    assert len(found) == 1, [entry.record for entry in found]
    return found[0]


async def test_a_grant_and_its_end_are_recorded_with_who_for_whom_and_the_trace(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("root", "admin"))
        about = {"entry_type": "tool_grant", "agent_id": "ci", "server_id": "busy", "tool_name": "echo", "_meta": META}
        given = {**about, "permission": "allow", "justification": "the nightly run"}
        await client.modern("mgp/access/grant", given)
        await client.modern("mgp/access/revoke", about)
        granted, revoked = await only(hub, "ACCESS_GRANTED"), await only(hub, "ACCESS_REVOKED")
        for entry in (granted, revoked):
            record = entry.record
            assert (record.actor, record.actor_kind) == ("root", "admin")
            assert (record.server, record.name, record.trace) == ("busy", "echo", TRACE)
            assert record.details["agent_id"] == "ci"
        assert granted.record.reason == "the nightly run"
        told = to_mgp(granted.record)
        assert told["target"] == {"server_id": "busy", "tool_name": "echo"}
        assert told["actor"] == {"type": "admin", "id": "root"}


async def test_a_denial_is_no_grant_in_the_record(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        await hub.deny("ci", "busy")
        assert not await entries(hub, event="ACCESS_GRANTED")
        denied = await only(hub, "dev.interlock.access_denied")
        assert (denied.record.server, denied.record.name) == ("busy", "")


async def test_keys_are_recorded_by_what_may_be_shown_of_them_and_never_whole(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        first = str((await hub.operate("keys.create", ADA, agent="ci"))["key"])
        second = str((await hub.operate("keys.rotate", ADA, agent="ci"))["key"])
        await hub.operate("keys.revoke", ADA, agent="ci")
        made, rotated, revoked = [
            await only(hub, f"dev.interlock.key_{what}") for what in ("created", "rotated", "revoked")
        ]
        assert {entry.record.actor for entry in (made, rotated, revoked)} == {"person:ada"}
        assert made.record.details["shown"] == [first[:12]]
        assert rotated.record.details["replaced"] == [first[:12]]
        assert revoked.record.details["shown"] == [second[:12]]
        whole = b"".join([line async for line in exported(hub)])
        assert first.encode() not in whole
        assert second.encode() not in whole


async def test_t23_a_key_of_the_hubs_own_is_in_no_record_and_no_question(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0))
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as hub:
        key = await hub.new_key("careful")
        client = RawClient(hub.url + "/mcp", key)
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": f"my key is {key}"}})
        await hub.allow("careful", "busy", justification=f"it asked with {key}")
        assert key not in hub.hub_app.inbox.all(only_open=True)[0].request.summary
        assert key.encode() not in b"".join([line async for line in exported(hub)])


async def exported(hub: RunningHub) -> Any:
    for line in await hub.hub_app.store.read(lambda database: list(records.export(database))):
        yield line


async def test_a_decision_is_recorded_from_its_question_to_its_use_under_the_trace_of_its_call(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0))
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        call = {"name": "busy__echo", "arguments": {"text": "a"}, "_meta": META}
        await client.modern("tools/call", dict(call))
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        await read_and_answer(hub.hub_app.inbox, decision.id, "always", ADA)
        await client.modern("tools/call", dict(call))
        await hub.hub_app.inbox.revoke_rule(hub.hub_app.inbox.rules()[0].id, ADA)
        opened = (await only(hub, "dev.interlock.decision_opened")).record
        approved = (await only(hub, "dev.interlock.decision_approved")).record
        assert (opened.actor, opened.actor_kind, opened.trace) == ("careful", "agent", TRACE)
        assert (approved.actor, approved.actor_kind, approved.trace) == ("person:ada", "person", TRACE)
        assert (approved.server, approved.name, approved.rule) == ("busy", "echo", "ask: busy__ec*")
        assert approved.details["answer"] == "always"
        made, revoked = [(await only(hub, f"dev.interlock.rule_{what}")).record for what in ("made", "revoked")]
        assert (made.actor, revoked.actor) == ("person:ada", "person:ada")
        assert made.details["rule"] == revoked.details["rule"]
        assert (await only(hub, "dev.interlock.decision_void")).record.actor == "", "by the hub itself"


@pytest.mark.parametrize("event", ["PERMISSION_GRANTED", "PERMISSION_DENIED", "PERMISSION_REVOKED"])
async def test_what_a_server_may_is_recorded_with_who_decided_and_by_which_rule(tmp_path: Path, event: Any) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        hub.hub_app.journal.settled(event, ADA, "busy", "network.outbound", "interactive")
        record = (await only(hub, event)).record
        assert (record.actor, record.server, record.rule) == ("person:ada", "busy", "interactive")
        assert record.details["permission"] == "network.outbound"
        assert str(record.details["request_id"]).startswith("perm-"), "one id for a permission's whole life"


NAMED = "0AF76519-16cd-43dd-8448-eb211c80319c"
OTHER = "11111111111111111111111111111111"
SAID: dict[str, dict[str, Any]] = {
    "in _meta": {"meta": NAMED},
    "in the params": {"params": NAMED},
    "beside the method": {"top": NAMED},
    "in _meta before the rest": {"meta": NAMED, "params": OTHER, "top": OTHER},
    "in the params before what is beside the method": {"params": NAMED, "top": OTHER},
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_a_trace_named_as_mgp_does_is_the_calls_own_and_goes_on(
    tmp_path: Path, said: dict[str, str], era: str
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("ci"))
        call: dict[str, Any] = {"name": "busy__echo", "arguments": {"text": "trace_id"}}
        meta: dict[str, Any] = {"trace_id": said["meta"]} if "meta" in said else {}
        params = {**call, **({"trace_id": said["params"]} if "params" in said else {})}
        top = {"trace_id": said["top"]} if "top" in said else {}
        if era == "legacy":
            await client.initialize()
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}, **top}
            await client.post(msgspec.json.encode(body))
        else:
            meta |= {"io.modelcontextprotocol/protocolVersion": MODERN}
            meta |= {"io.modelcontextprotocol/clientCapabilities": {}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}, **top}
            headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "busy__echo"}
            await client.post(msgspec.json.encode(body), headers)
        assert (await only(hub, "TOOL_EXECUTED")).record.trace == TRACE


@pytest.mark.parametrize("odd", [5, None, "", ["x"], "x" * 600])
async def test_what_is_no_trace_is_passed_over(tmp_path: Path, odd: Any) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("ci"))
        await client.initialize()
        call = {"name": "busy__echo", "arguments": {"text": "a"}}
        body = {"jsonrpc": "2.0", "trace_id": odd, "id": 1, "method": "tools/call", "params": call}
        assert "result" in last_message((await client.post(msgspec.json.encode(body)))[2])
        assert len((await only(hub, "TOOL_EXECUTED")).record.trace) == 32


async def test_a_trace_in_the_arguments_is_the_tools_affair(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("ci"))
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"trace_id": NAMED}})
        assert (await only(hub, "VALIDATION_FAILED")).record.trace not in ("", TRACE)


async def test_a_call_is_one_trace_from_its_question_to_its_end_though_nobody_named_one(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=30))
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        call = {"name": "busy__echo", "arguments": {"text": "a"}}
        held = asyncio.ensure_future(client.modern("tools/call", call))
        await until(lambda: bool(hub.hub_app.inbox.all(only_open=True)))
        await read_and_answer(hub.hub_app.inbox, hub.hub_app.inbox.all(only_open=True)[0].id, "once", ADA)
        await held
        told = ["dev.interlock.decision_opened", "dev.interlock.decision_used", "TOOL_EXECUTED"]
        assert len({(await only(hub, event)).record.trace for event in told}) == 1


async def test_servers_come_and_go_in_the_record(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        assert (await only(hub, "SERVER_CONNECTED")).record.server == "busy"
        broken = ServerSettings(command=("/nonexistent/program",))
        silent = ServerSettings(command=own_python("-c", "input(); exit(3)"))
        servers = {"lost": broken, "silent": silent}
        await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, servers=servers))
        await hub.state("lost", ServerState.ERROR)
        await hub.state("silent", ServerState.ERROR)
        gone = await entries(hub, event="SERVER_DISCONNECTED")
        told = {entry.record.server: entry.record for entry in gone}
        assert told.keys() == {"busy", "lost", "silent"}
        assert told["silent"].reason == "UPSTREAM_UNAVAILABLE: the server exited with code 3", "no call was made"
        assert told["busy"].details == {"from": "connected", "to": "draining", "reason": "configuration_change"}
        assert told["lost"].reason


async def test_a_reload_is_recorded_with_what_it_changed_and_who_asked(tmp_path: Path) -> None:
    from interlock.config.load import load

    file = tmp_path / "interlock.toml"
    file.write_text("[hub]\nmode = 'guard'\n")
    async with running_hub(tmp_path, {}) as hub:
        hub.hub_app.config = load(file, home=hub.hub_app.home).config
        file.write_text("[hub]\nmode = 'nonsense'\n")
        await hub.operate("reload", ADA)
        found = await only(hub, "dev.interlock.configuration_reloaded")
        assert found.record.details["applied"] is False
        assert found.record.details["problems"]
        assert found.record.actor == ADA.id


async def test_a_reload_that_fails_unexpectedly_is_reported_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock.config.load import load
    from interlock.hub.app import HubApp

    file = tmp_path / "interlock.toml"
    file.write_text("[hub]\nmode = 'guard'\n")
    async with running_hub(tmp_path, {}) as hub:
        hub.hub_app.config = load(file, home=hub.hub_app.home).config

        async def fails(*_: object) -> list[str]:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(HubApp, "apply", fails)
            await hub.operate("reload", ADA)
        found = await only(hub, "dev.interlock.configuration_reloaded")
        assert found.record.details["applied"] is False
        assert "ZeroDivisionError" in str(found.record.details["problems"])
        file.write_text("[hub]\nmode = 'observe'\n")
        await hub.operate("reload", ADA)
        assert hub.hub_app.config.hub.mode == "observe"


async def test_validators_and_code_have_events_of_their_own(tmp_path: Path) -> None:
    rules = {"echo": ValidationSettings(use=("code_safety",), arguments={"code": ("text",)}, level="strict")}
    busy = child("busy_server.py", validators=rules)
    async with running_hub(tmp_path, {"busy": busy}) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("ci"))
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "import os\nos.system('id')"}})
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": 5}})
        await hub.deny("ci", "busy")
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "a"}})
        assert (await only(hub, "CODE_REJECTED")).result == "BLOCKED"
        assert (await only(hub, "VALIDATION_FAILED")).record.gate == "schema"
        assert (await only(hub, "TOOL_BLOCKED")).record.gate == "access"


async def test_nothing_is_changed_while_it_could_not_be_recorded(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        await hub.hub_app.recorder.flushed()
        hub.hub_app.recorder.write_error = StoreFull("the disk is full")
        try:
            with pytest.raises(NotRecorded, match="cannot write the audit log"):
                await hub.allow("ci", "busy")
            with pytest.raises(Fault, match="cannot write the audit log"):
                await hub.operate("keys.create", ADA, agent="ci")
        finally:
            hub.hub_app.recorder.write_error = None
        assert hub.hub_app.grants.list() == []
        assert hub.hub_app.keys.list() == []


def test_every_standard_event_is_made_somewhere() -> None:
    source = Path(__file__).parents[2] / "src" / "interlock" / "hub"
    said = "".join(path.read_text() for path in source.rglob("*.py") if path.name != "record.py")
    said += (source / "audit" / "record.py").read_text().partition("INTENDED: Final")[2]
    assert {event for event in EVENTS if f'"{event}"' not in said} == set()
