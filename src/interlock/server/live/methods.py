"""The part of `Server` that speaks MCP Live (MCPL): feature sets, events, hooks, inference, rollback and channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec

from interlock.protocols.mcpl.channels import Channel, IncomingMessage, ReceivedResult
from interlock.protocols.mcpl.events import PushResult
from interlock.protocols.mcpl.inference import (
    InferenceMessage,
    InferenceRequest,
    InferenceResult,
    ModelInfo,
    ModelPreferences,
)
from interlock.protocols.mcpl.scopes import ElevateResult, Scope
from interlock.server.live.handlers import AFTER, BEFORE, OUTGOING
from interlock.server.live.live import LiveFeatures, OnFeatures
from interlock.transports.host_requests import OnChunk

F = TypeVar("F", bound=Callable[..., Any])
Direction = Literal["outbound", "inbound", "bidirectional"]


class LiveMethods:
    """The abilities of a server beyond answering calls. Each is off until a host enables it."""

    _live: LiveFeatures

    # Feature sets and events.

    def feature(
        self,
        name: str,
        description: str,
        *,
        uses: Sequence[str] = ("pushEvents",),
        scoped: bool = False,
        scope_label: str | None = None,
        rollback: bool = False,
    ) -> None:
        """Declare a feature set, which is off until a host enables it. Raises DefinitionError.

        `scope_label` says how the label of a scope follows from a tool's arguments: `"{path}"`.
        """
        self._live.declare(name, description, uses, scoped, scope_label, rollback)

    def remove_feature(self, name: str) -> None:
        """Declare a feature set no longer. Its hosts are told, and it is off at once. Raises LookupError."""
        self._live.withdraw(name)

    def on_features(self, function: F) -> F:
        """Call a function with the names of the enabled feature sets whenever a host changes them."""
        self._live.on_features(cast(OnFeatures, function))
        return function

    @property
    def enabled_features(self) -> frozenset[str]:
        """The feature sets that some host enabled."""
        return self._live.enabled

    async def push(
        self,
        feature: str,
        content: str | Iterable[Mapping[str, Any]],
        *,
        event_id: str | None = None,
        origin: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
    ) -> tuple[PushResult, ...]:
        """Push an event to every host that enabled the feature set, and return their answers.

        Repeat a push with the same `event_id`: a host that has it already gives the same answer again.
        """
        return await self._live.push(feature, content, event_id, origin, tags)

    # Scopes.

    @property
    def scopes(self) -> LiveFeatures:
        """Asks hosts for scopes."""
        return self._live

    async def elevate(self, feature: str, label: str, payload: Mapping[str, Any] | None = None) -> ElevateResult:
        """Ask the first host that enabled a scoped feature set whether the server may act on `label` (MCPL 0.4).

        The answer's `payload` is the given one, with members that the host adds. A function that runs for a call asks
        its own host with `ctx.elevate`. Raises LookupError, or a `Fault` where the feature set is off.
        """
        return await self._live.elevate(None, feature, Scope(label, dict(payload or {})))

    # Hooks.

    def before_inference(self, feature: str) -> Callable[[F], F]:
        """Call a function with a `BeforeInference` before each inference of a host.

        It returns `Injection`s, one or several, or a text to put before the user's message, or None.
        """
        return self._decorator(BEFORE, feature, "contextHooks.beforeInference")

    def after_inference(self, feature: str, *, blocking: bool = False) -> Callable[[F], F]:
        """Call a function with an `AfterInference` after each inference of a host (MCPL 0.4).

        With `blocking` the host waits, and the text that the function returns replaces the answer; None leaves it.
        """
        return self._decorator(AFTER, feature, "contextHooks.afterInference", blocking=blocking)

    def on_lifecycle(self, feature: str) -> Callable[[F], F]:
        """Call a function with a `Lifecycle` when an inference starts and ends (MCPL 0.5). It has no content."""
        return self._decorator("inference/lifecycle", feature, "inferenceLifecycle")

    # Inference.

    async def infer(
        self,
        feature: str,
        messages: str | Iterable[InferenceMessage],
        *,
        conversation: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        model: str | None = None,
        on_chunk: OnChunk | None = None,
    ) -> InferenceResult:
        """Have the host's model write something, without a person being asked. Raises LookupError, or a `Fault`.

        With `on_chunk` the text is also handed over piece by piece. A hook may not call this before it has answered.
        """
        conversation_messages = (InferenceMessage("user", messages),) if isinstance(messages, str) else tuple(messages)
        wishes = ModelPreferences(max_tokens, temperature, model)
        request = InferenceRequest(feature, conversation_messages, conversation, on_chunk is not None, wishes)
        msgspec.json.decode(msgspec.json.encode(request), type=InferenceRequest)
        return await self._live.infer(request, on_chunk)

    async def model_info(self) -> ModelInfo:
        """The model that the host uses. Raises a `Fault`."""
        return await self._live.model_info()

    # State.

    def rollback(self, feature: str) -> Callable[[F], F]:
        """Call a function with the id of a checkpoint to go back to it.

        It returns None if that is done, or the reason why it cannot be. It raises LookupError for an unknown one.
        """
        return self._decorator("state/rollback", feature, "tools")

    # Channels.

    def channel(
        self,
        id: str,
        type: str,
        label: str,
        *,
        direction: Direction = "bidirectional",
        address: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Channel:
        """Offer a channel. It is registered with each host that enables a feature set which uses channels."""
        made = Channel(id, type, label, direction, dict(address or {}), dict(metadata or {}))
        self._live.channels.add(made)
        return made

    def remove_channel(self, id: str) -> None:
        """Offer a channel no longer. Raises LookupError."""
        self._live.channels.remove(id)

    async def incoming(self, *messages: IncomingMessage) -> tuple[ReceivedResult, ...]:
        """Deliver messages of channels to the hosts, and return the result for each message of each host."""
        live = self._live
        answers = await live.channels.incoming(messages, live.channels.hosts)
        return tuple(result for answer in answers for result in answer.results)

    def on_publish(self, function: F) -> F:
        """Call a function with a `Publish` to deliver it. It returns the message's id, True or None, or False."""
        return self._decorator("channels/publish", "", "")(function)

    def on_open(self, function: F) -> F:
        """Call a function with an `OpenChannel` that a host wants. It returns the `Channel`, or raises."""
        return self._decorator("channels/open", "", "")(function)

    def on_close(self, function: F) -> F:
        """Call a function with a `CloseChannel`. It returns False if the channel stays open."""
        return self._decorator("channels/close", "", "")(function)

    def on_typing(self, function: F) -> F:
        """Call a function with a `Typing` while an answer for a channel is being written (MCPL 0.5)."""
        return self._decorator("channels/typing", "", "")(function)

    def on_acknowledge(self, function: F) -> F:
        """Call a function with an `Acknowledge` of a message (MCPL 0.5). It returns False if that was not shown."""
        return self._decorator("channels/acknowledge", "", "")(function)

    def on_outgoing(self, function: F) -> F:
        """Call a function with each `OutgoingChunk` and `OutgoingComplete` that the server may observe."""
        for method in OUTGOING:
            self._decorator(method, "", "")(function)
        return function

    def _decorator(self, method: str, feature: str, use: str, *, blocking: bool = False) -> Callable[[F], F]:
        def decorate(function: F) -> F:
            self._live.handle(method, function, feature, use, blocking=blocking)
            return function

        return decorate
