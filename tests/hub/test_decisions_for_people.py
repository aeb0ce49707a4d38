"""A fair approval request reaches the person, says what is known, and ends with the key that asked."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, OAuthSettings, Rate
from interlock.hub.approvals.states import DecisionState
from interlock.hub.calls.dispatch.dispatcher import CallQuota
from interlock.wire.errors import Fault

from .legacy_client import LegacyClient
from .modern_client import ModernClient
from .people import read_and_answer
from .running_hub import RawClient, child, running_hub, text_of
from .test_decisions import ADA, asking_hub, echo, error_of, only_open

ATTENDED = {"careful": AgentSettings(ask=("busy__ec*",), attended_by="ada")}


def yes(approve: bool = True) -> dict[str, Any]:
    return {"elicitation/create": {"action": "accept", "content": {"approve": approve}}}


@pytest.mark.parametrize(("said", "state"), [(True, DecisionState.USED), (False, DecisionState.DENIED)])
async def test_an_attended_client_of_the_stateless_era_is_asked_by_its_own_result(
    tmp_path: Path, said: bool, state: DecisionState
) -> None:
    async with asking_hub(tmp_path, hold_s=0.05, agents=ATTENDED) as hub:
        client = ModernClient(hub.url + "/mcp", yes(said), hub.key("careful"))
        answer = await client.call("busy__echo", {"text": "a"})
        assert (text_of(answer) == "a") if said else ("was denied by person:ada" in str(answer))
        (question,) = client.asked
        assert question["method"] == "elicitation/create"
        assert "busy__echo" in question["params"]["message"]
        (decision,) = hub.hub_app.inbox.all(only_open=False)
        assert (decision.state, decision.answered_by, decision.answered_in) == (state, "person:ada", "client")
        assert hub.hub_app.hub.open_calls == 0


async def test_the_answer_may_take_longer_than_calls_are_held_and_the_inbox_may_be_quicker(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, hold_s=0.0, agents=ATTENDED) as hub:
        client = ModernClient(hub.url + "/mcp", yes(False), hub.key("careful"))
        asked = await client.start("busy__echo", {"text": "a"})
        assert asked["resultType"] == "input_required"
        decision = await only_open(hub)
        await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        params = {"name": "busy__echo", "arguments": {"text": "a"}}
        assert text_of(await client.ask("tools/call", params, **client.reply(asked))) == "a", "answered already"


async def test_t30_the_state_of_a_question_is_worth_nothing_to_another_caller_or_for_another_call(
    tmp_path: Path,
) -> None:
    agents = {**ATTENDED, "other": ATTENDED["careful"]}
    async with asking_hub(tmp_path, agents=agents) as hub:
        client = ModernClient(hub.url + "/mcp", yes(), hub.key("careful"))
        asked = await client.start("busy__echo", {"text": "a"})
        thief = ModernClient(hub.url + "/mcp", yes(), hub.key("other"))
        for who, text in ((thief, "a"), (client, "b")):
            params = {"name": "busy__echo", "arguments": {"text": text}}
            refused = await who.ask("tools/call", params, **client.reply(asked))
            assert refused["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"
        assert hub.hub_app.inbox.all(only_open=True)[0].state is DecisionState.OPEN


async def test_a_client_of_the_stateless_era_that_nobody_attends_is_not_asked(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        client = ModernClient(hub.url + "/mcp", yes(), hub.key("careful"))
        assert error_of(await client.call("busy__echo", {"text": "a"}))["name"] == "APPROVAL_PENDING"
        assert client.asked == []


async def test_whoever_is_asked_reads_the_risk_the_trust_and_what_was_found(tmp_path: Path) -> None:
    # By its name and schema it runs commands, and nobody asked for a validator: what that would say is only found.
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    wish = tmp_path / "tools.json"
    wish.write_text(json.dumps({"name": "run_command", "inputSchema": schema}))
    agents = {"careful": AgentSettings(ask=("s__*",), attended_by="ada")}
    async with running_hub(tmp_path, {"s": child("changing_server.py", str(wish), era="legacy")}, agents=agents) as hub:
        client = LegacyClient(hub.url + "/mcp", yes(), hub.key("careful"))
        await client.initialize({"elicitation": {}})
        await client.call("s__run_command", {"command": "rm -rf /"})
        (decision,) = hub.hub_app.inbox.all(only_open=False)
        assert (decision.request.risk, decision.request.trust) == ("moderate", "standard")
        asked = next(message for message in client.heard if message.get("method") == "elicitation/create")
        shown = asked["params"]["message"]
        assert "risk: moderate" in shown
        assert "trust in the server: standard" in shown
        assert any(finding.startswith("shell.") for finding in decision.request.findings)
        for finding in decision.request.findings:
            assert f"finding: {finding}" in shown


@pytest.mark.parametrize("lost", ["revoked", "rotated", "expired", "denied", "permission"])
async def test_an_approval_ends_with_what_its_asker_was_permitted_by(tmp_path: Path, lost: str) -> None:
    async with asking_hub(tmp_path) as hub:
        soon = datetime.now(UTC) + timedelta(hours=1)
        key = await hub.new_key("careful", expires_at=soon)
        second = await hub.new_key("careful")
        told = await RawClient(hub.url + "/mcp", key).modern("tools/call", echo("a"))
        decision = error_of(told)["decision"]
        await read_and_answer(hub.hub_app.inbox, decision, "once", ADA)
        match lost:
            case "revoked":
                await hub.hub_app.keys.revoke("careful")
                second = await hub.new_key("careful")
            case "rotated":
                second = await hub.hub_app.keys.rotate("careful")
            case "expired":
                hub.hub_app.access.now = lambda: soon + timedelta(seconds=1)
            case "denied":
                await hub.deny("careful", "busy", "echo")
            case "permission":
                await hub.hub_app.keys.revoke("careful")
                second = await hub.new_key("careful", permissions=("invoke:busy__add",))
        again = await RawClient(hub.url + "/mcp", second).modern("tools/call", echo("a"))
        assert "result" not in again or error_of(again)["name"] == "APPROVAL_PENDING"
        assert not await hub.hub_app.inbox.use(decision)


async def test_an_approval_outlives_the_access_token_it_was_asked_with(tmp_path: Path) -> None:
    pytest.importorskip("joserfc", reason="needs interlock[oauth]")
    from .issuer import ISSUER, RESOURCE, Issuer

    async with Issuer() as issuer:
        settings = HubSettings(
            approvals=ApprovalSettings(hold_s=0),
            oauth=OAuthSettings(issuer=ISSUER, resource=RESOURCE, jwks_url=issuer.url),
        )
        agents = {f"{ISSUER}#alice": AgentSettings(ask=("busy__ec*",))}
        async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as hub:
            assert hub.hub_app.oauth is not None
            await hub.hub_app.oauth.settled()
            told = await RawClient(hub.url + "/mcp", issuer.token()).modern("tools/call", echo("a"))
            await read_and_answer(hub.hub_app.inbox, error_of(told)["decision"], "once", ADA)
            renewed = RawClient(hub.url + "/mcp", issuer.token(jti="renewed"))
            assert text_of(await renewed.modern("tools/call", echo("a"))) == "a"


async def test_a_question_of_a_key_that_is_gone_cannot_be_answered(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        await RawClient(hub.url + "/mcp", await hub.new_key("careful")).modern("tools/call", echo("a"))
        decision = await only_open(hub)
        await hub.hub_app.keys.revoke("careful")
        with pytest.raises(Fault, match="is void"):
            await read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        assert hub.hub_app.inbox.get(decision.id).state is DecisionState.VOID


async def test_a_held_call_whose_key_is_revoked_is_not_made_though_it_is_approved(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, hold_s=30) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("careful"))
        held = asyncio.ensure_future(client.modern("tools/call", echo("a")))
        decision = await only_open(hub)
        await hub.hub_app.keys.revoke("careful")
        approved = read_and_answer(hub.hub_app.inbox, decision.id, "once", ADA)
        await asyncio.gather(approved, return_exceptions=True)
        assert error_of(await held)["name"] in ("AUTH_REQUIRED", "APPROVAL_PENDING")


async def test_whoever_loses_the_race_for_an_approval_is_not_charged_for_it(tmp_path: Path) -> None:
    async with asking_hub(tmp_path) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("careful", rate=Rate(per_hour=8)))
        await client.modern("tools/call", echo("a"))
        await read_and_answer(hub.hub_app.inbox, (await only_open(hub)).id, "once", ADA)
        answers = await asyncio.gather(*(client.modern("tools/call", echo("a"), id=id_) for id_ in range(6)))
        assert [text_of(answer) for answer in answers].count("a") == 1
        assert await calls_left(client) == 7, "one call was made"


async def calls_left(client: RawClient) -> int:
    """How many calls a key may still make: it makes them."""
    for made in range(100):
        answer = await client.modern("tools/call", {"name": "busy__pid", "arguments": {}})
        if "error" in answer:
            assert error_of(answer)["name"] == "RATE_LIMITED"
            return made
    raise AssertionError("there is no rate")


async def test_a_call_that_found_no_place_is_not_charged(tmp_path: Path) -> None:
    async with asking_hub(tmp_path, agents={}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("careful", rate=Rate(per_hour=8)))
        dispatcher = hub.hub_app.hub.pipeline.dispatcher
        quota, dispatcher.quota = dispatcher.quota, CallQuota(0, 0, 0)
        refused = await client.modern("tools/call", echo("a"))
        assert refused["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
        dispatcher.quota = quota
        assert await calls_left(client) == 8
