"""A program of the same user has a terminal as easily as a person has. It does not have the passphrase."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.legacy_client import LegacyClient, answers
from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, RunningHub, running_hub, until
from hub.test_bridges_questions import ALL
from hub.test_journal import entries
from interlock.config.settings import Agent, Approvals, Hub, Server, Timeouts
from interlock.hub.approvals import passphrase
from interlock.hub.approvals.passphrase import MAX_WRONG, WINDOW_S
from interlock.hub.audit.record import OPERATED
from interlock.wire.errors import Fault
from web.console_visitor import Visitor

SETTINGS = Hub(timeouts=Timeouts(start_s=120, discovery_s=60, tool_s=60), approvals=Approvals(hold_s=0))
AGENTS = {"ci": Agent(ask=("**",)), "attended": Agent(ask=("**",), attended_by="ada")}
RIGHT, WRONG = "correct horse", "battery staple"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with RawHttpServer(modern=True) as web:
        servers = {"web": Server(url=web.url)}
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
    assert await refused(hub, "approvals.answer", **answer, console=True) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "approvals.answer", **answer, terminal=True, passphrase=WRONG) == "ACCESS_DENIED"
    assert await refused(hub, "console.code", terminal=True) == "PASSPHRASE_REQUIRED"
    assert await refused(hub, "rules.make", decision=answer["id"], terminal=True) == "PASSPHRASE_REQUIRED"
    needed = {"server": "web", "permissions": ["filesystem.read"], "terminal": True}
    assert await refused(hub, "permissions.approve", **needed) == "PASSPHRASE_REQUIRED"
    enabling = {"server": "web", "features": ["memory"], "agent": "ci", "terminal": True}
    assert await refused(hub, "features.enable", **enabling) == "PASSPHRASE_REQUIRED"
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

    settings = Hub(timeouts=SETTINGS.timeouts, approvals=Approvals(hold_s=2))
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": Server(url=web.url)}, hub=settings, agents=AGENTS) as hub:
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
    real = passphrase._scrypt

    def counted(*arguments: Any) -> bytes:
        nonlocal hashed
        hashed += 1
        return real(*arguments)

    monkeypatch.setattr(passphrase, "_scrypt", counted)
    answer = {**await asked(hub), "terminal": True}
    guesses = (refused(hub, "approvals.answer", **answer, passphrase=f"{WRONG} {number}") for number in range(40))
    names = await asyncio.gather(*guesses)
    names += [await refused(hub, "approvals.answer", **answer, passphrase=WRONG) for _ in range(MAX_WRONG)]
    assert names.count("ACCESS_DENIED") == MAX_WRONG == hashed
    assert await refused(hub, "approvals.answer", **answer, passphrase=RIGHT) == "RATE_LIMITED"
    hub.hub_app.passphrase._wrong[0] -= WINDOW_S
    await hub.operate("approvals.answer", **answer, passphrase=RIGHT)
    await until(lambda: hub.hub_app.inbox.open_count == 0)


@pytest.mark.parametrize("use", ["required", "never"])
async def test_t42_the_configuration_demands_a_passphrase_or_none(tmp_path: Path, use: Any) -> None:
    settings = Hub(timeouts=SETTINGS.timeouts, approvals=Approvals(hold_s=0, passphrase=use))
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": Server(url=web.url)}, hub=settings, agents=AGENTS) as hub:
            answer = {**await asked(hub), "terminal": True}
            if use == "required":
                assert await refused(hub, "approvals.answer", **answer, passphrase=WRONG) == "PASSPHRASE_REQUIRED"
            await hub.operate("passphrase.set", new=RIGHT, terminal=True)
            given = {"passphrase": RIGHT} if use == "required" else {}
            assert (await hub.operate("approvals.answer", **answer, **given))["decision"]["state"] == "approved"
            if use == "never":
                await hub.operate("passphrase.set", new="another one", terminal=True)
