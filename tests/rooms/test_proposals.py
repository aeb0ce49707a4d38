"""The specification's examples through the real gateway, and the life of proposals between real participants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.config.settings import TopicSettings
from protocols.mcpx import vectors

from .running import Peer, running_rooms

pytestmark = pytest.mark.anyio

CALL = {"name": "write", "arguments": {"path": "a"}}
MEMBERS = {
    "human-user": "full-access",
    "trusted-agent": "full-access",
    "target-agent": "response-only",
    "untrusted-agent": "proposal-only",
    "user-alice": "response-only",
    "robot-alpha": "tool-only",
}
BUILD = TopicSettings(members=MEMBERS)


def call(number: int, name: str = "write") -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": CALL | {"name": name}}


async def propose(peer: Peer, **members: object) -> str:
    return await peer.send("mcp/proposal:tools/call:write", {"method": "tools/call", "params": CALL}, **members)


@pytest.mark.parametrize("strict", [False, True])
async def test_every_example_of_the_specification_passes_or_is_refused_as_its_text_says(
    tmp_path: Path, strict: bool
) -> None:
    async with running_rooms(tmp_path, build=TopicSettings(members=MEMBERS, strict=strict)) as rooms:
        peers = {name: await rooms.join(name) for name in MEMBERS}
        observer = peers["user-alice"]
        order = [vectors.REQUEST, vectors.RESPONSE, vectors.PROPOSAL, vectors.FULFILMENT, vectors.FULFILMENT_RESPONSE]
        for example in order:
            await peers[json.loads(example)["from"]].socket.send(example)
            got = await observer.socket.recv()
            while json.loads(got)["kind"].startswith("system/"):
                got = await observer.socket.recv()
            assert got == example, "byte for byte"
        await observer.socket.send(vectors.CHAT)
        assert (await peers["human-user"].next("chat"))["payload"]["text"] == "Hello everyone!"
        robot = peers["robot-alpha"]
        await robot.socket.send(vectors.ENVELOPE)
        if strict:
            assert (await robot.error())["payload"]["error"] == "invalid_payload", "its payload is left out in the text"
        else:
            await peers["human-user"].next("mcp/request:tools/call")
        for example in (vectors.PRESENCE, vectors.WELCOME, vectors.VIOLATION):
            forged = json.loads(example) | {"from": robot.id, "id": json.loads(example)["id"] + "-forged"}
            await robot.socket.send(json.dumps(forged))
            error = await robot.error()
            assert error["payload"]["error"] == "capability_violation"
            assert error["payload"]["attempted_kind"] == forged["kind"]


async def test_the_first_fulfilment_wins_and_its_answer_reaches_the_proposer(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        proposer = await rooms.join("untrusted-agent", mode="directed")
        ann, bob = await rooms.join("human-user"), await rooms.join("trusted-agent")
        target = await rooms.join("target-agent")
        proposal = await propose(proposer)
        await ann.next("mcp/proposal:tools/call:write")
        kind = "mcp/request:tools/call:write"
        request = await ann.send(kind, call(1), to=["target-agent"], correlation_id=proposal)
        await target.next(kind)
        await bob.send(kind, call(2), to=["target-agent"], correlation_id=proposal)
        error = await bob.error()
        assert error["payload"]["error"] == "proposal_already_fulfilled"
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
        # The target cannot know who proposed, and the proposer hears only what is directed to it.
        await target.send(kind.replace("request", "response"), answer, to=["human-user"], correlation_id=request)
        got = await proposer.next("mcp/response:tools/call:write")
        assert got["payload"] == answer
        assert not [each for each in await target.nothing() if each["kind"] == kind], "the second never arrived"


async def test_nobody_fulfils_its_own_proposal(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        ann = await rooms.join("human-user")
        proposal = await propose(ann)
        await ann.send("mcp/request:tools/call:write", call(1), correlation_id=proposal)
        assert (await ann.error())["payload"]["error"] == "own_proposal"


async def test_guests_are_one_principal(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=TopicSettings(visibility="public", profile="full-access")) as rooms:
        one, other = await rooms.join(None), await rooms.join(None)
        proposal = await propose(one)
        await other.next("mcp/proposal:tools/call:write")
        await other.send("mcp/request:tools/call:write", call(1), correlation_id=proposal)
        assert (await other.error())["payload"]["error"] == "own_proposal"
        for _ in range(31):
            await propose(one)
            await other.next("mcp/proposal:tools/call:write")
        await propose(other)
        assert (await other.error())["payload"]["error"] == "too_many_proposals", "so guests cannot fill the topic"


async def test_withdrawn_and_rejected_proposals_cannot_be_fulfilled(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=BUILD) as rooms:
        proposer, ann = await rooms.join("untrusted-agent"), await rooms.join("human-user")
        watcher = await rooms.join("target-agent")
        withdrawn, rejected = await propose(proposer), await propose(proposer)
        await ann.send("mcp/withdraw", {}, correlation_id=withdrawn)
        assert (await ann.error())["payload"]["error"] == "not_the_proposer"
        await watcher.send("mcp/reject", {"reason": "no"}, correlation_id=rejected)
        assert (await watcher.error())["payload"]["error"] == "cannot_reject"
        await proposer.send("mcp/withdraw", {"reason": "changed my mind"}, correlation_id=withdrawn)
        await ann.next("mcp/withdraw")
        await ann.send("mcp/reject", {"reason": "too risky"}, correlation_id=rejected)
        assert (await proposer.next("mcp/reject"))["payload"] == {"reason": "too risky"}
        for proposal, reason in ((withdrawn, "proposal_withdrawn"), (rejected, "proposal_rejected")):
            await ann.send("mcp/request:tools/call:write", call(1), correlation_id=proposal)
            assert (await ann.error())["payload"]["error"] == reason


async def test_a_proposal_expires_and_its_proposer_is_told(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=TopicSettings(members=MEMBERS, proposal_s=0.2)) as rooms:
        proposer, ann = await rooms.join("untrusted-agent"), await rooms.join("human-user")
        proposal = await propose(proposer)
        error = await proposer.error()
        assert (error["payload"]["error"], error["correlation_id"]) == ("proposal_expired", proposal)
        await ann.send("mcp/request:tools/call:write", call(1), correlation_id=proposal)
        assert (await ann.error())["payload"]["error"] == "proposal_expired"
        await rooms.hub_app.recorder.flushed()
        found = await rooms.operate("audit.search", event="dev.interlock.room_proposal_expired")
        assert [entry["record"]["details"]["proposal"] for entry in found["entries"]] == [proposal]


async def test_agents_can_track_proposals_themselves(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=TopicSettings(members=MEMBERS, proposals="agents")) as rooms:
        proposer, ann = await rooms.join("untrusted-agent"), await rooms.join("human-user")
        target = await rooms.join("target-agent")
        proposal = await propose(proposer)
        for number in (1, 2):
            await ann.send("mcp/request:tools/call:write", call(number), correlation_id=proposal)
            assert (await target.next("mcp/request:tools/call:write"))["payload"]["id"] == number


async def test_a_strict_topic_refuses_a_kind_that_does_not_match_its_payload(tmp_path: Path) -> None:
    async with running_rooms(tmp_path, build=TopicSettings(members=MEMBERS, strict=True), lax=BUILD) as rooms:
        for topic, refused in (("build", True), ("lax", False)):
            eve, target = await rooms.join("robot-alpha", topic), await rooms.join("target-agent", topic)
            await eve.send("mcp/request:tools/call:safe", call(1, "dangerous"))
            if refused:
                assert (await eve.error())["payload"]["error"] == "context_mismatch"
            else:
                await target.next("mcp/request:tools/call:safe")
