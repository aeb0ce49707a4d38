"""Context hooks (MCPL, Context Hooks) and the lifecycle signal that replaces the after-hook in 0.5."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from interlock.protocols.mcpl.content import Content
from interlock.protocols.mcpl.decoding import Count, Name, Object, Value
from interlock.protocols.mcpl.inference import ModelInfo, TokenUsage

Position: TypeAlias = Literal["system", "beforeUser", "afterUser"]


class ChannelPlace(Value, frozen=True):
    """A channel, and a place in it."""

    channel_id: Name
    message_id: Name | None = None
    thread_id: Name | None = None


class ChannelContext(Value, frozen=True):
    """The channels around an inference (MCPL, beforeInference Channel Context)."""

    incoming: ChannelPlace | None = None
    default_outgoing: ChannelPlace | None = None
    candidates: tuple[Name, ...] = ()


class BeforeInference(Value, frozen=True):
    """The params of `context/beforeInference`. `userMessage` is null for a server that may not observe."""

    inference_id: Name
    conversation_id: Name
    turn_index: Count
    user_message: str | None
    model: ModelInfo | None = None
    channels: ChannelContext | None = None


class Injection(Value, frozen=True):
    """Content that a server wants in the context."""

    namespace: Name
    position: Position
    content: Content
    metadata: Object = msgspec.field(default_factory=dict)


Injections: TypeAlias = Annotated[tuple[Injection, ...], msgspec.Meta(max_length=256)]


class BeforeInferenceResult(Value, frozen=True):
    """The answer to `context/beforeInference`."""

    feature_set: Name | None = None
    """The feature set of the contribution. It may switch the contribution off, but authorizes nothing."""
    context_injections: Injections = ()


class AfterInference(Value, frozen=True):
    """The params of `context/afterInference` (0.4)."""

    inference_id: Name
    conversation_id: Name
    turn_index: Count
    user_message: str | None
    assistant_message: str
    model: ModelInfo | None = None
    usage: TokenUsage | None = None


class AfterInferenceResult(Value, frozen=True):
    """The answer to a blocking `context/afterInference` (0.4)."""

    feature_set: Name | None = None
    modified_response: str | None = None
    metadata: Object = msgspec.field(default_factory=dict)


class Lifecycle(Value, frozen=True):
    """The params of `inference/lifecycle` (0.5). None of its members has content of the inference."""

    inference_id: Name
    phase: Literal["started", "completed", "aborted", "failed"]
    conversation_id: Name | None = None
    turn_index: Count | None = None
    model: ModelInfo | None = None
    usage: TokenUsage | None = None
