"""The host of one hub: begins and continues conversations, one turn at a time in each.

A turn runs to its end whether or not anybody reads it. Its pieces are kept for a while, for readers that come back.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.config.model_settings import ADD_MODEL, NO_MODEL
from interlock.host.channel_turns import ChannelPlaces
from interlock.host.channels import ChannelConversations
from interlock.host.client_pushes import ClientPushes
from interlock.host.client_turns import HookedClientTurns
from interlock.host.conversations import Conversation, Conversations, RecordedTurn
from interlock.host.hooks import Hooks
from interlock.host.inference import ServerInference
from interlock.host.models.model import ModelMessage, ModelToolResult, ToolUse
from interlock.host.models.models import Models
from interlock.host.rollback import Rollbacks
from interlock.host.room_conversations import RoomConversations, Rooms
from interlock.host.server_hooks import ServerHooks
from interlock.host.states import ConversationStates
from interlock.host.tools import Tools
from interlock.host.turn import Turn, TurnPiece
from interlock.host.turns import Turns
from interlock.hub.admin.conversations import (
    MAX_TEXT,
    ConversationRow,
    MessageRow,
    PieceRow,
    Pieces,
    SendMessage,
    Sent,
    ShownConversation,
    TurnRow,
)
from interlock.hub.admin.rollback import RollbackDone, RollbackPlan
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.conversation_documents import StoredConversation
from interlock.protocols.mcpl.content import TextContent
from interlock.protocols.mcpl.injections import SourcedInjection, content_without_label
from interlock.wire.errors import Fault

MAX_RUNNING: Final = 64
"""Turns that run at a time."""
KEPT_TURNS: Final = 128
"""Turns whose pieces are kept, those that run included."""
SWEEP_EVERY_S: Final = 3600.0


class Host:
    """Conversations with the models of one hub (`hub.admin.conversations.ConversationHost`)."""

    def __init__(self, hub_app: HubApp, hooks: Hooks | None = None, rooms: Rooms | None = None) -> None:
        self._hub_app = hub_app
        self.models = Models(lambda: hub_app.config.models, hub_app.resolver)
        self.conversations = Conversations(hub_app)
        self._inference = ServerInference(hub_app, self.models, self.conversations)
        self.states = ConversationStates(hub_app)
        self._rollbacks = Rollbacks(hub_app, self.conversations, self.states)
        self._rolling_back: set[str] = set()
        places = ChannelPlaces()
        servers = ServerHooks(hub_app, places)
        self._client_turns = HookedClientTurns(servers)
        self._turns = Turns(hub_app, self.conversations, Tools(hub_app), self.states, hooks or servers)
        self._channels = ChannelConversations(hub_app, self, places)
        self._pushes = ClientPushes(hub_app)
        self._rooms = RoomConversations(hub_app, self._channels, rooms)
        self._recent_turns: OrderedDict[tuple[str, int], Turn] = OrderedDict()
        self.running: dict[str, tuple[Turn, asyncio.Task[Conversation]]] = {}
        """By conversation. A turn that has ended is no longer in the way of the next."""

    async def start(self) -> None:
        """Begin to take inferences of servers, and to delete old data. Called after the hub has started."""
        await self._inference.start()
        self._hub_app.maintain(self.conversations.sweep, SWEEP_EVERY_S)
        self._channels.start()
        self._pushes.start()
        self._rooms.start()
        self._hub_app.hub.client_hooks.open(self._client_turns)
        self._hub_app.maintain(self._inference.sweep, SWEEP_EVERY_S)

    async def close(self) -> None:
        """Stop every turn. The store keeps what each has done."""
        await self._rooms.close()
        await self._channels.close()
        await self._pushes.close()
        await self._client_turns.close()
        tasks = [task for _, task in self.running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._inference.close()
        await self.models.close()

    async def create(self, principal: Principal = LOCAL_AGENT, model: str | None = None) -> Conversation:
        """Create a conversation. Its tool calls are made as this principal."""
        name = model or self._default_model()
        self.models.settings(name)
        return await self.conversations.create(principal, name)

    async def send(
        self,
        conversation: Conversation | str,
        text: str | None,
        context: tuple[SourcedInjection, ...] = (),
        model: str | None = None,
        *,
        calls_wait: bool = False,
    ) -> Turn:
        """Begin a turn, and return when it is in the store. Iterate it for its pieces, or await its `answer`.

        `text` is None for a turn that no user began; `context` then says why it begins. `model` replaces the model of
        the conversation. With `calls_wait`, the turn makes no call before `Turn.let_call`.
        Raises a `Fault`, without changes, for example while another turn of this conversation runs.
        """
        id_ = conversation if isinstance(conversation, str) else conversation.id
        if text is None and not context:
            raise Fault("INVALID_PARAMS", "a turn needs a message or context")
        if text is not None and len(text) > MAX_TEXT:
            raise Fault("TOO_LARGE", f"a message has at most {MAX_TEXT} characters")
        self._check_free(id_)
        found = await self.conversations.get(id_)
        if model is not None:
            self.models.settings(model)
            found = msgspec.structs.replace(found, stored=msgspec.structs.replace(found.stored, model=model))
        turn = Turn(found, text, self.models.get(found.stored.model), context, calls_wait=calls_wait)
        self._check_free(id_)
        task = asyncio.ensure_future(self._turns.run(turn))
        self.running[id_] = (turn, task)
        task.add_done_callback(lambda _: self._forget(turn))
        self._keep(turn)
        try:
            await turn.begun()
        except Fault:
            self._recent_turns.pop((id_, turn.index), None)
            raise
        return turn

    async def idle(self, conversation: str, within_s: float) -> None:
        """Wait until no turn of a conversation runs, or the time is up."""
        running = self.running.get(conversation)
        if running is not None:
            await asyncio.wait([running[1]], timeout=within_s)

    # Operations

    async def say(self, principal: Principal, params: SendMessage) -> Sent:
        """Begin a turn, in a new conversation as this principal."""
        if params.conversation is None:
            conversation = await self.create(principal, params.model)
        else:
            conversation = await self.conversations.get(params.conversation)
            if params.agent is not None and params.agent != conversation.stored.agent:
                message = f"the conversation belongs to {conversation.stored.agent}, and stays with it"
                raise Fault("ACCESS_DENIED", message, hint="begin a new one for another agent")
        turn = await self.send(conversation, params.text, model=params.model)
        stored = turn.conversation.stored
        return Sent(stored.id, turn.index, stored.model, stored.agent)

    async def read(self, conversation: str, turn: int, after: int, wait_s: float) -> Pieces:
        """The next pieces of a turn."""
        found = self._recent_turns.get((conversation, turn))
        if found is None:
            hint = "`interlock conversations show` has what was said"
            raise Fault("NOT_FOUND", f"turn {turn} of {conversation} is not under way", hint=hint)
        pieces = await found.read(after, wait_s)
        ended = found.ended and after + len(pieces) == len(found.pieces)
        return Pieces([PieceRow(**msgspec.structs.asdict(piece)) for piece in pieces], ended)

    async def stop(self, conversation: str) -> bool:
        """Stop the running turn."""
        turn, task = self.running.get(conversation, (None, None))
        if turn is None or task is None or turn.ended:
            return False
        task.cancel()
        await asyncio.wait([task])
        return True

    async def rows(self, agent: str | None, most: int) -> list[ConversationRow]:
        """Conversations, newest first."""
        return [_row(stored) for stored in (await self.conversations.of_agent(agent))[:most]]

    async def show(self, conversation: str) -> ShownConversation:
        """A whole conversation."""
        found = await self.conversations.get(conversation)
        turns = await self.conversations.turns(found.stored)
        running = self.running.get(conversation)
        under_way = None if running is None or running[0].ended else running[0].index
        rows = [_turn_row(turn, ended=turn.stored.index != under_way) for turn in turns]
        return ShownConversation(_row(found.stored), rows)

    async def delete(self, conversation: str) -> bool:
        """Delete a conversation, and stop its turn first."""
        await self.stop(conversation)
        return await self.conversations.delete(conversation)

    async def plan_rollback(self, conversation: str, turn: int | None) -> RollbackPlan:
        """List the changes that would be taken back, and those that cannot be."""
        return await self._rollbacks.plan(await self.conversations.get(conversation), turn)

    async def roll_back(self, conversation: str, turn: int | None, plan: str, *, go_on: bool) -> RollbackDone:
        """Run a rollback. No turn of the conversation begins meanwhile."""
        self._check_free(conversation)
        self._rolling_back.add(conversation)
        try:
            return await self._rollbacks.run(await self.conversations.get(conversation), turn, plan, go_on=go_on)
        finally:
            self._rolling_back.discard(conversation)

    def _default_model(self) -> str:
        names, chosen = self.models.names, self._hub_app.config.host.model
        if chosen is not None:
            return chosen
        if len(names) == 1:
            return names[0]
        if not names:
            raise Fault("NOT_FOUND", NO_MODEL, hint=ADD_MODEL)
        raise Fault(
            "INVALID_PARAMS", f"several models are configured: {', '.join(names)}", hint="set `model` in [host]"
        )

    def _check_free(self, conversation: str) -> None:
        if conversation in self._rolling_back:
            raise Fault("RESOURCE_EXHAUSTED", "this conversation is being rolled back", retry_after_ms=1000)
        running = self.running.get(conversation)
        if running is not None and not running[0].ended:
            message = "a turn of this conversation is under way"
            raise Fault("RESOURCE_EXHAUSTED", message, hint="wait for it, or stop it", retry_after_ms=1000)
        if len(self.running) >= MAX_RUNNING:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_RUNNING} turns are under way", retry_after_ms=1000)

    def _forget(self, turn: Turn) -> None:
        """Forget a turn that is over, unless the next turn of its conversation has replaced it."""
        turn.begin(Fault("CANCELLED", "the turn was stopped"))  # It may have been stopped before it began.
        if not turn.ended:
            turn.add(TurnPiece("error", "the turn was stopped before its end was stored", "CANCELLED", failed=True))
        running = self.running.get(turn.conversation.id)
        if running is not None and running[0] is turn:
            del self.running[turn.conversation.id]

    def _keep(self, turn: Turn) -> None:
        self._recent_turns[turn.conversation.id, turn.index] = turn
        while len(self._recent_turns) > KEPT_TURNS:
            ended = next((key for key, each in self._recent_turns.items() if each.ended), None)
            if ended is None:
                break
            del self._recent_turns[ended]


def _row(stored: StoredConversation) -> ConversationRow:
    at = [datetime.fromtimestamp(moment, UTC) for moment in (stored.created, stored.updated)]
    return ConversationRow(stored.id, stored.agent, stored.model, stored.turns, *at)


def _turn_row(turn: RecordedTurn, *, ended: bool) -> TurnRow:
    stored = turn.stored
    return TurnRow(
        stored.index, stored.inference, datetime.fromtimestamp(stored.at, UTC), stored.model, stored.finish,
        stored.error if ended else "", stored.input_tokens_count, stored.output_tokens_count,
        [row for message in turn.messages for row in _message_rows(message)],
    )  # fmt: skip


def _message_rows(message: ModelMessage) -> list[MessageRow]:
    rows = []
    injected = {each.part: f"{each.server} ({each.namespace})" for each in message.injected}
    for at, part in enumerate(message.parts):
        if at in injected:
            text = (
                content_without_label(part.text)
                if isinstance(part, TextContent)
                else f"[{type(part).__name__.lower()}]"
            )
            rows.append(MessageRow("injected", text, injected[at]))
        elif isinstance(part, TextContent):
            rows.append(MessageRow(message.role, part.text))
        elif isinstance(part, ToolUse):
            rows.append(MessageRow("tool", part.arguments, part.name))
        elif isinstance(part, ModelToolResult):
            rows.append(MessageRow("result", part.text))
        else:
            rows.append(MessageRow(message.role, f"[{type(part).__name__.lower()}]"))
    return rows
