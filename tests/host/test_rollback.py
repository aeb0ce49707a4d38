"""State of servers through a whole hub: kept with the conversation, carried by calls, taken back, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.running_hub import RunningHub
from hub.test_journal import entries
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpl.checkpoints import RollbackResult
from interlock.server import Context, Operation, Server, StateReport, ToolResult
from interlock.wire.errors import Fault

from . import test_hooks
from .test_hooks import hooked_hub, say

FEATURE = {"dev.interlock/featureSet": "on.edit"}
SCRIPT = [
    {"when": "note:", "tool": "s__add_note", "arguments": {"text": "{user}"}},
    {"when": "tick:", "tool": "s__tick"},
    {"when": "ring:", "tool": "s__ring"},
    {"when": "mark:", "tool": "s__mark"},
    {"text": "Done: {result}"},
]


def notes(kept: list[str], failing: list[str] | None = None) -> Server:
    """Notes that the host keeps; a counter whose state only the server knows; and a bell that nothing takes back."""
    server = Server("s")
    server.feature("on.edit", "Notes", uses=["tools"], rollback=True)
    server.feature("on.count", "Counter", uses=["tools"], rollback=True)
    server.feature("on.mark", "Marks", uses=["tools"], rollback=True)

    @server.tool(meta=FEATURE)
    def add_note(text: str, ctx: Context) -> ToolResult:
        known = [] if ctx.state is None else ctx.state["notes"]
        kept[:] = [*known, text]
        here, said = f"chk_{len(kept)}_{text}", f"{len(kept)} notes"
        if ctx.state is None:
            return ToolResult(content=said, state=StateReport(here, "chk_0", {"notes": kept}))
        patch = (Operation("add", "/nowhere/-" if "bad patch" in text else "/notes/-", text),)
        parent = "chk_unknown" if "bad parent" in text else f"chk_{len(known)}_{known[-1]}"
        return ToolResult(content=said, state=StateReport(here, parent, patch=patch))

    @server.tool(meta={"dev.interlock/featureSet": "on.count"})
    def tick(ctx: Context) -> ToolResult:
        count = int((ctx.checkpoint or "at_0").removeprefix("at_")) + 1
        return ToolResult(content=str(count), state=StateReport(f"at_{count}", ctx.checkpoint or "at_0"))

    @server.tool(meta={"dev.interlock/featureSet": "on.mark"})
    def mark(ctx: Context) -> ToolResult:
        count = (ctx.state or 0) + 1
        return ToolResult(content=str(count), state=StateReport(f"m_{count}", f"m_{count - 1}", count))

    @server.tool
    def ring() -> str:
        return "rang"

    @server.rollback("on.edit")
    def undo(checkpoint: str) -> str | None:
        if failing:
            return failing[0]
        count = int(checkpoint.split("_")[1])
        if count > len(kept):
            raise LookupError(checkpoint)
        del kept[count:]
        return None

    @server.rollback("on.count")
    @server.rollback("on.mark")
    def reset(checkpoint: str) -> None: ...

    return server


async def plan(hub: RunningHub, conversation: str, **more: Any) -> Any:
    return await operate(hub, "rollback.plan", id=conversation, **more)


async def operate(hub: RunningHub, name: str, **params: Any) -> Any:
    result = await hub.operations.perform(hub.operations.hub_user, name, msgspec.json.encode(params))
    return json.loads(msgspec.json.encode(result))


async def test_state_goes_with_calls_branches_and_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_hooks, "SCRIPT", SCRIPT)
    kept: list[str] = []
    async with hooked_hub(tmp_path, {"s": notes(kept)}) as hub:
        conversation = await hub.host.create()
        for text in ("note: a", "note: b", "ring: now", "note: c"):
            await say(hub, text, conversation.id)
        assert kept == ["note: a", "note: b", "note: c"], "each call carried the state that the host keeps"
        other = await hub.host.create(Principal("other", "agent"))
        await hub.operate("features.enable", server="s", features=["on.**"], agent="other", terminal=True)
        assert await say(hub, "note: x", other.id) == "Done: 1 notes", "another conversation has its own state"
        kept[:] = ["note: a", "note: b", "note: c"]

        shown = await plan(hub, conversation.id, turn=1)
        (step,) = shown["steps"]
        assert (step["to"], step["possible"], step["turns"]) == ("chk_1_note: a", True, [1, 3])
        assert [call["tool"] for call in shown["lasting"]] == ["s__ring"], "no checkpoint takes the bell back"
        with pytest.raises(Fault, match="changed since"):
            await operate(hub, "rollback.run", id=conversation.id, turn=2, plan=shown["digest"])
        done = await operate(hub, "rollback.run", id=conversation.id, turn=1, plan=shown["digest"])
        assert done["complete"]
        assert kept == ["note: a"]
        rows = [entry.record.details or {} for entry in await entries(hub, event="dev.interlock.live_rollback")]
        assert [row["outcome"] for row in rows] == ["asked", "done"]

        await say(hub, "note: d", conversation.id)
        assert kept == ["note: a", "note: d"], "a branch from where it went back to"
        (tree,) = (await hub.host.states.trees(conversation.id)).values()
        parents = {each.id: each.parent for each in tree.tree.checkpoints.values()}
        assert parents["chk_2_note: d"] == parents["chk_2_note: b"] == "chk_1_note: a"
        await operate(hub, "conversations.delete", id=conversation.id)
        assert await hub.host.states.trees(conversation.id) == {}


async def test_a_rollback_never_stops_half_way_where_old_checkpoints_were_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_hooks, "SCRIPT", SCRIPT)
    monkeypatch.setattr("interlock.protocols.mcpl.checkpoints.MAX_CHECKPOINTS", 2)
    async with hooked_hub(tmp_path, {"s": notes([])}) as hub:
        conversation = await hub.host.create()
        for index in range(4):
            await say(hub, f"mark: {index}", conversation.id)
        steps = [(await plan(hub, conversation.id, turn=turn))["steps"][0] for turn in (1, 2, 3)]
        assert [step["to"] for step in steps] == ["", "m_2", "m_3"]
        assert steps[0]["reason"] == "the checkpoint before these turns is no longer kept"
        assert "only the server knows m_2" in steps[1]["reason"]
        assert steps[2]["possible"]


async def test_states_that_cannot_be_kept_are_refused_and_the_conversation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_hooks, "SCRIPT", SCRIPT)
    kept: list[str] = []
    async with hooked_hub(tmp_path, {"s": notes(kept)}) as hub:
        conversation = await hub.host.create()
        await say(hub, "note: a", conversation.id)
        for text in ("note: bad patch", "note: bad parent"):
            assert await say(hub, text, conversation.id) == "Done: 2 notes", "the model gets the result all the same"
        reasons = [entry.record.reason or "" for entry in await entries(hub, event="dev.interlock.live_refused")]
        assert any("does not apply" in reason for reason in reasons)
        assert any("CHECKPOINT_NOT_FOUND" in reason for reason in reasons)
        assert await say(hub, "note: c", conversation.id) == "Done: 2 notes"


async def test_a_plan_says_what_cannot_be_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_hooks, "SCRIPT", SCRIPT)
    failing: list[str] = []
    async with hooked_hub(tmp_path, {"s": notes([], failing)}) as hub:
        conversation = await hub.host.create()
        for text in ("note: a", "mark: 1", "ring: 1", "mark: 2", "note: b", "tick: 1"):
            await say(hub, text, conversation.id)
        shown = await plan(hub, conversation.id)
        (opaque,) = shown["steps"]
        assert not opaque["possible"]
        assert "share" in opaque["reason"], "its state is the server's own, on a connection that others use, too"
        assert shown["lasting"] == [], "the step speaks of this call already"

        failing.append("It was printed already")
        shown = await plan(hub, conversation.id, turn=2)
        sets = [step["feature_set"] for step in shown["steps"]]
        assert sets == ["on.count", "on.edit", "on.mark"], "the newest first"
        stays = [call["tool"] for call in shown["lasting"]]
        assert stays == ["s__ring"], "a call of the same server, but of no feature set that goes back"
        run = {"id": conversation.id, "turn": 2, "plan": shown["digest"]}
        done = await operate(hub, "rollback.run", **run)
        reasons = [step["reason"] for step in done["steps"]]
        assert reasons[0] == opaque["reason"], "known before, so no failure: the rest is done as it was shown"
        assert reasons[1:] == ["It was printed already", "not tried: an earlier step failed"]
        with monkeypatch.context() as patch:
            patch.setattr("interlock.host.rollback.decode", lambda *_: RollbackResult("m_7", True))
            done = await operate(hub, "rollback.run", **run, go_on=True)
        elsewhere = "the server says that it went back to m_7"
        assert (done["complete"], done["steps"][2]["reason"]) == (False, elsewhere)
        done = await operate(hub, "rollback.run", **run, go_on=True)
        assert (done["complete"], done["steps"][2]["reason"]) == (False, "")
        await hub.operate("features.disable", server="s", features=["on.edit"], agent="local")
        off = (await plan(hub, conversation.id, turn=2))["steps"][1]
        assert (off["possible"], off["reason"]) == (False, "Feature set not enabled")
