"""State that a server leaves with its host (MCPL, State Management): a tree of checkpoints, as a value.

A checkpoint has its whole state, a patch against its parent, or no readable state. Rolling back moves the head, and a
later checkpoint branches off there. At a bound, the oldest abandoned branches are dropped first, then the oldest
checkpoints of the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from interlock.protocols.mcpl.decoding import Line, Name, Value, decode, wrong_shape
from interlock.protocols.mcpl.patches import (
    DEFAULT,
    Operation,
    PatchLimits,
    apply_patch,
    encode_document,
)
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS

MAX_CHECKPOINTS: Final = 256
MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all checkpoints of one tree."""
SNAPSHOT_EVERY: Final = 16
"""After this many consecutive patches, a checkpoint has its whole state, so that replaying stays short."""


class StateReport(Value, frozen=True):
    """The `state` of a result: the id of a checkpoint, and optionally its data or patch."""

    checkpoint: Name
    parent: Name | None = None
    data: Any = msgspec.UNSET
    patch: tuple[Operation, ...] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.data is not msgspec.UNSET and self.patch is not msgspec.UNSET:
            raise ValueError("a state has either `data` or `patch`")
        if self.patch is not msgspec.UNSET and self.parent is None:
            raise ValueError("a `patch` needs a `parent`")
        if self.checkpoint == self.parent:
            raise ValueError("a checkpoint is not its own parent")


class RollbackParams(Value, frozen=True):
    """The params of `state/rollback`."""

    feature_set: Name
    checkpoint: Name


class RollbackResult(Value, frozen=True):
    """The answer to `state/rollback`."""

    checkpoint: Name
    success: bool
    reason: Line | None = None


class Checkpoint(msgspec.Struct, frozen=True):
    """One node of the tree."""

    id: str
    parent: str | None = None
    data: bytes | None = None
    """The whole state, encoded."""
    patch: tuple[Operation, ...] | None = None
    since_snapshot: int = 0
    size: int = 0

    @property
    def opaque(self) -> bool:
        """Whether only the server knows the state."""
        return self.data is None and self.patch is None


class CheckpointTree(msgspec.Struct, frozen=True):
    """The checkpoints of one feature set in one conversation, oldest first, and the current one."""

    checkpoints: Mapping[str, Checkpoint] = {}
    head: str | None = None
    head_state: bytes | None = None
    """The state at the head, so that only a rollback replays patches."""

    def get(self, id: str) -> Checkpoint:
        """A checkpoint. Raises CHECKPOINT_NOT_FOUND."""
        found = self.checkpoints.get(id)
        if found is None:
            raise Fault("CHECKPOINT_NOT_FOUND", "Checkpoint not found", data={"checkpoint": id})
        return found

    def state_at(self, id: str, limits: PatchLimits = DEFAULT) -> bytes | None:
        """The state at a checkpoint, replayed from the nearest whole state; None if only the server knows it."""
        if id == self.head:
            return self.head_state
        patches: list[tuple[Operation, ...]] = []
        node = self.get(id)
        while node.data is None:
            if node.patch is None or node.parent is None:
                return None
            patches.append(node.patch)
            node = self.get(node.parent)
        state = node.data
        for patch in reversed(patches):
            state = apply_patch(state, patch, limits)
        return state

    def request_members(self) -> dict[str, object]:
        """The members of the next `tools/call`: `state`, or `checkpoint`, or none (MCPL, State in Requests)."""
        if self.head is None:
            return {}
        return {"checkpoint": self.head} if self.head_state is None else {"state": msgspec.Raw(self.head_state)}


def read_state(result: bytes) -> StateReport | None:
    """The `state` of a tool's result; None without one. Raises INVALID_PARAMS or TOO_LARGE."""
    try:
        raw = msgspec.json.decode(result, type=_Stateful).state
    except JSON_ERRORS as cause:
        raise wrong_shape(str(cause), "result") from None
    return None if isinstance(raw, msgspec.UnsetType) else decode(StateReport, bytes(raw), "state")


def record(tree: CheckpointTree, report: StateReport, limits: PatchLimits = DEFAULT) -> CheckpointTree:
    """The tree with a new checkpoint as its head. Raises for an unknown parent, a known id, or a patch that fails."""
    if report.checkpoint in tree.checkpoints:
        raise Fault("INVALID_PARAMS", "state.checkpoint: this id was used already", data={"field": "state.checkpoint"})
    checkpoint, state = _checkpoint(tree, report, limits)
    kept = _within_bounds({**tree.checkpoints, report.checkpoint: checkpoint}, report.checkpoint, limits)
    return CheckpointTree(kept, report.checkpoint, state)


def roll_back(tree: CheckpointTree, id: str) -> CheckpointTree:
    """The tree with its head at an earlier checkpoint. Raises CHECKPOINT_NOT_FOUND."""
    return CheckpointTree(tree.checkpoints, tree.get(id).id, tree.state_at(id))


def _checkpoint(tree: CheckpointTree, report: StateReport, limits: PatchLimits) -> tuple[Checkpoint, bytes | None]:
    """A new checkpoint and the state at it."""
    if report.data is not msgspec.UNSET:
        data = encode_document(report.data, limits)
        return Checkpoint(report.checkpoint, report.parent, data, size=len(data)), data
    if isinstance(report.patch, msgspec.UnsetType):
        return Checkpoint(report.checkpoint, report.parent), None
    parent = tree.get(report.parent or "")
    before = tree.state_at(parent.id, limits)
    if before is None:
        raise Fault(
            "INVALID_PARAMS", "state.patch: the state at its parent is not known here", data={"field": "state.patch"}
        )
    after = apply_patch(before, report.patch, limits)
    size = len(msgspec.json.encode(report.patch))
    if parent.since_snapshot + 1 >= SNAPSHOT_EVERY or size >= len(after):
        return Checkpoint(report.checkpoint, parent.id, after, size=len(after)), after
    return Checkpoint(report.checkpoint, parent.id, None, report.patch, parent.since_snapshot + 1, size), after


def _within_bounds(kept: dict[str, Checkpoint], head: str, limits: PatchLimits) -> dict[str, Checkpoint]:
    """Drop surplus checkpoints. A checkpoint whose parent is dropped gets its whole state first."""
    total = sum(checkpoint.size for checkpoint in kept.values())
    children: dict[str | None, int] = {}
    for checkpoint in kept.values():
        children[checkpoint.parent] = children.get(checkpoint.parent, 0) + 1
    while len(kept) > 1 and (len(kept) > MAX_CHECKPOINTS or total > MAX_BYTES):
        leaf = next((known for known in kept if known != head and not children.get(known)), None)
        oldest = next(iter(kept))
        if leaf is None:
            # If the head is the only leaf, the tree is one chain, so the oldest checkpoint has one child.
            child = next(checkpoint for checkpoint in kept.values() if checkpoint.parent == oldest)
            whole = _made_whole(kept, child, limits)
            total += whole.size - child.size
            kept[child.id] = whole
        dropped = kept.pop(oldest if leaf is None else leaf)
        children[dropped.parent] = children.get(dropped.parent, 1) - 1
        total -= dropped.size
    return kept


def _made_whole(kept: Mapping[str, Checkpoint], child: Checkpoint, limits: PatchLimits) -> Checkpoint:
    if child.patch is None:
        return child
    state = CheckpointTree(kept).state_at(child.id, limits)
    return Checkpoint(child.id, child.parent, state, size=len(state or b""))


class _Stateful(msgspec.Struct):
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
