"""Rolls back the state that turns of a conversation changed (MCPL, state/rollback), by a plan that was shown before.

Steps run newest first. Each is recorded before it is sent, and the first failure stops the rollback unless told to go
on. Calls without a checkpoint cannot be rolled back, and the plan says so.
"""

from __future__ import annotations

import contextlib
import hashlib
from itertools import zip_longest
from typing import Final

import msgspec

from interlock.host.conversations import Conversation, Conversations
from interlock.host.models.model import ModelToolResult, ToolUse
from interlock.host.states import ConversationStates, KeptTree
from interlock.hub.admin.rollback import LastingCall, RollbackDone, RollbackPlan, RollbackStep
from interlock.hub.app import HubApp
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.views import View
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.connections import OwnConnections
from interlock.hub.live.feature_set_gate import feature_of
from interlock.hub.live.server_states import TreeKey
from interlock.protocols.mcpl.authorization import check_outgoing, check_tool_call
from interlock.protocols.mcpl.checkpoints import CheckpointTree, RollbackParams, RollbackResult, roll_back
from interlock.protocols.mcpl.decoding import decode
from interlock.wire.errors import Fault

METHOD: Final = "state/rollback"
ANSWER_S: Final = 60.0
NO_CHECKPOINT: Final = "there is no checkpoint before these turns"
MAX_CALLS: Final = 200
"""Calls that a plan lists."""


class _Step(msgspec.Struct, frozen=True):
    """One state tree of the plan, and the reason if it cannot be rolled back."""

    place: TreeKey
    kept: KeptTree
    target: str | None
    why_not: str


