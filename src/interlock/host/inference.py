"""Inference for servers (MCPL, Server-Initiated Inference): routed, within budgets, streamed, counted and recorded.

A server gets an answer to its own messages. It gets no tools, and no part of any conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import aclosing
from typing import Final

import msgspec

from interlock.config.model_settings import ModelSettings
from interlock.host.budgets import Budgets
from interlock.host.client_models import HostModel, HostModels
from interlock.host.conversations import Conversations
from interlock.host.models.model import (
    AnswerFinished,
    Chunk,
    Finish,
    Model,
    ModelMessage,
    ModelPrompt,
    TextDelta,
    believable,
    estimated,
    for_servers,
    size_of_chunk,
)
from interlock.host.models.models import Models
from interlock.host.prices import cost_of
from interlock.host.routing import route
from interlock.host.sampling import SamplingBridge
from interlock.hub.app import HubApp
from interlock.hub.conversation_documents import INFERENCES, StoredInference, day_of, inference_id
from interlock.hub.live.connection import LiveConnection
from interlock.hub.store_faults import fault_of
from interlock.protocols.mcpl.authorization import AuthorizedMessage, admit
from interlock.protocols.mcpl.content import TextContent, blocks
from interlock.protocols.mcpl.inference import (
    InferenceChunk,
    InferenceRequest,
    InferenceResult,
    ModelInfo,
    TokenUsage,
)
from interlock.store import StoreError
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

MAX_TEXT: Final = 512 * 1024
"""Characters of one answer."""
HOUR_S: Final = 3600.0
SWEPT_AT_ONCE: Final = 500


class ServerInference:
    """Answers `inference/request` and `model/info` (`hub.live.server_messages.MessageHandler`)."""

    def __init__(self, hub_app: HubApp, models: Models, conversations: Conversations) -> None:
        self._hub_app = hub_app
        self._models = models
        self._conversations = conversations
        self._sampling = SamplingBridge(hub_app)
        self._clients = HostModels(hub_app)
        self._budgets = Budgets(lambda: hub_app.config.host.inference)
        self._closed = False
        self._under_way: set[asyncio.Task[object]] = set()
        self._recordings: set[asyncio.Future[None]] = set()
        """Inferences that are being written to the store."""

    async def start(self) -> None:
        """Restore the budgets of the last run, and begin to take requests."""
        today, since = day_of(time.time()), time.time() - HOUR_S
        for day in (today - 1, today):
            found, unreadable = await self._hub_app.store.find_readable(INFERENCES, day=day)
            self._budgets.load(row.value for row in found if row.value.server and row.value.at > since)
            if unreadable:
                # It may be of any server, and of now.
                self._budgets.hold_until(time.time() + HOUR_S)
        for method in ("inference/request", "model/info"):
            self._hub_app.live.connections.messages.serve_with(method, self)

    async def close(self) -> None:
        """Cancel running inferences, and wait until each is stored."""
        self._closed = True
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._recordings, return_exceptions=True)

    async def sweep(self) -> None:
        """Delete inferences that are older than the configuration keeps them, seven days at a time."""
        last = day_of(time.time()) - self._hub_app.config.host.keep_days
        try:
            for day in range(last - 7, last):
                keys = [document.key for document in await self._hub_app.store.find(INFERENCES, day=day)]
                for start in range(0, len(keys), SWEPT_AT_ONCE):
                    async with self._hub_app.store.transaction() as transaction:
                        for key in keys[start : start + SWEPT_AT_ONCE]:
                            transaction.delete(INFERENCES, key)
        except StoreError as cause:
            self._hub_app.logs.add("hub", "hub", f"old inferences could not be deleted: {cause.for_operators}")

    async def serve(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage) -> msgspec.Struct:
        """Answer a request that was admitted. Raises a `Fault` to refuse it."""
        if not isinstance(arrival.params, InferenceRequest):
            return await self._info(live)
        task = asyncio.current_task()
        if self._closed or task is None:
            raise Fault("SERVER_DRAINING", "the hub is closing", retry_after_ms=2000)
        self._under_way.add(task)
        try:
            return await self._infer(live, request, arrival.params)
        finally:
            self._under_way.discard(task)

    async def _info(self, live: LiveConnection) -> ModelInfo:
        """The model of conversations, or else that of inferences, or of a client (MCPL, Model Information)."""
        host = self._hub_app.config.host
        names = self._models.names
        name = host.model or host.inference.default or (names[0] if len(names) == 1 else None)
        if name is None and (client := self._clients.for_info(live)) is not None:
            return await self._clients.info(client)
        if name is None:
            raise Fault("NOT_FOUND", "the host has no default model")
        return self._models.get(name).info

    async def _infer(self, live: LiveConnection, request: Request, inference: InferenceRequest) -> InferenceResult:
        agents = live.recipients(self._hub_app.live.features, inference.feature_set)
        conversation, agent = await self._account(inference.conversation_id, agents)
        settings = self._hub_app.config.host.inference
        model, priced, rule = self._model(live, inference, conversation, agents)
        most = min(inference.preferences.max_tokens or settings.max_tokens, settings.max_tokens, priced.max_tokens)
        prompt = _prompt(inference, most)
        asks = estimated(prompt, 0).input_tokens
        if asks >= priced.context_window:
            raise Fault("TOO_LARGE", f"the messages have about {asks} tokens, more than the model takes")
        prompt = msgspec.structs.replace(prompt, max_tokens=min(most, priced.context_window - asks))
        with self._budgets.inference(live.server, asks + most):
            running = _Running(live, request, inference)
            ended: Fault | asyncio.CancelledError | None = None
            try:
                async with aclosing(model.stream(prompt)) as chunks:
                    async for chunk in chunks:
                        running.take(chunk)
                running.check_whole()
            except (Fault, asyncio.CancelledError) as cause:
                ended = cause
            counted = estimated(prompt, running.written)
            usage, claimed = running.usage or counted, isinstance(model, HostModel)
            if claimed:
                usage = believable(usage, counted, prompt.max_tokens or most)
            self._budgets.spend(live.server, usage.input_tokens + usage.output_tokens)
            row = _row(running, model.info.id, agent, conversation, usage, priced, ended)
            row = msgspec.structs.replace(row, claimed=claimed)
            # Count the tokens even if the server has disconnected.
            recording = asyncio.ensure_future(self._record(row, rule))
            self._recordings.add(recording)
            recording.add_done_callback(self._recordings.discard)
            if not isinstance(ended, asyncio.CancelledError):
                await asyncio.shield(recording)
        if ended is not None:
            raise ended
        # The grant may have been revoked while the model wrote.
        admit(live.state, request.method, request.params)
        if isinstance(model, HostModel):
            model.check_allowed()
        return InferenceResult(running.text, model.info.id, for_servers(running.finish), usage)

    def _model(
        self, live: LiveConnection, inference: InferenceRequest, conversation: str, agents: tuple[str, ...]
    ) -> tuple[Model, ModelSettings, str]:
        """The model that answers, its settings, and the rule that chose it. Raises a `Fault` if there is none.

        For a conversation of a client, it is that client's model. Otherwise the operator's routes come before clients.
        """
        settings, server, feature_set = self._hub_app.config.host.inference, live.server, inference.feature_set
        own = self._clients.model(live, inference, agents)
        if own is not None and inference.conversation_id in own.host.conversations:
            return own, ModelSettings(), f"the conversation's host, {own.agent}"
        chosen = route(settings, server, feature_set, conversation)
        if chosen is not None:
            return self._models.get(chosen[0]), self._models.settings(chosen[0]), chosen[1]
        if own is not None:
            return own, ModelSettings(), f"the host of {own.agent}"
        if settings.sampling == "off":
            # Servers show people the message, but rarely the hint, so the message names the setting.
            message = f"no model is routed to {feature_set}: name one in [host.inference], as `default` or a route"
            raise Fault("MISSING_CAPABILITY", message)
        client = self._sampling.model(server, agents, inference.preferences.model)
        if client is None:
            message = f"no model is routed to {feature_set}, and no connected client offers its own"
            raise Fault("MISSING_CAPABILITY", message, hint="connect a client that declares sampling")
        return client, ModelSettings(), f"sampling at the client of {client.agent}"

    async def _account(self, named: str | None, agents: tuple[str, ...]) -> tuple[str, str]:
        """The conversation and the agent that an inference counts for.

        A conversation counts only if it belongs to an agent for which the feature set is on. Other names are ignored,
        so that a server cannot find out which conversations exist.
        """
        if named is not None:
            with contextlib.suppress(Fault):
                found = await self._conversations.get(named)
                if found.stored.agent in agents:
                    return found.id, found.stored.agent
        return "", agents[0] if len(agents) == 1 else ""

    async def _record(self, row: StoredInference, rule: str) -> None:
        try:
            async with self._hub_app.store.transaction() as transaction:
                transaction.put(INFERENCES, row)
                transaction.record(self._hub_app.journal.inference(row, rule))
        except StoreError as cause:
            raise fault_of(cause) from None


class _Running:
    """One inference while it runs."""

    def __init__(self, live: LiveConnection, request: Request, inference: InferenceRequest) -> None:
        self.live = live
        self.inference = inference
        self.text = ""
        self.written = 0
        """Characters that the model wrote, its reasoning included."""
        self.finish: Finish = "end_turn"
        self.usage: TokenUsage | None = None
        self._request = request
        self._ended = False
        self._sent = 0

    def take(self, chunk: Chunk) -> None:
        """Take a chunk of the model, and forward text if the server wants chunks."""
        self.written += size_of_chunk(chunk)
        if isinstance(chunk, AnswerFinished):
            self.finish, self.usage, self._ended = chunk.reason, chunk.usage, True
        elif isinstance(chunk, TextDelta):
            self.text += chunk.text
            if len(self.text) > MAX_TEXT:
                raise Fault("TOO_LARGE", f"the model wrote more than {MAX_TEXT} characters")
            if self.inference.stream:
                piece = InferenceChunk(self._request.id, self._sent, chunk.text)
                with contextlib.suppress(Fault):
                    self.live.connection.tell("inference/chunk", msgspec.json.encode(piece))
                self._sent += 1

    def check_whole(self) -> None:
        """Raise a `Fault` for an incomplete answer."""
        if not self._ended:
            raise Fault("UPSTREAM_ERROR", "the model's answer is incomplete")


def _prompt(request: InferenceRequest, most: int) -> ModelPrompt:
    system = [message for message in request.messages if message.role == "system"]
    texts = [block.text for message in system for block in blocks(message.content) if isinstance(block, TextContent)]
    others = tuple(
        ModelMessage("assistant" if message.role == "assistant" else "user", blocks(message.content))
        for message in request.messages
        if message.role != "system"
    )
    if not others:
        raise Fault("INVALID_PARAMS", "messages: one of them must be the user's", data={"field": "messages"})
    temperature = request.preferences.temperature
    if temperature is not None:
        temperature = min(max(temperature, 0.0), 2.0)
    return ModelPrompt(others, "\n\n".join(texts), (), most, temperature)


def _row(
    running: _Running,
    model: str,
    agent: str,
    conversation: str,
    usage: TokenUsage,
    priced: ModelSettings,
    ended: Fault | asyncio.CancelledError | None,
) -> StoredInference:
    at, why = time.time(), ""
    if isinstance(ended, Fault):
        why = ended.summary
    elif ended is not None:
        why = "CANCELLED: the server's connection ended before the answer"
    return StoredInference(
        inference_id(), at, day_of(at), model, agent, usage.input_tokens, usage.output_tokens,
        cost_of(usage, priced), running.live.server, running.inference.feature_set, conversation,
        why,
    )  # fmt: skip
