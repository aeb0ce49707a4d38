"""Runs turns: hooks before, the model with its tools, hooks after, and the turn in the store.

A turn that fails is stored with its error, with everything that happened before it, and the conversation goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from interlock.host.conversations import MOST_TURN_BYTES, Conversation, Conversations, Stable, next_turn_id
from interlock.host.hooks import Hooks, Response
from interlock.host.models.model import (
    Chunk,
    Finish,
    Finished,
    Message,
    Prompt,
    TextDelta,
    ThinkingDelta,
    ToolDefinition,
    ToolResult,
    ToolUse,
    estimated,
    size_of_chunk,
)
from interlock.host.prices import cost_of
from interlock.host.prompt import first_to_keep, history, system_of, user_message
from interlock.host.states import States
from interlock.host.tools import Tools
from interlock.host.turn import Piece, Turn
from interlock.hub.app import HubApp
from interlock.hub.conversation_documents import StoredTurn
from interlock.protocols.mcpl.content import Text
from interlock.protocols.mcpl.inference import Usage
from interlock.protocols.mcpl.injections import arrange
from interlock.wire.errors import Fault

RESERVE: Final = 1024
"""Tokens of the window that are left free, since counts before the inference are estimates."""


class Turns:
    """Runs the turns of all conversations."""

    def __init__(
        self, hub_app: HubApp, conversations: Conversations, tools: Tools, states: States, hooks: Hooks
    ) -> None:
        self._hub_app = hub_app
        self._conversations = conversations
        self._tools = tools
        self._states = states
        self._hooks = hooks

    async def run(self, turn: Turn) -> Conversation:
        """Run a turn to its end. Its last piece is the whole answer, or the error."""
        running = _Running(turn)
        fault: Fault | None = None
        try:
            await self._infer(running)
        except Fault as cause:
            fault = cause
        except asyncio.CancelledError:
            fault = Fault("CANCELLED", "the turn was stopped")
        except Exception as cause:
            self._hub_app.logs.add("hub", "hub", f"a turn failed: {cause!r}")
            fault = Fault("INTERNAL_ERROR", "a fault of ours; `interlock logs hub` has it")
        if fault is not None:
            self._hooks.failed(turn)
        return await self._finish(running, fault)

    async def _infer(self, running: _Running) -> None:
        turn = running.turn
        caller = self._tools.admit(turn.conversation.principal)
        tools = await self._tools.list(caller) if "tools" in turn.model.info.capabilities else ()
        injections = [*turn.context, *await self._hooks.before(turn)]
        arranged = arrange(injections, turn.conversation.stable.prefix)
        self._hooks.placed(turn, arranged)
        running.use(msgspec.structs.replace(turn.conversation.stable, prefix=arranged.prefix))
        running.messages.append(user_message(turn.user_message, arranged))
        earlier = await self._history(running, tools)
        # An answer that a server may rewrite is shown to nobody before that.
        held = self._hooks.rewrites(turn)
        for _ in range(self._hub_app.config.host.rounds):
            system = system_of(running.conversation.stable)
            prompt = Prompt((*earlier, *running.messages), system, tools, self._answer_room(running))
            calls = await self._answer(running, prompt, held=held)
            if not calls:
                break
            running.messages.append(Message("user", tuple([await self._call(running, use) for use in calls])))
        else:
            raise Fault("QUOTA_EXCEEDED", f"the model called tools in {self._hub_app.config.host.rounds} rounds")
        response = await self._hooks.after(turn, Response(running.text, running.usage, running.finish))
        if response.text != running.text:
            turn.keep_unmoderated(running.text)
            running.rewrite(response.text)
        if held and response.text:
            turn.add(Piece("text", response.text))

    async def _history(self, running: _Running, tools: tuple[ToolDefinition, ...]) -> tuple[Message, ...]:
        """The messages of earlier turns, as many as fit into the model's window."""
        conversation, info = running.conversation, running.turn.model.info
        turns = await self._conversations.turns(conversation.stored, first=conversation.stored.first)
        fixed = estimated(Prompt(tuple(running.messages), system_of(conversation.stable), tools), 0).input_tokens
        window = info.context_window or 0
        room = window - fixed - min(RESERVE, window // 8) - self._answer_room(running)
        first = first_to_keep(turns, conversation.stored.first, max(room, 0))
        running.keep_from(first)
        return history((turn for turn in turns if turn.stored.index >= first), vision="vision" in info.capabilities)

    def _answer_room(self, running: _Running) -> int:
        """Tokens of an answer: as the settings say, and no more than half of the window."""
        settings = self._hub_app.config.models.get(running.conversation.stored.model)
        window = running.turn.model.info.context_window or 0
        return max(1, min(window // 2, window if settings is None else settings.max_tokens))

    async def _answer(self, running: _Running, prompt: Prompt, *, held: bool) -> list[ToolUse]:
        """Ask the model once. Returns the tools that it calls."""
        turn, text, calls = running.turn, "", []
        finish: Finish | None = None
        async with aclosing(_chunks(running, prompt)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    text += chunk.text
                    if len(text) > MOST_TURN_BYTES // 4:
                        raise Fault("TOO_LARGE", f"the model wrote more than {MOST_TURN_BYTES // 4} characters")
                    if not held:
                        turn.add(Piece("text", chunk.text))
                elif isinstance(chunk, ThinkingDelta):
                    turn.add(Piece("thinking", chunk.text))
                elif isinstance(chunk, ToolUse):
                    calls.append(chunk)
                elif isinstance(chunk, Finished):
                    finish = chunk.reason
        if finish is None:
            raise Fault("UPSTREAM_ERROR", "the model gave no end of its answer")
        running.answered(text, calls, finish)
        return calls

    async def _call(self, running: _Running, use: ToolUse) -> ToolResult:
        turn = running.turn
        turn.add(Piece("tool", use.arguments, use.name))
        states = await self._states.for_call(turn)
        outcome = await self._tools.call(
            turn.conversation.principal, use, states, lambda decision: turn.add(Piece("approval", name=decision))
        )
        await self._states.take(turn, states)
        images = outcome.images if "vision" in turn.model.info.capabilities else ()
        running.check_room(len(outcome.text) + sum(len(image.data or "") for image in images))
        turn.add(Piece("result", outcome.text, use.name, outcome.failed))
        return ToolResult(use.id, outcome.text, outcome.failed, images, outcome.refused)

    async def _finish(self, running: _Running, fault: Fault | None) -> Conversation:
        """Store the turn, and give it its last piece."""
        turn, usage = running.turn, running.usage
        conversation = running.conversation
        try:
            stored = StoredTurn(
                next_turn_id(turn.conversation), conversation.id, turn.index, turn.inference_id, time.time(),
                turn.model.info.id, running.finish, "" if fault is None else f"{fault.name}: {fault.message}",
                usage.input_tokens, usage.output_tokens,
            )  # fmt: skip
            cost = cost_of(usage, self._hub_app.config.models.get(conversation.stored.model))
            conversation = await self._conversations.commit(conversation, stored, running.complete_messages(), cost)
        except Fault as cause:
            fault = fault or cause
        if fault is None:
            turn.add(Piece("done", running.text, "", False, usage.input_tokens, usage.output_tokens, running.finish))
        else:
            hint = f" ({fault.hint})" if fault.hint else ""
            turn.add(Piece("error", fault.message + hint, fault.name, True, usage.input_tokens, usage.output_tokens))
        return conversation


async def _chunks(running: _Running, prompt: Prompt) -> AsyncGenerator[Chunk, None]:
    """The answer of the turn's model. Its tokens count however it ends, unless the endpoint refused the request."""
    written: int | None = None
    usage: Usage | None = None
    try:
        async with aclosing(running.turn.model.stream(prompt)) as chunks:
            async for chunk in chunks:
                written = (written or 0) + size_of_chunk(chunk)
                usage = chunk.usage if isinstance(chunk, Finished) else usage
                yield chunk
    except asyncio.CancelledError:
        written = written or 0
        raise
    finally:
        if written is not None:
            running.spend(usage or estimated(prompt, written))


class _Running:
    """The state of one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.conversation = turn.conversation
        self.messages: list[Message] = []
        self.text = ""
        """Everything that the model said in this turn."""
        self.usage = Usage(0, 0)
        self.finish: Finish = "end_turn"
        self._size = 0

    def use(self, stable: Stable) -> None:
        """Take over the stable part of the prompt as this turn has it."""
        self.conversation = msgspec.structs.replace(self.conversation, stable=stable)

    def keep_from(self, first: int) -> None:
        """Leave out turns before this one from now on."""
        stored = msgspec.structs.replace(self.conversation.stored, first=first)
        self.conversation = msgspec.structs.replace(self.conversation, stored=stored)

    def spend(self, usage: Usage) -> None:
        """Add the tokens of one inference."""
        self.usage = Usage(self.usage.input_tokens + usage.input_tokens, self.usage.output_tokens + usage.output_tokens)

    def answered(self, text: str, calls: list[ToolUse], finish: Finish) -> None:
        """The model answered: its text, the tools it calls, and why it stopped."""
        said = (Text(text),) if text else ()
        if said or calls:
            self.check_room(len(text) + sum(len(use.arguments) for use in calls))
            self.messages.append(Message("assistant", (*said, *calls)))
        self.text = f"{self.text}\n\n{text}" if self.text and text else self.text or text
        self.finish = finish

    def rewrite(self, text: str) -> None:
        """Put another text in the place of everything that the model said."""
        self.text = text
        kept = []
        for message in self.messages:
            parts = tuple(part for part in message.parts if message.role == "user" or not isinstance(part, Text))
            if parts:
                kept.append(msgspec.structs.replace(message, parts=parts))
        self.messages = [*kept, *([Message("assistant", (Text(text),))] if text else [])]

    def check_room(self, chars: int) -> None:
        """Count text of the turn. Raises TOO_LARGE for more than one turn may hold."""
        self._size += chars
        if self._size > MOST_TURN_BYTES // 4:
            raise Fault("TOO_LARGE", f"a turn holds at most {MOST_TURN_BYTES // 4} characters")

    def complete_messages(self) -> list[Message]:
        """The messages without a call that has no result, which no model accepts."""
        if not self.messages and self.turn.user_message is not None:
            return [Message("user", (Text(self.turn.user_message),))]
        last = self.messages[-1] if self.messages else None
        dangling = last is not None and last.role == "assistant" and any(isinstance(p, ToolUse) for p in last.parts)
        return self.messages[:-1] if dangling else self.messages
