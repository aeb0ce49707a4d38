"""Models behind Anthropic's messages API: `POST …/v1/messages`, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from interlock.config.model_settings import ModelSettings
from interlock.host.models.endpoint import EndpointSecrets, arguments_of, body_of, read, reported
from interlock.host.models.model import (
    Chunk,
    Finish,
    ModelMessage,
    ModelPrompt,
    ModelToolResult,
    Part,
    TextDelta,
    ThinkingDelta,
    TokenCount,
    ToolUse,
)
from interlock.host.models.streamed_model import MAX_NAME_CHARS, AnswerReader, PartialCall, StreamedModel
from interlock.protocols.mcpl.content import ImageContent, TextContent
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault
from interlock.wire.sse import SseEvent

ADDRESS: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
FINISH: Final[dict[str, Finish]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "pause_turn": "end_turn",
    "refusal": "refusal",
}
"""The stop reasons of this API. An unknown one counts as `end_turn`."""
_CACHED: Final = {"type": "ephemeral"}


class AnthropicModel(StreamedModel):
    """A model of Anthropic's API."""

    def __init__(self, settings: ModelSettings, resolver: Resolver) -> None:
        url = (settings.url or ADDRESS).rstrip("/").removesuffix("/messages").removesuffix("/v1") + "/v1/messages"
        headers = {"anthropic-version": VERSION} | ({"x-api-key": settings.key} if settings.key else {})
        super().__init__(settings, "anthropic", url, headers, resolver)

    def _reader(self) -> _StreamReader:
        return _StreamReader(self._endpoint.secrets)

    async def _body(self, prompt: ModelPrompt) -> bytes:
        body: dict[str, Any] = {
            "model": self._settings.model,
            "stream": True,
            "max_tokens": self._max_tokens(prompt),
        }
        temperature = self._temperature(prompt)
        if temperature is not None:
            body["temperature"] = min(temperature, 1.0)
        if prompt.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in prompt.tools
            ]
        if prompt.system:
            # The endpoint caches tools and system up to this mark. They are the same in every turn of a conversation.
            body["system"] = [{"type": "text", "text": prompt.system, "cache_control": _CACHED}]
        return await body_of(body, prompt, _messages)


class _StreamReader(AnswerReader):
    """Reads one answer. A tool call has the index of its block."""

    def __init__(self, secrets: EndpointSecrets) -> None:
        super().__init__(secrets)
        self._input: int | None = None

    def take(self, event: SseEvent) -> Iterator[Chunk]:
        decoded = read(event, _Event)
        if decoded.type == "error":
            raise reported((decoded.error or _Error()).message, self._secrets)
        if decoded.type == "message_start" and decoded.message is not None:
            used = decoded.message.usage
            self._input = used.input_tokens + used.cache_read_input_tokens + used.cache_creation_input_tokens
            self._usage = TokenUsage(self._input, 0)
        elif decoded.type == "content_block_start" and decoded.content_block is not None:
            block = decoded.content_block
            if block.type == "tool_use":
                self._begin_call(decoded.index, PartialCall(block.id, block.name[:MAX_NAME_CHARS]))
            elif block.type == "text" and block.text:
                yield TextDelta(block.text)
        elif decoded.type == "content_block_delta" and decoded.delta is not None:
            yield from self._delta(decoded.index, decoded.delta)
        elif decoded.type == "message_delta":
            if decoded.delta is not None and decoded.delta.stop_reason is not None:
                self._finish = FINISH.get(decoded.delta.stop_reason, "end_turn")
            if decoded.usage is not None and self._input is not None:
                self._usage = TokenUsage(self._input, decoded.usage.output_tokens)
        elif decoded.type == "message_stop":
            self.ended = True

    def _delta(self, index: int, delta: _Delta) -> Iterator[Chunk]:
        if delta.type == "text_delta" and delta.text:
            yield TextDelta(delta.text)
        elif delta.type == "thinking_delta" and delta.thinking:
            yield ThinkingDelta(delta.thinking)
        elif delta.type == "input_json_delta":
            call = self._calls.get(index)
            if call is None:
                raise Fault("UPSTREAM_ERROR", "the model's endpoint sent arguments of a tool call that it never began")
            call.extend(delta.partial_json)


def _messages(message: ModelMessage) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": [_part(part) for part in _results_first(message.parts)]}]


def _results_first(parts: tuple[Part, ...]) -> list[Part]:
    """The parts of a message with tool results first, as the API requires."""
    return sorted(parts, key=lambda part: not isinstance(part, ModelToolResult))


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolUse):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_of(part.arguments) or {}}
    if isinstance(part, ModelToolResult):
        content: str | list[dict[str, Any]] = part.text
        if part.images:
            content = [*([{"type": "text", "text": part.text}] if part.text else []), *map(_part, part.images)]
        return {"type": "tool_result", "tool_use_id": part.id, "content": content, "is_error": part.failed}
    if isinstance(part, ImageContent):
        source: dict[str, Any] = {"type": "url", "url": part.uri}
        if part.uri is None:
            source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": msgspec.json.encode(part).decode()}


class _Used(msgspec.Struct):
    input_tokens: TokenCount = 0
    output_tokens: TokenCount = 0
    cache_read_input_tokens: TokenCount = 0
    cache_creation_input_tokens: TokenCount = 0


class _Started(msgspec.Struct):
    usage: _Used = msgspec.field(default_factory=_Used)


class _Block(msgspec.Struct):
    type: str
    id: str = ""
    name: str = ""
    text: str = ""


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Error(msgspec.Struct):
    message: str = "no reason given"


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Started | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Used | None = None
    error: _Error | None = None
