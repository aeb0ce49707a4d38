"""Models behind Anthropic's messages API: `POST …/v1/messages`, streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import msgspec

from interlock.config.model_settings import Model as Settings
from interlock.host.models.endpoint import Endpoint, arguments_of, body_of, cut_off, read, reported
from interlock.host.models.model import (
    MOST_ARGUMENT_BYTES,
    MOST_CALLS,
    Chunk,
    Finish,
    Finished,
    Message,
    Part,
    Prompt,
    TextDelta,
    ThinkingDelta,
    TokenCount,
    ToolResult,
    ToolUse,
)
from interlock.protocols.mcpl.content import Image, Text
from interlock.protocols.mcpl.inference import ModelInfo, Usage
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

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
"""The reasons of this API. One that is not here counts as `end_turn`."""
_CACHED: Final = {"type": "ephemeral"}


class AnthropicModel:
    """A model of Anthropic's API."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        url = (settings.url or ADDRESS).rstrip("/").removesuffix("/messages").removesuffix("/v1") + "/v1/messages"
        headers = {"anthropic-version": VERSION} | ({"x-api-key": settings.key} if settings.key else {})
        self._settings = settings
        self._endpoint = Endpoint(settings, url, headers, resolver)
        self.info = ModelInfo(
            settings.model, settings.vendor or "anthropic", settings.context_window, settings.capabilities
        )

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Chunk, None]:
        """The answer in chunks. Raises a `Fault`."""
        answer = _Answer()
        async for event in self._endpoint.events(await self._body(prompt)):
            for chunk in answer.take(read(event, _Event)):
                yield chunk
            if answer.ended:
                break
        for chunk in answer.end():
            yield chunk

    async def drain(self) -> None:
        await self._endpoint.drain()

    async def close(self) -> None:
        await self._endpoint.close()

    async def _body(self, prompt: Prompt) -> bytes:
        """The request. Its stable parts stand first, and the messages last."""
        settings = self._settings
        body: dict[str, Any] = {
            "model": settings.model,
            "stream": True,
            "max_tokens": min(prompt.max_tokens or settings.max_tokens, settings.max_tokens),
        }
        temperature = settings.temperature if prompt.temperature is None else prompt.temperature
        if temperature is not None:
            body["temperature"] = min(temperature, 1.0)
        if prompt.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in prompt.tools
            ]
        if prompt.system:
            # The endpoint keeps tools and system up to this mark, which every turn of a conversation shares.
            body["system"] = [{"type": "text", "text": prompt.system, "cache_control": _CACHED}]
        return await body_of(body, prompt, _messages)


class _Answer:
    """An answer as its events tell it."""

    def __init__(self) -> None:
        self.ended = False
        self._calls: dict[int, list[str]] = {}
        """Id, name and arguments of each tool call, by the index of its block."""
        self._finish: Finish | None = None
        self._input: int | None = None
        self._output = 0

    def take(self, event: _Event) -> Iterator[Chunk]:
        """The chunks of one event. Raises a `Fault`."""
        if event.type == "error":
            raise reported((event.error or _Error()).message)
        if event.type == "message_start" and event.message is not None:
            used = event.message.usage
            self._input = used.input_tokens + used.cache_read_input_tokens + used.cache_creation_input_tokens
        elif event.type == "content_block_start" and event.content_block is not None:
            block = event.content_block
            if block.type == "tool_use":
                if len(self._calls) >= MOST_CALLS:
                    raise Fault("TOO_LARGE", f"the model asks for more than {MOST_CALLS} tool calls at once")
                self._calls[event.index] = [block.id, block.name[:256], ""]
            elif block.type == "text" and block.text:
                yield TextDelta(block.text)
        elif event.type == "content_block_delta" and event.delta is not None:
            yield from self._delta(event.index, event.delta)
        elif event.type == "message_delta":
            if event.delta is not None and event.delta.stop_reason is not None:
                self._finish = FINISH.get(event.delta.stop_reason, "end_turn")
            if event.usage is not None:
                self._output = event.usage.output_tokens
        elif event.type == "message_stop":
            self.ended = True

    def end(self) -> Iterator[Chunk]:
        """The tool calls and the end. Raises a `Fault` for an answer that has none."""
        if self._finish is None:
            raise cut_off()
        for _, (id_, name, arguments) in sorted(self._calls.items()):
            yield ToolUse(id_, name, arguments)
        usage = None if self._input is None else Usage(self._input, self._output)
        yield Finished("tool_use" if self._calls else self._finish, usage)

    def _delta(self, index: int, delta: _Delta) -> Iterator[Chunk]:
        if delta.type == "text_delta" and delta.text:
            yield TextDelta(delta.text)
        elif delta.type == "thinking_delta" and delta.thinking:
            yield ThinkingDelta(delta.thinking)
        elif delta.type == "input_json_delta":
            call = self._calls.get(index)
            if call is None:
                raise Fault("UPSTREAM_ERROR", "the model's endpoint sent arguments of a tool call that it never began")
            call[2] += delta.partial_json
            if len(call[2]) > MOST_ARGUMENT_BYTES:
                raise Fault("TOO_LARGE", f"a tool call of the model is larger than {MOST_ARGUMENT_BYTES} bytes")


def _messages(message: Message) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": [_part(part) for part in _results_first(message.parts)]}]


def _results_first(parts: tuple[Part, ...]) -> list[Part]:
    """The API wants the results of tools before everything else in their message."""
    return sorted(parts, key=lambda part: not isinstance(part, ToolResult))


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolUse):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_of(part.arguments) or {}}
    if isinstance(part, ToolResult):
        content: str | list[dict[str, Any]] = part.text
        if part.images:
            content = [*([{"type": "text", "text": part.text}] if part.text else []), *map(_part, part.images)]
        return {"type": "tool_result", "tool_use_id": part.id, "content": content, "is_error": part.failed}
    if isinstance(part, Image):
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
