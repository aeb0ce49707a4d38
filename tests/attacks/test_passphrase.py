"""A program of the same user has a terminal as easily as a person has. It does not have the passphrase."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.legacy_client import LegacyClient, answers
from hub.raw_server import RawHttpServer
from hub.running_hub import PASSPHRASE_COST, RawClient, RunningHub, running_hub, until
from hub.test_bridges_questions import ALL
from hub.test_journal import entries
from hub.test_operations import sample, terminal
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.admin.operation import READ
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.approvals import passphrase
from interlock.hub.approvals.passphrase import MAX_WRONG, MAX_WRONG_OF_ALL, WINDOW_S
from interlock.hub.audit.record import OPERATED
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault
from web.console_visitor import Visitor

SETTINGS = HubSettings(
    timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60), approvals=ApprovalSettings(hold_s=0)
)
AGENTS = {"ci": AgentSettings(ask=("**",)), "attended": AgentSettings(ask=("**",), attended_by="ada")}
RIGHT, WRONG = "correct horse", "battery staple"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RawHttpServer(modern=True) as web:
        servers = {"web": ServerSettings(url=web.url)}
        async with running_hub(tmp_path, servers, hub=SETTINGS, agents=AGENTS) as running:
            await running.operate("passphrase.set", new=RIGHT, terminal=True)
            yield running


async def asked(hub: RunningHub) -> dict[str, Any]:
    """An approval request with the hash of its view."""
    call = {"name": "web__ok", "arguments": {}}
    await RawClient(hub.url + "/mcp", await hub.new_key("ci")).modern("tools/call", call)
    [row] = (await hub.operate("approvals.list"))["decisions"]
    view = (await hub.operate("approvals.show", id=row["id"]))["view_hash"]
    return {"id": row["id"], "answer": "once", "view": view}


async def refused(hub: RunningHub, operation: str, **params: object) -> str:
    with pytest.raises(Fault) as fault:
        await hub.operate(operation, **params)
    return fault.value.name


async def test_t42_nothing_is_approved_without_the_passphrase_wherever_it_comes_from(
    hub: RunningHub, tmp_path: Path
) -> None:
    answer = await asked(hub)
    assert await refused(hub, "approvals.answer", **answer, terminal=True) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "approvals.answer", **answer, console=True) == "ACCESS_DENIED", "it is not the console"
    assert await refused(hub, "approvals.answer", **answer, terminal=True, passphrase=WRONG) == "ACCESS_DENIED"
    assert await refused(hub, "console.code", terminal=True) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "rules.make", decision=answer["id"], terminal=True) == "PASSPHRASE_REQUIRED"
    needed = {"server": "web", "permissions": ["filesystem.read"], "terminal": True}
    assert await refused(hub, "permissions.approve", **needed) == "PASSPHRASE_REQUIRED"
    enabling = {"server": "web", "features": ["memory"], "agent": "ci", "terminal": True}
    assert await refused(hub, "features.enable", **enabling) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "features.forget", **enabling) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "taints.clear", agent="ci", terminal=True) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "passphrase.set", new="another one", terminal=True) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "passphrase.remove", terminal=True) == "PASSPHRASE_REQUIRED"

    # A key of a person that a program made for itself, and a client that answers for its person.
    key = await hub.new_key("eve", "person", permissions=("admin_read", "admin_write"))
    api = RawClient(hub.url + f"/admin/decisions/{answer['id']}/answer", key)
    given = {name: value for name, value in answer.items() if name != "id"}
    status, _, body = await api.post(json.dumps(given).encode())
    assert (status, json.loads(body)["reason"]) == (403, "this needs the passphrase of the hub")
    client = LegacyClient(hub.url + "/mcp", answers("ada"), await hub.new_key("attended"))
    await client.initialize(ALL)
    pending = await client.call("web__ok", {})
    assert pending["result"]["_meta"]["dev.interlock/error"]["name"] == "APPROVAL_PENDING"
    assert not [said for said in client.heard if said.get("method") == "elicitation/create"]

    visitor = await Visitor(hub).log_in_with(key)
    found = await visitor.forms("/console/approvals")
    form = next(form for form in found if answer["id"] in form.action and form.fields.get("view"))
    assert "passphrase" in form.fields
    await visitor.post(form.action, {**form.fields, "answer": "once", "passphrase": WRONG})
    assert hub.hub_app.inbox.get(answer["id"]).state.value == "open"
    await visitor.post(form.action, {**form.fields, "answer": "once", "passphrase": RIGHT})
    assert hub.hub_app.inbox.get(answer["id"]).state.value == "approved"

    # A denial needs none.
    [row] = (await hub.operate("approvals.list"))["decisions"]
    denied = await hub.operate("approvals.answer", id=row["id"], answer="no", terminal=True)
    assert denied["decision"]["state"] == "denied"
    assert "passphrase.set" in [entry.record.name for entry in await entries(hub, event=OPERATED)]
    refusals = [entry.record.reason for entry in await entries(hub) if "passphrase is wrong" in entry.record.reason]
    assert len(refusals) == 2
    kept = b"".join(file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file())
    assert RIGHT.encode() not in kept
    assert WRONG.encode() not in kept


async def test_t42_a_client_that_was_asked_before_the_passphrase_was_set_approves_nothing(tmp_path: Path) -> None:
    class Late(LegacyClient):
        async def _answer(self, message: Any) -> None:
            await hub.operate("passphrase.set", new=RIGHT, terminal=True)
            await super()._answer(message)

    settings = HubSettings(timeouts=SETTINGS.timeouts, approvals=ApprovalSettings(hold_s=2))
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=settings, agents=AGENTS) as hub:
            accepted = {"elicitation/create": {"action": "accept", "content": {"approve": True}}}
            client = Late(hub.url + "/mcp", accepted, await hub.new_key("attended"))
            await client.initialize(ALL)
            called = await client.call("web__ok", {})
            assert called["result"]["_meta"]["dev.interlock/error"]["name"] == "APPROVAL_PENDING"
            assert any(said.get("method") == "elicitation/create" for said in client.heard)


async def test_t42_wrong_passphrases_are_limited_also_many_at_once(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = 0
    real = passphrase.slow_hash

    def counted(*arguments: Any) -> bytes:
        nonlocal hashed
        hashed += 1
        return real(*arguments)

    monkeypatch.setattr(passphrase, "slow_hash", counted)
    answer = {**await asked(hub), "terminal": True}
    guesses = (refused(hub, "approvals.answer", **answer, passphrase=f"{WRONG} {number}") for number in range(40))
    names = await asyncio.gather(*guesses)
    names += [await refused(hub, "approvals.answer", **answer, passphrase=WRONG) for _ in range(MAX_WRONG)]
    assert names.count("ACCESS_DENIED") == MAX_WRONG == hashed
    assert await refused(hub, "approvals.answer", **answer, passphrase=RIGHT) == "RATE_LIMITED"
    monkeypatch.setattr(hub.hub_app.passphrase, "clock", lambda: time.time() + WINDOW_S)
    await hub.operate("approvals.answer", **answer, passphrase=RIGHT)
    await until(lambda: hub.hub_app.inbox.open_count == 0)


WIDENING: dict[str, dict[str, Any]] = {
    "call": {"name": "web__ok"},
    "discovery.register": {},
    "discovery.install": {},
    "rooms.join": {"topic": "build"},
    "rooms.capabilities": {"id": "ci", "add": ["mcp/request:*"]},
    "keys.create": {"agent": "mallory", "kind": "person"},
    "keys.rotate": {"agent": "eve"},
    "grants.grant": {"entry_type": "server_grant", "agent_id": "ci", "server_id": "web", "permission": "allow"},
    "grants.revoke": {"entry_type": "server_grant", "agent_id": "shut out", "server_id": "web"},
    "rollback.run": {},
}
"""Operations that act as the person or give rights, with params of the case that does."""
NARROWING: dict[str, dict[str, Any]] = {
    "keys.create": {"agent": "newcomer"},
    "keys.rotate": {"agent": "ci"},
    "grants.grant": {"entry_type": "server_grant", "agent_id": "ci", "server_id": "web", "permission": "deny"},
    "grants.revoke": {"entry_type": "server_grant", "agent_id": "let in", "server_id": "web"},
}
"""The same operations where they give nobody more than an agent has, which is asked."""
FREE = {
    # They take away, or end something.
    *("servers.stop", "servers.remove", "tools.disable", "stop", "sessions.end", "discovery.deregister", "rooms.leave"),
    *("logins.remove", "keys.revoke", "permissions.deny", "permissions.revoke", "features.disable", "chat.stop"),
    *("channels.close", "conversations.delete", "rules.revoke", "find.forget"),
    # A program of the same user can edit the configuration, and the list of confirmed files.
    *("servers.add", "tools.enable", "reload", "confirm", "servers.start", "servers.restart", "clients.list"),
    # They read, or write what the user can read to a file of the user.
    *("chat.read", "conversations.show", "rollback.plan", "audit.export", "backup"),
    # The calls of a conversation are asked as its agent's, and words in a room ask for nothing by themselves.
    *("chat.send", "rooms.mode", "rooms.say", "rooms.propose", "channels.open", "sessions.test_channel"),
    # A login needs the person at the authorization server.
    *("logins.begin", "logins.finish", "logins.wait", "logins.device", "logins.poll"),
}


def test_t42_every_operation_that_acts_as_the_person_needs_the_passphrase_or_says_why_not() -> None:
    changing = {name for name, operation in OPERATIONS.items() if operation.right != READ}
    assert changing == FREE | {name for name, operation in OPERATIONS.items() if operation.passphrase}
    assert WIDENING.keys() == {name for name, operation in OPERATIONS.items() if operation.proof is not None}


async def test_t42_a_program_at_the_control_socket_does_nothing_as_the_person(hub: RunningHub, tmp_path: Path) -> None:
    await hub.new_key("eve", "person")
    await hub.new_key("ci")
    await hub.deny("shut out", "web")
    await hub.allow("let in", "web")
    async with terminal(hub, tmp_path) as program:

        async def said(name: str, params: dict[str, Any]) -> str:
            answer = await program.ask(f"hub/{name}", {**sample(OPERATIONS[name]), **params})
            return str(answer["error"]["data"]["name"]) if "error" in answer else "done"

        for name, params in WIDENING.items():
            assert await said(name, params) == "PASSPHRASE_REQUIRED", name
            assert await said(name, {**params, "passphrase": ""}) == "PASSPHRASE_REQUIRED", name
            assert await said(name, {**params, "passphrase": None}) == "INVALID_PARAMS", name
            assert await said(name, {**params, "console": True}) == "INVALID_PARAMS", name
        assert [key.principal for key in hub.hub_app.keys.list() if key.kind == "person"] == ["eve"]
        assert await said("call", {**WIDENING["call"], "passphrase": WRONG}) == "ACCESS_DENIED"
        for name, params in NARROWING.items():
            assert await said(name, params) == "done", name
        for name in ("call", "keys.create", "keys.rotate", "grants.grant", "grants.revoke"):
            assert await said(name, {**WIDENING[name], "passphrase": RIGHT}) == "done", name


async def test_t42_a_console_session_from_before_the_passphrase_ends_with_it(tmp_path: Path) -> None:
    async with RawHttpServer(modern=True) as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url)}) as hub:
        early, waiting = await Visitor(hub).log_in(), await Visitor(hub).code()
        await hub.operate("passphrase.set", new=RIGHT, terminal=True)
        assert (await early.get("/console/tools/web__ok")).status == 303
        late = Visitor(hub)
        await late.post("/console/login", {"code": waiting})
        assert (await late.get("/console/tools/web__ok")).status == 303
        made = await hub.operations.perform(
            hub.operations.hub_user, "console.code", json.dumps({"terminal": True, "passphrase": RIGHT}).encode()
        )
        await late.post("/console/login", {"code": made.code})  # type: ignore[attr-defined]
        assert (await late.press("/console/tools/web__ok", "call")).status == 200, "the login was the proof"


async def test_t33_no_key_has_the_name_of_the_hubs_user(hub: RunningHub) -> None:
    """In a room a name is all that others see, and members have their capabilities by their names."""
    owner = hub.operations.hub_user
    for name in (owner.id, "person:ada", f" {owner.id}", f"{owner.id}\u200b"):
        for kind in ("agent", "person"):
            given = {"agent": name, "kind": kind, "passphrase": RIGHT}
            assert await refused(hub, "keys.create", **given) == "INVALID_PARAMS", name
    old = hub.key(owner.id)  # as an older hub stored it
    assert (await RawClient(hub.url + "/mcp", old).post(b"{}"))[0] == 401


def test_t42_each_guess_at_a_stolen_hash_is_costly() -> None:
    assert PASSPHRASE_COST >= 2**15


async def test_t42_one_caller_uses_up_no_attempts_of_another_and_a_restart_gives_none_back(tmp_path: Path) -> None:
    async def guess(hub: RunningHub, by: Principal, given: str = WRONG) -> str:
        try:
            await hub.hub_app.passphrase.demand(by, given)
        except Fault as fault:
            return fault.name
        return "right"

    admin, eve, ada = Principal("root", "admin"), Principal("eve", "person"), Principal("ada", "person")
    async with running_hub(tmp_path, {}, hub=SETTINGS) as hub:
        await hub.operate("passphrase.set", new=RIGHT, terminal=True)
        assert {await guess(hub, admin) for _ in range(MAX_WRONG + 1)} == {"ACCESS_DENIED"}, "never counted"
        assert [await guess(hub, eve) for _ in range(MAX_WRONG + 1)] == ["ACCESS_DENIED"] * MAX_WRONG + ["RATE_LIMITED"]
        assert await guess(hub, ada, RIGHT) == "right"
    async with running_hub(tmp_path, {}, hub=SETTINGS) as hub:
        assert await guess(hub, eve, RIGHT) == "RATE_LIMITED"
        assert await guess(hub, ada, RIGHT) == "right"
        crowd = [await guess(hub, Principal(f"e{number}", "person", key="k")) for number in range(MAX_WRONG_OF_ALL + 5)]
        assert crowd.count("ACCESS_DENIED") == MAX_WRONG_OF_ALL, "more keys give no more attempts"
        assert await guess(hub, hub.operations.hub_user, RIGHT) == "right", "and lock nobody out at the terminal"


@pytest.mark.parametrize("use", ["required", "never"])
async def test_t42_the_configuration_demands_a_passphrase_or_none(tmp_path: Path, use: Any) -> None:
    settings = HubSettings(timeouts=SETTINGS.timeouts, approvals=ApprovalSettings(hold_s=0, passphrase=use))
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=settings, agents=AGENTS) as hub:
            answer = {**await asked(hub), "terminal": True}
            if use == "required":
                assert await refused(hub, "approvals.answer", **answer, passphrase=WRONG) == "PASSPHRASE_REQUIRED"
            await hub.operate("passphrase.set", new=RIGHT, terminal=True)
            given = {"passphrase": RIGHT} if use == "required" else {}
            assert (await hub.operate("approvals.answer", **answer, **given))["decision"]["state"] == "approved"
            if use == "never":
                await hub.operate("passphrase.set", new="another one", terminal=True)
