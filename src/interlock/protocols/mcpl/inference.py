"""Inference that a server requests (MCPL, Server-Initiated Inference), and its model (Model Information)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from interlock.protocols.mcpl.content import Content
from interlock.protocols.mcpl.decoding import Count, Name, Value
from interlock.wire.messages import Id

FinishReason: TypeAlias = Literal["end_turn", "max_tokens", "stop_sequence"]


class ModelInfo(Value, frozen=True):
    """The information about a model for servers."""

    id: Name
    vendor: str | None = None
    context_window: Count | None = None
    capabilities: tuple[str, ...] = ()


class TokenUsage(Value, frozen=True):
    """The tokens of an inference."""

    input_tokens: Count
    output_tokens: Count


class InferenceMessage(Value, frozen=True):
    """One message of the prompt."""

    role: Literal["system", "user", "assistant"]
    content: Content


class ModelPreferences(Value, frozen=True):
    """A server's preferences. The host may ignore them."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: float | None = None
    model: str | None = None
    model_tier: str | None = None
    cost_tier: str | None = None


class InferenceRequest(Value, frozen=True):
    """The params of `inference/request`."""

    feature_set: Name
    messages: Annotated[tuple[InferenceMessage, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    conversation_id: Name | None = None
    stream: bool = False
    preferences: ModelPreferences = ModelPreferences()


class InferenceResult(Value, frozen=True):
    """The answer to `inference/request`."""

    content: str
    model: Name
    finish_reason: FinishReason
    usage: TokenUsage


class InferenceChunk(Value, frozen=True):
    """The params of `inference/chunk`."""

    request_id: Id
    index: Count
    delta: str
