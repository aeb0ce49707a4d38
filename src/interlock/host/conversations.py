"""The stored conversations of a hub: creates, loads, bounds and deletes them.

Rule: a conversation keeps the principal that it began with. No message in it changes the rights of its turns.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from interlock.config.model_settings import HostSettings
from interlock.host.models.model import ModelMessage
from interlock.host.turn_leases import TurnLeases
from interlock.hub import repeated_commits
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.conversation_documents import (
    CONVERSATIONS,
    INFERENCES,
    TURN_LEASES,
    TURNS,
    StoredConversation,
    StoredInference,
    StoredTurn,
    day_of,
    turn_id,
)
from interlock.hub.live.channels import CHANNEL_CONVERSATIONS
from interlock.hub.live.server_states import STATE_TREES
from interlock.hub.store_faults import as_faults, fault_of
from interlock.protocols.mcpl.content import TextContent
from interlock.protocols.mcpl.injections import SystemPrefix
from interlock.store import Conflict, Document, StoreError, Transaction, documents
from interlock.store.documents import AnyCollection
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault

MAX_CONVERSATIONS: Final = 100_000
"""Conversations of one hub."""
MAX_TURNS: Final = 10_000
"""Turns of one conversation."""
MAX_TURN_BYTES: Final = 2 * 1024 * 1024
"""Bytes of the messages of one turn."""
DAY_S: Final = 86_400.0
PARTS: Final[tuple[AnyCollection, ...]] = (TURNS, STATE_TREES, CHANNEL_CONVERSATIONS)
"""The collections with parts of a conversation, which are deleted with it."""
DELETE_ATTEMPTS: Final = 5
"""How often the hub tries to delete a conversation that keeps changing."""
SEALED_HERE: Final = 8 * 1024
"""Up to this many characters are sealed or opened on the loop, in a tenth of a millisecond. A thread costs more."""
AT_ONCE: Final = 50
"""Conversations deleted at once."""
T = TypeVar("T")


class StablePrefix(msgspec.Struct, frozen=True):
    """The stable beginning of every prompt of a conversation. It is sealed in the store."""

    system: str = ""
    prefix: SystemPrefix = SystemPrefix()


class Conversation(msgspec.Struct, frozen=True):
    """A conversation with its decrypted parts."""

    stored: StoredConversation
    stable: StablePrefix
    version: int

    @property
    def id(self) -> str:
        return self.stored.id

    @property
    def principal(self) -> Principal:
        """The principal whose rights its turns have."""
        return self.stored.principal


class RecordedTurn(msgspec.Struct, frozen=True):
    """A turn with its decrypted messages."""

    stored: StoredTurn
    messages: tuple[ModelMessage, ...]
    size: int
    """Characters of its messages as they are stored."""


class Conversations:
    """All conversations, in the store."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._encryption = Encryption(hub_app.keys.derived(b"conversations"))
        self.leases = TurnLeases(hub_app)

    async def create(self, principal: Principal, model: str) -> Conversation:
        """Create a conversation of a principal. At the limit, the agent's least recently used one is deleted."""
        at, settings = time.time(), self._settings
        id_ = f"conv_{secrets.token_hex(12)}"
        stable = StablePrefix(system=settings.system)
        stored = StoredConversation(
            id_, principal.id, principal.kind, principal.profile, principal.key, model, at, at,
            sealed=self._seal(stable, id_),
        )  # fmt: skip
        mine = await self.of_agent(principal.id)
        surplus = [each.id for each in sorted(mine, key=lambda each: each.updated)[: len(mine) + 1 - self._bound]]
        await self._delete(surplus[:AT_ONCE])
        try:
            async with self._hub_app.store.transaction() as transaction:
                transaction.insert(CONVERSATIONS, stored)
        except StoreError as cause:
            raise fault_of(cause) from None
        return Conversation(stored, stable, 1)

    async def get(self, id: str) -> Conversation:
        """A conversation by its id. Raises NOT_FOUND."""
        found = await self._hub_app.store.get(CONVERSATIONS, id) if 0 < len(id) <= 100 else None
        if found is None:
            hint = "`interlock conversations` lists them"
            raise Fault("NOT_FOUND", f"there is no conversation {id[:100]!r}", hint=hint)
        stable = self._open(found.value.sealed, id, StablePrefix)
        return Conversation(found.value, stable, found.version)

    async def of_agent(self, agent: str | None = None) -> list[StoredConversation]:
        """The conversations of one agent or of all, newest first."""
        columns = {} if agent is None else {"agent": agent}
        found = await self._hub_app.store.find(CONVERSATIONS, **columns)
        return sorted((document.value for document in found), key=lambda each: -each.updated)

    async def turns(self, conversation: StoredConversation, *, first: int = 0) -> list[RecordedTurn]:
        """The turns of a conversation from one on, oldest first."""
        found = await self._hub_app.store.find(TURNS, conversation=conversation.id)
        stored = [document.value for document in found if document.value.index >= first]
        if sum(len(turn.sealed) for turn in stored) <= SEALED_HERE:
            return [self._recorded(turn) for turn in stored]
        # Decrypting a long conversation takes a while.
        return await asyncio.to_thread(lambda: [self._recorded(turn) for turn in stored])

    async def with_turn(
        self, id: str, turn: str
    ) -> tuple[Document[StoredConversation] | None, Document[StoredTurn] | None]:
        """A stored conversation and one of its turns, in one read."""
        return await self._hub_app.store.read(
            lambda database: (documents.get(database, CONVERSATIONS, id), documents.get(database, TURNS, turn))
        )

    async def begin(self, conversation: Conversation, turn: StoredTurn, messages: Iterable[ModelMessage]) -> int:
        """Store a turn that begins, and the conversation with its model. Returns the version of the turn.

        Raises a `Fault`, without changes, if another turn began meanwhile or runs at another hub.
        """
        sealed = await self._sealed(messages, turn.id)
        stored = msgspec.structs.replace(conversation.stored, updated=turn.at, turns=turn.index + 1)
        try:
            async with self._hub_app.store.transaction() as transaction:
                transaction.expect(CONVERSATIONS, conversation.id, conversation.version)
                await self.leases.take(transaction, turn)
                transaction.put(CONVERSATIONS, stored)
                transaction.insert(TURNS, msgspec.structs.replace(turn, sealed=sealed))
        except Conflict:
            raise Fault("RESOURCE_EXHAUSTED", "another turn of this conversation has begun meanwhile") from None
        except StoreError as cause:
            raise fault_of(cause) from None
        return transaction.versions[TURNS.name, turn.id]

    async def save(
        self, conversation: Conversation, turn: StoredTurn, version: int, messages: Iterable[ModelMessage], cost: float
    ) -> int:
        """Store the current state of a turn. Returns its next version."""
        sealed = await self._sealed(messages, turn.id)
        try:
            async with self._hub_app.store.transaction() as transaction:
                transaction.expect(TURNS, turn.id, version)
                transaction.put(TURNS, msgspec.structs.replace(turn, sealed=sealed))
                transaction.put(INFERENCES, _inference(conversation, turn, cost))
        except Conflict:
            raise Fault("NOT_FOUND", "the conversation was deleted") from None
        except StoreError as cause:
            raise fault_of(cause) from None
        return transaction.versions[TURNS.name, turn.id]

    async def commit(
        self, conversation: Conversation, turn: StoredTurn, messages: Iterable[ModelMessage], cost: float
    ) -> Conversation:
        """Store a turn that has ended, and its conversation. Raises NOT_FOUND if the conversation was deleted."""
        id_ = conversation.id
        sealed = await self._sealed(messages, turn.id)

        async def write(transaction: Transaction) -> tuple[StoredConversation, Transaction]:
            # A turn keeps its index, so another change of the conversation does not lose the turn.
            found, begun = await self.with_turn(id_, turn.id)
            if found is None or begun is None or begun.value.inference != turn.inference:
                raise Fault("NOT_FOUND", "the conversation was deleted")
            stored = msgspec.structs.replace(
                found.value, updated=turn.at, first=conversation.stored.first,
                sealed=self._seal(conversation.stable, id_),
            )  # fmt: skip
            transaction.expect(CONVERSATIONS, id_, found.version)
            transaction.expect(TURNS, turn.id, begun.version)
            await self.leases.give_back(transaction, turn)
            transaction.put(CONVERSATIONS, stored)
            transaction.put(TURNS, msgspec.structs.replace(turn, sealed=sealed))
            transaction.put(INFERENCES, _inference(conversation, turn, cost))
            transaction.record(self._hub_app.journal.turn(conversation.principal, turn))
            return stored, transaction

        with as_faults():
            stored, committed = await repeated_commits.commit(self._hub_app.store, write)
        return Conversation(stored, conversation.stable, committed.versions[CONVERSATIONS.name, id_])

    async def delete(self, id: str) -> bool:
        """Delete a conversation and its turns. False if there is none."""
        if await self._hub_app.store.get(CONVERSATIONS, id) is None:
            return False
        await self._delete([id])
        return True

    async def sweep(self) -> None:
        """Delete conversations that are older than the configuration keeps them."""
        expired = time.time() - self._settings.keep_days * DAY_S
        try:
            old = [each.id for each in await self.of_agent() if each.updated < expired]
            await self._delete(old[:AT_ONCE])
        except StoreError as cause:
            self._hub_app.logs.add("hub", "hub", f"old conversations could not be deleted: {cause.for_operators}")

    async def _delete(self, ids: list[str]) -> None:
        for id_ in ids:
            for _ in range(DELETE_ATTEMPTS):
                if await self._delete_whole(id_):
                    break
            else:
                raise Fault("RESOURCE_EXHAUSTED", f"the conversation {id_} keeps changing", hint="stop its turn")

    async def _delete_whole(self, id: str) -> bool:
        """Delete a conversation with its parts. False if it changed meanwhile, for example because a turn began."""
        store = self._hub_app.store
        found = await store.get(CONVERSATIONS, id)
        if found is None:
            return True
        parts = [(each, await store.find(each, conversation=id)) for each in PARTS]
        try:
            async with store.transaction() as transaction:
                transaction.expect(CONVERSATIONS, id, found.version)
                transaction.delete(CONVERSATIONS, id)
                transaction.delete(TURN_LEASES, id)
                for collection, found_parts in parts:
                    for document in found_parts:
                        transaction.delete(collection, document.key)
        except Conflict:
            return False
        return True

    @property
    def _settings(self) -> HostSettings:
        return self._hub_app.config.host

    @property
    def _bound(self) -> int:
        return min(self._settings.conversations_per_agent, MAX_CONVERSATIONS)

    def _recorded(self, turn: StoredTurn) -> RecordedTurn:
        return RecordedTurn(turn, self._open(turn.sealed, turn.id, tuple[ModelMessage, ...]), len(turn.sealed) * 3 // 4)

    async def _sealed(self, messages: Iterable[ModelMessage], bound_to: str) -> str:
        """The sealed messages of a turn. A turn with tool results or media may take a while, so a thread seals it."""
        given = tuple(messages)
        sizes = [
            len(part.text) if isinstance(part, TextContent) else SEALED_HERE for each in given for part in each.parts
        ]
        if sum(sizes) < SEALED_HERE:
            return self._seal(given, bound_to)
        return await asyncio.to_thread(self._seal, given, bound_to)

    def _seal(self, value: object, bound_to: str) -> str:
        return self._encryption.seal(msgspec.json.encode(value).decode(), bound_to)

    def _open(self, sealed: str, bound_to: str, kind: type[T]) -> T:
        text = self._encryption.open(sealed, bound_to)
        if text is None:
            hint = "restore the hub's key with the store it belongs to"
            raise Fault("INTERNAL_ERROR", f"{bound_to} cannot be opened with this hub's key", hint=hint)
        return msgspec.json.decode(text, type=kind)


def _inference(conversation: Conversation, turn: StoredTurn, cost: float) -> StoredInference:
    """The record of a turn for the usage count."""
    return StoredInference(
        turn.inference, turn.at, day_of(turn.at), turn.model, conversation.stored.agent, turn.input_tokens_count,
        turn.output_tokens_count, cost, conversation=conversation.id, error=turn.error[:500],
    )  # fmt: skip


def next_turn_id(conversation: Conversation) -> str:
    """The key of the turn that follows. Raises QUOTA_EXCEEDED for a conversation that is full."""
    if conversation.stored.turns >= MAX_TURNS:
        raise Fault("QUOTA_EXCEEDED", f"a conversation has at most {MAX_TURNS} turns", hint="begin a new one")
    return turn_id(conversation.id, conversation.stored.turns)