class Rollbacks:
    """Plans and runs rollbacks. The host lets no turn of the conversation run meanwhile."""

    def __init__(self, hub_app: HubApp, conversations: Conversations, states: ConversationStates) -> None:
        self._hub_app = hub_app
        self._conversations = conversations
        self._states = states
        self._own_connections = OwnConnections(hub_app.live.connections, hub_app.upstreams)

    async def plan(self, conversation: Conversation, before: int | None) -> RollbackPlan:
        """Plan a rollback of all changes from one turn on; without a turn, of the newest turn."""
        first = self._first(conversation, before)
        steps = await self._steps(conversation, first)
        shown = [
            RollbackStep(
                *step.place, step.kept.tree.head or "", step.target or "", step.why_not == "", step.why_not,
                sorted({turn for turn in step.kept.turns.values() if turn >= first}),
            )
            for step in steps
        ]  # fmt: skip
        lasting = await self._lasting(conversation, first, steps)
        digest = hashlib.sha256(msgspec.json.encode((conversation.id, first, shown, lasting))).hexdigest()[:16]
        return RollbackPlan(conversation.id, first, shown, lasting, digest)

    async def run(self, conversation: Conversation, before: int | None, plan: str, *, go_on: bool) -> RollbackDone:
        """Run a plan. Raises INVALID_PARAMS if the plan has changed since it was shown.

        A step that was shown as impossible does not count as a failure.
        """
        shown = await self.plan(conversation, before)
        if shown.digest != plan:
            raise Fault(
                "INVALID_PARAMS", "the conversation has changed since this plan was shown", hint="plan it again"
            )
        done: list[RollbackStep] = []
        stopped = False
        for step, row in zip(await self._steps(conversation, shown.first), shown.steps, strict=True):
            if stopped and not step.why_not:
                done.append(msgspec.structs.replace(row, possible=False, reason="not tried: an earlier step failed"))
                continue
            reason = step.why_not or await self._take_back(conversation, step)
            done.append(msgspec.structs.replace(row, possible=not reason, reason=reason))
            stopped = stopped or (bool(reason) and not step.why_not and not go_on)
        return RollbackDone(conversation.id, done, complete=all(each.possible for each in done))

    async def _take_back(self, conversation: Conversation, step: _Step) -> str:
        """Send one step, and move the head if the server succeeds. Returns the reason of a failure."""
        (server, feature_set), target = step.place, step.target or ""
        journal, recorder = self._hub_app.journal, self._hub_app.recorder
        whose = {"agent": conversation.principal.id, "conversation": conversation.id}
        journal.live_rollback(server, feature_set, target, "asked", **whose)
        await recorder.flushed()  # The audit log has the step before it is sent.
        try:
            live = self._connection(conversation, server)
            params = msgspec.json.encode(RollbackParams(feature_set, target))
            answer = await live.connection.request(METHOD, params, timeout=ANSWER_S, idempotent=False)
            result = decode(RollbackResult, answer, "result")
            reason = "" if result.success else result.reason or "the server did not say why"
            if result.success and result.checkpoint != target:
                reason = f"the server says that it went back to {result.checkpoint}"
            if not reason:
                tree = step.kept.tree
                moved = roll_back(tree, target) if target in tree.checkpoints else _before(tree, target)
                kept = msgspec.structs.replace(step.kept, tree=moved)
                await self._states.put(conversation.id, conversation.principal.id, step.place, kept)
        except Fault as fault:
            reason = fault.message or fault.name
        journal.live_rollback(server, feature_set, target, "failed" if reason else "done", reason, **whose)
        return reason[:500]

    async def _steps(self, conversation: Conversation, first: int) -> list[_Step]:
        """The trees that changed from this turn on, the newest first."""
        trees = await self._states.trees(conversation.id)
        for server in {server for server, _ in trees}:
            with contextlib.suppress(Fault):  # The step reports the missing connection.
                await self._own_connections.open(server, conversation.principal)
        changed = [(place, kept) for place, kept in trees.items() if _changed(kept, first)]
        return [self._step(conversation, place, kept, first) for place, kept in changed]

    def _step(self, conversation: Conversation, place: TreeKey, kept: KeptTree, first: int) -> _Step:
        server, feature_set = place
        target, tree = _target(kept, first), kept.tree
        if target is None:
            dropped = any(id_ not in tree.checkpoints for id_ in kept.turns)
            why = "the checkpoint before these turns is no longer kept" if dropped else NO_CHECKPOINT
            return _Step(place, kept, None, why)
        try:
            live = self._connection(conversation, server)
            state = live.for_agent(self._hub_app.live.features, conversation.principal.id)
            check_outgoing(state, METHOD)
            check_tool_call(state, feature_set, scoped=False, rollback=True)
        except Fault as fault:
            return _Step(place, kept, target, fault.message)
        known = tree.checkpoints.get(target)
        opaque = known is None or known.opaque
        if opaque and live.agent is None:
            why = f'only the server knows {target}, on a connection that agents share; set share = "principal"'
            return _Step(place, kept, target, why)
        return _Step(place, kept, target, "")

    def _connection(self, conversation: Conversation, server: str) -> LiveConnection:
        for live in self._hub_app.live.connections.of_agent(conversation.principal.id):
            if live.server == server:
                return live
        raise Fault("UPSTREAM_UNAVAILABLE", f"the server {server} is not connected, or does not speak MCPL")

    async def _lasting(self, conversation: Conversation, first: int, steps: list[_Step]) -> list[LastingCall]:
        """The tool calls of these turns that may have had an effect and that no step covers."""
        shown = {step.place for step in steps}
        turns = await self._conversations.turns(conversation.stored, first=first)
        calls: list[LastingCall] = []
        for turn in turns:
            for message, answer in zip_longest(turn.messages, turn.messages[1:]):
                results = () if answer is None else answer.parts
                refused = {part.id for part in results if isinstance(part, ModelToolResult) and part.refused}
                uses = [part for part in message.parts if isinstance(part, ToolUse) and part.id not in refused]
                calls += [LastingCall(turn.stored.index, use.name) for use in uses]
        return [call for call in calls if self._place(call.tool) not in shown][:MAX_CALLS]

    def _place(self, name: str) -> TreeKey | None:
        """The server and the feature set of a tool; None if it has no feature set or is not offered now."""
        tool = self._hub_app.catalog.tool(View(), name)
        if tool is None:
            return None
        settings = self._hub_app.config.servers.get(tool.server)
        feature = feature_of(Target("tool", tool.server, tool.name, tool), settings)
        return None if feature is None else (tool.server, feature)

    def _first(self, conversation: Conversation, before: int | None) -> int:
        turns = conversation.stored.turns
        if turns == 0 or (before is not None and before >= turns):
            raise Fault(
                "INVALID_PARAMS", f"the turns of the conversation are 0 to {turns - 1}" if turns else "it has no turns"
            )
        return turns - 1 if before is None else before


def _changed(kept: KeptTree, first: int) -> bool:
    """Whether the path to the head contains a checkpoint of these turns."""
    return any(kept.turns.get(id_, -1) >= first for id_ in _path(kept.tree))


def _target(kept: KeptTree, first: int) -> str | None:
    """The checkpoint to go back to: the newest one on the path before these turns."""
    last: str | None = None
    for id_ in _path(kept.tree):
        if kept.turns.get(id_, -1) < first:
            return id_
        last = kept.tree.checkpoints[id_].parent
    # A checkpoint of these turns may have been dropped below the oldest kept one. Then going there is not enough.
    return None if last is None or kept.turns.get(last, -1) >= first else last


def _path(tree: CheckpointTree) -> list[str]:
    """The checkpoints from the head to the oldest known one."""
    path: list[str] = []
    at = tree.head
    while at is not None and at in tree.checkpoints and at not in path:
        path.append(at)
        at = tree.checkpoints[at].parent
    return path


def _before(tree: CheckpointTree, target: str) -> CheckpointTree:
    """The tree after a rollback to a checkpoint that only the server knows."""
    return CheckpointTree(tree.checkpoints, target)
