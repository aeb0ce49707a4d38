"""Proposals in the approval inbox: each is offered, a person or a rule fulfils it, and it ends with the proposal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.running_hub import child, until
from interlock.config.settings import Config, TopicSettings
from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.access_methods import GrantParams
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerState
from interlock.wire.errors import Fault

from .running import Peer, RunningRooms, running_rooms

pytestmark = pytest.mark.anyio

MEMBERS = {
    "coder": "proposal-only",
    "lead": "full-access",
    "eve": "full-access",
    "sam": "full-access",
    "watcher": "response-only",
}
BUILD = TopicSettings(visibility="restricted", members=MEMBERS, kinds={"person": "full-access"}, servers=("busy",))
QUIET = TopicSettings(visibility="restricted", kinds={"person": "response-only"}, servers=("busy",))
BUSY = "server:busy"


@pytest.fixture(scope="module")
async def rooms(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningRooms]:
    config = Config(servers={"busy": child("busy_server.py")})
    async with running_rooms(tmp_path_factory.mktemp("inbox"), config=config, build=BUILD, quiet=QUIET) as rooms:
        await until(lambda: rooms.hub_app.upstreams["busy"].state is ServerState.CONNECTED)
        yield rooms


async def person(rooms: RunningRooms, name: str) -> Principal:
    """A person with a key of its own."""
    key = await rooms.key(name, "person")
    found = rooms.hub_app.keys.principal(key)
    assert found is not None
    return found


async def propose(peer: Peer, text: str, name: str = "echo", kind: str = "echo", **members: object) -> str:
    payload = {"method": "tools/call", "params": {"name": name, "arguments": {"text": text}}}
    return await peer.send(f"mcp/proposal:tools/call:{kind}", payload, **{"to": [BUSY]} | members)


def decision_of(rooms: RunningRooms, proposal: str) -> Decision | None:
    found = (one for one in rooms.hub_app.inbox.all(only_open=False) if one.request.proposal == proposal)
    return next(found, None)


async def offered(rooms: RunningRooms, proposal: str) -> Decision:
    await until(lambda: decision_of(rooms, proposal) is not None)
    found = decision_of(rooms, proposal)
    assert found is not None
    return found


async def ended(rooms: RunningRooms, proposal: str, state: DecisionState) -> Decision:
    await until(lambda: (one := decision_of(rooms, proposal)) is not None and one.state is state)
    found = decision_of(rooms, proposal)
    assert found is not None
    return found


async def answer(rooms: RunningRooms, decision: Decision, answer: str, by: Principal | None = None, **more: Any) -> Any:
    shown = await rooms.operate("approvals.show", id=decision.id)
    view = {} if answer == "no" else {"view": shown["view_hash"]}
    if by is None:
        more["terminal"] = True
    return await rooms.operate("approvals.answer", by, id=decision.id, answer=answer, **view, **more)


async def response(peer: Peer) -> dict[str, Any]:
    return (await peer.next("mcp/response:tools/call:echo"))["payload"]


async def test_a_person_fulfils_a_proposal_from_the_inbox_and_a_real_tool_runs(rooms: RunningRooms) -> None:
    coder = await rooms.join("coder", mode="directed")
    assert "system:inbox" in [one["id"] for one in coder.welcome["payload"]["participants"]]
    proposal = await propose(coder, "written")
    decision = await offered(rooms, proposal)
    shown = await rooms.operate("approvals.show", id=decision.id)
    assert shown["decision"]["proposal"] == proposal
    assert '"written"' in shown["view"]
    assert BUSY in shown["view"], "the person sees who will do it"
    done = await answer(rooms, decision, "once")
    assert done["response"]["result"]["content"][0]["text"] == "written"
    assert done["decision"]["state"] == "used"
    assert (await response(coder))["result"]["content"][0]["text"] == "written"
    with pytest.raises(Fault, match=r"fulfilled|ended|used"):
        await answer(rooms, decision, "no")
    await rooms.hub_app.recorder.flushed()
    owner = rooms.operations.hub_user.id
    found = await rooms.operate("audit.search", agent=owner, tool="echo")
    assert found["entries"], "the call is the person's own"
    found = await rooms.operate("audit.search", event="dev.interlock.room_proposal_fulfilled")
    assert found["entries"][0]["record"]["details"]["by"].startswith(f"{owner}~")
    await coder.leave()


async def test_an_entry_ends_with_its_proposal(rooms: RunningRooms) -> None:
    coder, lead = await rooms.join("coder"), await rooms.join("lead")
    proposals = [await propose(coder, f"end {number}") for number in range(3)]
    for proposal in proposals:
        assert (await offered(rooms, proposal)).state is DecisionState.OPEN
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}}
    await lead.send("mcp/request:tools/call:echo", call, to=[BUSY], correlation_id=proposals[0])
    await ended(rooms, proposals[0], DecisionState.FULFILLED_ELSEWHERE)
    await coder.send("mcp/withdraw", {"reason": "changed my mind"}, correlation_id=proposals[1])
    assert (await ended(rooms, proposals[1], DecisionState.VOID)).reason == "withdrawn by coder: changed my mind"
    await lead.send("mcp/reject", {"reason": "too risky"}, correlation_id=proposals[2])
    decision = await ended(rooms, proposals[2], DecisionState.VOID)
    assert decision.reason == "rejected by lead: too risky"
    with pytest.raises(Fault):
        await answer(rooms, decision, "once")
    for peer in (coder, lead):
        await peer.leave()


async def test_a_person_says_no_and_the_proposer_learns_why(rooms: RunningRooms) -> None:
    coder = await rooms.join("coder")
    decision = await offered(rooms, proposal := await propose(coder, "no"))
    await answer(rooms, decision, "no", await person(rooms, "pia"), reason="not on a Friday")
    rejected = await coder.next("mcp/reject")
    assert (rejected["correlation_id"], rejected["payload"]) == (proposal, {"reason": "not on a Friday"})
    assert rejected["from"].startswith("pia~")
    await ended(rooms, proposal, DecisionState.DENIED)
    await coder.leave()


async def test_a_proposal_to_nobody_is_fulfilled_by_the_participant_that_the_person_names(rooms: RunningRooms) -> None:
    coder = await rooms.join("coder")
    decision = await offered(rooms, await propose(coder, "anyone", to=[]))
    with pytest.raises(Fault, match="names nobody"):
        await answer(rooms, decision, "once")
    done = await answer(rooms, decision, "once", to=[BUSY])
    assert done["response"]["result"]["content"][0]["text"] == "anyone"
    await coder.leave()


async def test_t33_only_who_was_asked_answers_the_person_who_fulfils(rooms: RunningRooms) -> None:
    coder, lead, eve = await rooms.join("coder"), await rooms.join("lead"), await rooms.join("eve")
    decision = await offered(rooms, await propose(coder, "true", to=["lead"]))
    fulfilling = asyncio.create_task(answer(rooms, decision, "once"))
    kind = "mcp/response:tools/call:echo"
    for peer, said in ((eve, "forged"), (lead, "true")):
        asked = await peer.next("mcp/request:tools/call:echo")
        result = {"jsonrpc": "2.0", "id": asked["payload"]["id"], "result": {"content": [], "said": said}}
        await peer.send(kind, result, to=[asked["from"]], correlation_id=asked["id"])
        await coder.next(kind)  # the room has passed it on
    assert (await fulfilling)["response"]["result"]["said"] == "true"
    for peer in (coder, lead, eve):
        await peer.leave()


async def test_a_proposal_to_somebody_who_is_not_there_stays_open(rooms: RunningRooms) -> None:
    coder = await rooms.join("coder")
    decision = await offered(rooms, proposal := await propose(coder, "gone", to=["server:nope"]))
    with pytest.raises(Fault, match=f"server:nope is not in .*; here: .*{BUSY}"):
        await answer(rooms, decision, "once")
    assert (await offered(rooms, proposal)).state is DecisionState.OPEN
    done = await answer(rooms, decision, "once", to=["server:nope", BUSY])
    assert done["response"]["result"]["content"][0]["text"] == "gone"
    await coder.leave()


async def test_t92_nobody_fulfils_with_more_than_its_own_rights(rooms: RunningRooms) -> None:
    pia, eve = await person(rooms, "pia"), await rooms.join("eve")
    decision = await offered(rooms, await propose(eve, "rights"))
    with pytest.raises(Fault, match="only a person"):
        await answer(rooms, decision, "once", rooms.hub_app.keys.principal(await rooms.key("boss", "admin")))
    assert decision_of(rooms, decision.request.proposal) == decision, "it stays open"
    quiet = await rooms.join("coder", "quiet")
    withheld = await offered(rooms, await propose(quiet, "quiet"))
    for word in ("once", "no"):
        with pytest.raises(Fault, match="may not send mcp/request:tools/call:echo in quiet"):
            await answer(rooms, withheld, word, pia)
    zoe = await rooms.join("zoe", kind="person")
    own = await offered(rooms, await propose(zoe, "my own"))
    with pytest.raises(Fault, match="own"):
        await answer(rooms, own, "once", await person(rooms, "zoe"))
    await rooms.hub_app.access_methods.grant(
        Principal("boss", "admin"), GrantParams("tool_grant", "pia", "busy", "deny", "echo")
    )
    done = await answer(rooms, decision, "once", pia)
    assert done["response"]["error"]["data"]["domain"] in ("security", "validation"), "the hub says no to pia"
    for peer in (eve, quiet, zoe):
        await peer.leave()


async def test_t93_the_inbox_offers_nothing_that_a_kind_hides(rooms: RunningRooms) -> None:
    coder = await rooms.join("coder")
    hidden = await propose(coder, "hidden", name="pid", kind="echo")
    error = await coder.error()
    assert (error["payload"]["error"], error["correlation_id"]) == ("context_mismatch", hidden)
    await offered(rooms, await propose(coder, "after it"))
    assert decision_of(rooms, hidden) is None
    await coder.leave()


async def test_one_answer_of_many_wins(rooms: RunningRooms) -> None:
    coder, watcher = await rooms.join("coder"), await rooms.join("watcher")
    decision = await offered(rooms, await propose(coder, "race"))
    people = [await person(rooms, name) for name in ("ada", "ben", "cleo")]
    found = await asyncio.gather(*(answer(rooms, decision, "once", one) for one in people), return_exceptions=True)
    assert sorted(isinstance(one, Fault) for one in found) == [False, True, True], found
    seen = [one for one in await watcher.nothing() if one["kind"] == "mcp/request:tools/call:echo"]
    assert len(seen) == 1
    await coder.leave()
    await watcher.leave()


async def test_a_learned_rule_fulfils_exactly_what_its_maker_approved_while_the_maker_may(rooms: RunningRooms) -> None:
    rita = await person(rooms, "rita")
    coder = await rooms.join("coder")
    done = await answer(rooms, await offered(rooms, await propose(coder, "again")), "always", rita)
    assert done["response"]["result"]["content"][0]["text"] == "again"
    await response(coder)
    proposal = await propose(coder, "again")
    assert (await response(coder))["result"]["content"][0]["text"] == "again"
    used = await ended(rooms, proposal, DecisionState.USED)
    assert (used.answered_by, used.answered_in) == ("rita", "rule")
    (rule,) = (await rooms.operate("rules.list"))["rules"]
    assert "in the name of rita" in rule["explained"]
    other = await offered(rooms, await propose(coder, "something else"))
    another = await rooms.join("eve")
    foreign = await offered(rooms, await propose(another, "again"))
    await rooms.hub_app.keys.revoke("rita")
    left = await offered(rooms, await propose(coder, "again"))
    await offered(rooms, await propose(coder, "the last"))
    for decision in (other, foreign, left):
        assert rooms.hub_app.inbox.get(decision.id).state is DecisionState.OPEN
    await coder.leave()
    await another.leave()


async def test_a_rule_does_nothing_that_its_maker_may_no_longer_do(
    rooms: RunningRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    sam = rooms.hub_app.keys.principal(await rooms.hub_app.keys.create("sam", "person", expires_at=expires_at))
    assert sam is not None
    coder = await rooms.join("coder")
    await answer(rooms, await offered(rooms, await propose(coder, "as sam")), "always", sam)
    await response(coder)

    async def stays_open() -> bool:
        decision = await offered(rooms, await propose(coder, "as sam"))
        await offered(rooms, await propose(coder, "the next in line"))
        return rooms.hub_app.inbox.get(decision.id).state is DecisionState.OPEN

    assert not await stays_open()
    await rooms.operate("rooms.capabilities", id="sam", topic="build", remove=["mcp/*"])
    assert await stays_open(), "without the capability in the topic"
    await rooms.operate("rooms.capabilities", id="sam", topic="build", add=["mcp/*"])
    assert not await stays_open()
    monkeypatch.setattr(rooms.hub_app.access, "now", lambda: expires_at)
    assert await stays_open(), "with a key that has expired"
    await coder.leave()


async def test_entries_expire_and_end_with_the_hub_and_with_the_key_of_their_proposer(tmp_path: Path) -> None:
    short = msgspec.structs.replace(BUILD, proposal_s=0.2, servers=())
    async with running_rooms(tmp_path, build=BUILD, short=short) as rooms:
        brief, coder, eve = await rooms.join("coder", "short"), await rooms.join("coder"), await rooms.join("eve")
        await ended(rooms, await propose(brief, "soon over"), DecisionState.EXPIRED)
        kept = await offered(rooms, await propose(coder, "kept"))
        lasts_s = (kept.deadline - kept.created) / 1000
        assert BUILD.proposal_s - 60 < lasts_s <= BUILD.proposal_s, "no longer than the proposal itself"
        revoked = await offered(rooms, await propose(eve, "revoked"))
        await rooms.hub_app.keys.revoke("eve")
        assert [one.id for one in rooms.hub_app.inbox.all(only_open=True)] == [kept.id]
        with pytest.raises(Fault):
            await answer(rooms, revoked, "once")
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        former = rooms.hub_app.inbox.get(kept.id)
        assert (former.state, former.reason) == (DecisionState.VOID, "the hub was restarted")


async def test_whoever_left_after_a_proposal_finds_it_among_the_approval_requests(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        for number in range(5):
            coder = await rooms.join("coder")
            proposal = await propose(coder, f"file {number}")
            await coder.leave()
            listed = (await rooms.operate("approvals.list"))["decisions"]
            assert proposal in [row["proposal"] for row in listed], number
