"""The interface of models: a prompt goes in, chunks come out.

A model raises a `Fault` for every failure of its endpoint. `AnswerFinished` is the last chunk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final, Literal, Protocol, TypeAlias

import msgspec

from interlock.protocols.mcpl.content import (
    AudioContent,
    ImageContent,
    ResourceContent,
    ResourceLinkContent,
    TextContent,
)
from interlock.protocols.mcpl.inference import FinishReason, ModelInfo, TokenUsage

BYTES_PER_TOKEN: Final = 4
"""Used for estimates, if an endpoint does not count tokens."""
IMAGE_CHARS: Final = 1_600 * BYTES_PER_TOKEN
"""The size of an image in estimates. An image takes at most about 1,600 tokens, depending on its pixels."""
MAX_CALLS: Final = 64
"""Tool calls in one answer."""
MAX_ARGUMENT_BYTES: Final = 1024 * 1024
"""Bytes of the arguments of one tool call."""
MAX_COUNT: Final = 2**40
CLAIM_FACTOR: Final = 8
"""The factor by which a token count of a peer may differ from the hub's estimate, because tokenizers differ."""

TokenCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
"""A number of tokens that an endpoint states."""

Finish = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
"""Why a model stopped. `tool_use` waits for results, `refusal` is the endpoint's own filter."""


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A tool call as the model wrote it."""

    id: str
    name: str
    arguments: str
    """The arguments as the model wrote them, usually JSON."""


class ModelToolResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    """The result of a call, for the model."""

    id: str
    text: str
    failed: bool = False
    images: tuple[ImageContent, ...] = ()
    """Images of the result, for a model with vision."""
    refused: bool = False
    """Whether a gate of the hub refused the call, so that it had no effect."""


Part: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceContent | ResourceLinkContent | ToolUse | ModelToolResult
)


class InjectedOrigin(msgspec.Struct, frozen=True):
    """The origin of a part of a message that a server added."""

    part: int
    """The index of the part."""
    server: str
    namespace: str


class ModelMessage(msgspec.Struct, frozen=True):
    """One message of a prompt."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    injected: tuple[InjectedOrigin, ...] = ()
    """The parts that servers added. The text alone does not show that, because anybody could imitate the label."""


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str
    schema: msgspec.Raw
    """The JSON Schema of its arguments."""


class ModelPrompt(msgspec.Struct, frozen=True):
    """Everything a model reads, in the order in which it is sent: the stable parts first."""

    messages: tuple[ModelMessage, ...]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the answer."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """A piece of the model's reasoning, which is not part of the answer."""

    text: str


class AnswerFinished(msgspec.Struct, frozen=True):
    """The last chunk of an answer: why it ended, and its cost."""

    reason: Finish
    usage: TokenUsage | None = None
    """None where the endpoint does not count."""


Chunk: TypeAlias = TextDelta | ThinkingDelta | ToolUse | AnswerFinished


class Model(Protocol):
    """A language model, however it is reached: an endpoint, a client, or a script."""

    @property
    def info(self) -> ModelInfo:
        """The model information for servers."""

    def stream(self, prompt: ModelPrompt) -> AsyncGenerator[Chunk, None]:
        """The answer in chunks. Raises a `Fault`."""


class ConfiguredModel(Model, Protocol):
    """A configured model, with its own connections."""

    async def drain(self) -> None:
        """Wait until no answer is being read."""

    async def close(self) -> None:
        """Close its connections. Answers that are being read fail."""


def estimated(prompt: ModelPrompt, answer_chars: int) -> TokenUsage:
    """The tokens of an inference whose endpoint does not count."""
    return TokenUsage(size_of(prompt) // BYTES_PER_TOKEN + 1, answer_chars // BYTES_PER_TOKEN + 1)


def believable(claimed: TokenUsage, counted: TokenUsage, most: int, slack: int = 0) -> TokenUsage:
    """The token count of a client or an endpoint, limited to a range around the hub's own estimate.

    So a wrong count can neither use up a server's budget nor let a server spend without limit. `most` is the longest
    answer that was requested, which includes hidden text such as reasoning. `slack` allows for prompt tokens that the
    hub does not see.
    """
    least_in, least_out = counted.input_tokens // CLAIM_FACTOR, counted.output_tokens // CLAIM_FACTOR
    return TokenUsage(
        min(max(claimed.input_tokens, least_in), counted.input_tokens * CLAIM_FACTOR + slack),
        min(max(claimed.output_tokens, least_out), max(most, counted.output_tokens * CLAIM_FACTOR)),
    )


def size_of_chunk(chunk: Chunk) -> int:
    """The characters that a model wrote in a chunk, its reasoning included."""
    if isinstance(chunk, ToolUse):
        return len(chunk.name) + len(chunk.arguments)
    return 0 if isinstance(chunk, AnswerFinished) else len(chunk.text)


def size_of(prompt: ModelPrompt) -> int:
    """The approximate number of characters of a prompt. It is called often, so it encodes nothing."""
    tools = sum(len(tool.name) + len(tool.description) + len(bytes(tool.schema)) for tool in prompt.tools)
    parts = sum(_size(part) for message in prompt.messages for part in message.parts)
    return len(prompt.system) + tools + parts


def _size(part: Part) -> int:
    if isinstance(part, ModelToolResult):
        return len(part.text) + sum(_size(image) for image in part.images)
    if isinstance(part, TextContent):
        return len(part.text)
    if isinstance(part, ToolUse):
        return len(part.name) + len(part.arguments)
    if isinstance(part, ImageContent) and part.data is not None:
        return min(len(part.data), IMAGE_CHARS)
    if isinstance(part, ImageContent | AudioContent):
        return len(part.data or part.uri or "")
    return len(msgspec.json.encode(part))


def for_servers(reason: Finish) -> FinishReason:
    """The stop reason in MCPL, which has none for tools and filters."""
    return reason if reason in ("max_tokens", "stop_sequence") else "end_turn"
