"""The state that servers leave with conversations: loaded for each call, taken from each result, kept in the store.

An invalid state (a patch that does not apply, an unknown parent, too much data) is refused and recorded. The model gets
the tool's result in any case.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import msgspec

from interlock.host.turn import Turn
from interlock.hub.app import HubApp
from interlock.hub.live.server_states import STATE_TREES, CallStates, StoredTree, TreeKey, tree_id
from interlock.hub.store_faults import fault_of
from interlock.protocols.mcpl.checkpoints import CheckpointTree, read_state, record
from interlock.store import StoreError
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault


class KeptTree(msgspec.Struct, frozen=True):
    """A decrypted tree: its checkpoints, and the turn of each."""

    tree: CheckpointTree = CheckpointTree()
    turns: Mapping[str, int] = {}
    """The turn of each checkpoint, and of the newest that was dropped from the path."""


class ConversationStates:
    """The trees of all conversations of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._encryption = Encryption(hub_app.keys.derived(b"state_trees"))

    async def trees(self, conversation: str) -> dict[TreeKey, KeptTree]:
        """The trees of a conversation, the one that changed last first."""
        found = await self._hub_app.store.find(STATE_TREES, conversation=conversation)
        stored = sorted((document.value for document in found), key=lambda each: -each.updated)
        # Decrypting a large tree takes a while.
        return await asyncio.to_thread(lambda: {(each.server, each.feature_set): self._open(each) for each in stored})

    async def for_call(self, turn: Turn) -> CallStates:
        """The states that a call of this turn may carry."""
        kept = await self.trees(turn.conversation.id)
        return CallStates({place: each.tree for place, each in kept.items()})

    async def take(self, turn: Turn, states: CallStates) -> None:
        """Store the state that a call's result reports. An invalid state is recorded as refused."""
        if states.used is None or not states.reported:
            return
        server, feature_set = states.used
        conversation = turn.conversation
        try:
            report = read_state(states.reported)
            if report is None:
                return
            kept = (await self.trees(conversation.id)).get(states.used, KeptTree())
            grown = await asyncio.to_thread(record, kept.tree, report)
            # Keep the turn of a dropped parent, too: a rollback must know whether it is older than a turn.
            known = grown.checkpoints.keys() | {each.parent for each in grown.checkpoints.values()}
            turns = {id_: at for id_, at in kept.turns.items() if id_ in known}
            made = KeptTree(grown, {**turns, report.checkpoint: turn.index})
            await self.put(conversation.id, conversation.principal.id, states.used, made)
        except Fault as fault:
            self._hub_app.live.refusals.add(server, "tools/call state", feature_set, "", fault)

    async def put(self, conversation: str, agent: str, place: TreeKey, kept: KeptTree) -> None:
        """Store a tree. Raises a `Fault`."""
        id_ = tree_id(conversation, *place)
        sealed = await asyncio.to_thread(lambda: self._encryption.seal(msgspec.json.encode(kept).decode(), id_))
        stored = StoredTree(id_, conversation, agent, *place, updated=time.time(), sealed=sealed)
        try:
            async with self._hub_app.store.transaction() as transaction:
                transaction.put(STATE_TREES, stored)
        except StoreError as cause:
            raise fault_of(cause) from None

    def _open(self, stored: StoredTree) -> KeptTree:
        text = self._encryption.open(stored.sealed, stored.id)
        if text is None:
            hint = "restore the hub's key with the store it belongs to"
            raise Fault("INTERNAL_ERROR", "a state cannot be opened with this hub's key", hint=hint)
        return msgspec.json.decode(text, type=KeptTree)
