"""Runs turns: hooks before, the model with its tools, hooks after, and the commit.

A turn is stored when it begins, and before and after each tool call. So the store has all earlier steps of a turn that
fails, is stopped, or dies with the hub, and the conversation can continue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from interlock.host.conversations import MAX_TURN_BYTES, Conversation, Conversations, RecordedTurn, next_turn_id
from interlock.host.hooks import Hooks, ModelResponse
from interlock.host.models.model import (
    AnswerFinished,
    Chunk,
    Finish,
    ModelMessage,
    ModelPrompt,
    ModelToolResult,
    TextDelta,
    ThinkingDelta,
    ToolDefinition,
    ToolUse,
    estimated,
    size_of_chunk,
)
from interlock.host.prices import cost_of
from interlock.host.prompt import first_to_keep, history, system_of, user_message
from interlock.host.running_turn import RunningTurn
from interlock.host.states import ConversationStates
from interlock.host.tools import Tools
from interlock.host.turn import Turn, TurnPiece
from interlock.hub.app import HubApp
from interlock.hub.conversation_documents import UNFINISHED, StoredTurn
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.protocols.mcpl.injections import arrange
from interlock.wire.errors import Fault, internal_error

RESERVE: Final = 1024
"""Tokens of the window that stay free, because counts before the inference are estimates."""


class Turns:
    """Runs the turns of all conversations."""

    def __init__(
        self, hub_app: HubApp, conversations: Conversations, tools: Tools, states: ConversationStates, hooks: Hooks
    ) -> None:
        self._hub_app = hub_app
        self._conversations = conversations
        self._tools = tools
        self._states = states
        self._hooks = hooks

    async def run(self, turn: Turn) -> Conversation:
        """Run a turn to its end. Its last piece is the whole answer, or the error."""
        running = RunningTurn(turn)
        fault: Fault | None = None
        leasing = asyncio.ensure_future(self._conversations.leases.keep(turn.conversation.id, turn.inference_id))
        try:
            await self._begin(running)
            await self._infer(running)
        except Fault as cause:
            fault = cause
        except asyncio.CancelledError:
            fault = Fault("CANCELLED", "the turn was stopped")
        except Exception as cause:
            self._hub_app.logs.add("hub", "hub", f"a turn failed: {cause!r}")
            fault = internal_error()
        if fault is not None and running.version:
            self._hooks.failed(turn)
        finishing = asyncio.ensure_future(self._finish(running, fault))
        while not finishing.done():
            with suppress(asyncio.CancelledError):  # It is too late for a stop.
                await asyncio.shield(finishing)
        leasing.cancel()
        return finishing.result()

    async def _begin(self, running: RunningTurn) -> None:
        """Store the turn before its first step."""
        stored = self._stored(running, UNFINISHED)
        running.store_as(await self._conversations.begin(running.conversation, stored, running.to_store()))
        running.turn.begin()

    async def _infer(self, running: RunningTurn) -> None:
        turn = running.turn
        caller = self._tools.admit(turn.conversation.principal)
        tools = await self._tools.list(caller) if "tools" in turn.model.info.capabilities else ()
        # Read earlier turns while the servers are being asked.
        asking = asyncio.ensure_future(self._hooks.before(turn))
        try:
            stored = await self._conversations.turns(turn.conversation.stored, first=turn.conversation.stored.first)
            injections = await asking
        finally:
            # The turn failed, so the servers' answers are no longer needed.
            asking.cancel()
        arranged = arrange([*turn.context, *injections], turn.conversation.stable.prefix)
        self._hooks.placed(turn, arranged)
        running.use(msgspec.structs.replace(turn.conversation.stable, prefix=arranged.prefix))
        running.messages.append(user_message(turn.user_message, arranged))
        earlier = self._history(running, tools, stored)
        # Withhold an answer that a server may rewrite until the server has seen it.
        withheld = self._hooks.rewrites(turn)
        running.hold(withheld=withheld)
        for _ in range(self._hub_app.config.host.rounds):
            system = system_of(running.conversation.stable)
            prompt = ModelPrompt((*earlier, *running.messages), system, tools, self._answer_room(running))
            calls = await self._answer(running, prompt, withheld=withheld)
            if not calls:
                break
            for use in calls:
                await self._call(running, use)
            running.end_round()
        else:
            raise Fault("QUOTA_EXCEEDED", f"the model called tools in {self._hub_app.config.host.rounds} rounds")
        response = await self._hooks.after(turn, ModelResponse(running.text, running.usage, running.finish))
        if response.text != running.text:
            turn.keep_unmoderated(running.text)
            running.rewrite(response.text)
        if withheld and response.text:
            turn.add(TurnPiece("text", response.text))

    def _history(
        self, running: RunningTurn, tools: tuple[ToolDefinition, ...], stored: Sequence[RecordedTurn]
    ) -> tuple[ModelMessage, ...]:
        """The messages of the earlier turns that fit into the model's window."""
        conversation, info = running.conversation, running.turn.model.info
        turns = [turn for turn in stored if turn.stored.index < running.turn.index]
        fixed = estimated(ModelPrompt(tuple(running.messages), system_of(conversation.stable), tools), 0).input_tokens
        window = info.context_window or 0
        room = window - fixed - min(RESERVE, window // 8) - self._answer_room(running)
        first = first_to_keep(turns, conversation.stored.first, max(room, 0))
        running.keep_from(first)
        earlier = history(turn for turn in turns if turn.stored.index >= first)
        running.know_ids(earlier)
        return earlier

    def _answer_room(self, running: RunningTurn) -> int:
        """The tokens reserved for the answer: the setting, but at most half of the window."""
        settings = self._hub_app.config.models.get(running.conversation.stored.model)
        window = running.turn.model.info.context_window or 0
        return max(1, min(window // 2, window if settings is None else settings.max_tokens))

    async def _answer(self, running: RunningTurn, prompt: ModelPrompt, *, withheld: bool) -> list[ToolUse]:
        """Ask the model once. Returns the tools that it calls."""
        turn, text, calls = running.turn, "", []
        finish: Finish | None = None
        async with aclosing(_chunks(running, prompt)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    text += chunk.text
                    if len(text) > MAX_TURN_BYTES // 4:
                        raise Fault("TOO_LARGE", f"the model wrote more than {MAX_TURN_BYTES // 4} characters")
                    if not withheld:
                        turn.add(TurnPiece("text", chunk.text))
                elif isinstance(chunk, ThinkingDelta):
                    turn.add(TurnPiece("thinking", chunk.text))
                elif isinstance(chunk, ToolUse):
                    calls.append(running.named(chunk, prompt.tools))
                elif isinstance(chunk, AnswerFinished):
                    finish = chunk.reason
        if finish is None:
            raise Fault("UPSTREAM_ERROR", "the model's answer is incomplete")
        running.answered(text, calls, finish)
        return calls

    async def _call(self, running: RunningTurn, use: ToolUse) -> None:
        """Make one call of a round. The call is stored before it is made, its result afterwards."""
        turn = running.turn
        turn.add(TurnPiece("tool", use.arguments, use.name))
        await turn.may_call()
        states = await self._states.for_call(turn)
        running.begin_call()
        await self._save(running)
        outcome = await self._tools.call(
            turn.conversation.principal, use, states, lambda decision: turn.add(TurnPiece("approval", name=decision))
        )
        images = outcome.images if "vision" in turn.model.info.capabilities else ()
        try:
            running.end_call(ModelToolResult(use.id, outcome.text, outcome.failed, images, outcome.refused))
        finally:
            await self._states.take(turn, states)
            await self._save(running)
        turn.add(TurnPiece("result", outcome.text, use.name, outcome.failed))

    def _stored(self, running: RunningTurn, error: str) -> StoredTurn:
        turn, usage = running.turn, running.usage
        return StoredTurn(
            next_turn_id(turn.conversation), turn.conversation.id, turn.index, turn.inference_id, time.time(),
            turn.model.info.id, running.finish, error, usage.input_tokens, usage.output_tokens,
        )  # fmt: skip

    def _cost(self, running: RunningTurn) -> float:
        return cost_of(running.usage, self._hub_app.config.models.get(running.conversation.stored.model))

    async def _save(self, running: RunningTurn) -> None:
        """Store the current state of the turn. A call that cannot be stored is not made."""
        stored, cost = self._stored(running, UNFINISHED), self._cost(running)
        version = await self._conversations.save(
            running.conversation, stored, running.version, running.to_store(), cost
        )
        running.store_as(version)

    async def _finish(self, running: RunningTurn, fault: Fault | None) -> Conversation:
        """Store the end of the turn, and add its last piece."""
        turn, usage = running.turn, running.usage
        conversation = running.conversation
        try:
            stored = self._stored(running, "" if fault is None else f"{fault.name}: {fault.message}")
            messages = running.to_store(ended=fault is None)
            conversation = await self._conversations.commit(conversation, stored, messages, self._cost(running))
        except Fault as cause:
            fault = fault or cause
        turn.begin(fault)
        if fault is None:
            turn.add(
                TurnPiece("done", running.text, "", False, usage.input_tokens, usage.output_tokens, running.finish)
            )
        else:
            hint = f" ({fault.hint})" if fault.hint else ""
            turn.add(
                TurnPiece("error", fault.message + hint, fault.name, True, usage.input_tokens, usage.output_tokens)
            )
        return conversation


async def _chunks(running: RunningTurn, prompt: ModelPrompt) -> AsyncGenerator[Chunk, None]:
    """The chunks of the model's answer. Its tokens always count, unless the endpoint refused the request."""
    written: int | None = None
    usage: TokenUsage | None = None
    try:
        async with aclosing(running.turn.model.stream(prompt)) as chunks:
            async for chunk in chunks:
                written = (written or 0) + size_of_chunk(chunk)
                usage = chunk.usage if isinstance(chunk, AnswerFinished) else usage
                yield chunk
    except asyncio.CancelledError:
        written = written or 0
        raise
    finally:
        if written is not None:
            running.spend(usage or estimated(prompt, written))
