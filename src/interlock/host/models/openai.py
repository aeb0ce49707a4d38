"""Models behind an endpoint with OpenAI's chat completions: `POST …/chat/completions`, streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from interlock.config.model_settings import Model as Settings
from interlock.host.models.endpoint import Endpoint, body_of, cut_off, read, reported
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
    ToolDefinition,
    ToolResult,
    ToolUse,
)
from interlock.protocols.mcpl.content import Audio, Image, Text
from interlock.protocols.mcpl.inference import ModelInfo, Usage
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

ADDRESS: Final = "https://api.openai.com/v1"
FINISH: Final[dict[str, Finish]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""The reasons of this API. One that is not here counts as `end_turn`."""


class OpenAiModel:
    """A model of an OpenAI-compatible endpoint."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        url = (settings.url or ADDRESS).rstrip("/")
        url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        self._settings = settings
        self._endpoint = Endpoint(settings, url, headers, resolver)
        # OpenAI's newer models refuse `max_tokens`, other endpoints know nothing else.
        self._bound = "max_completion_tokens" if urlsplit(url).hostname == "api.openai.com" else "max_tokens"
        self.info = ModelInfo(
            settings.model, settings.vendor or "openai", settings.context_window, settings.capabilities
        )

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Chunk, None]:
        """The answer in chunks. Raises a `Fault`."""
        answer = _Answer()
        async for event in self._endpoint.events(await self._body(prompt)):
            if event.data.strip() == b"[DONE]":
                break
            for chunk in answer.take(read(event, _Event)):
                yield chunk
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
            "stream_options": {"include_usage": True},
            self._bound: min(prompt.max_tokens or settings.max_tokens, settings.max_tokens),
        }
        temperature = settings.temperature if prompt.temperature is None else prompt.temperature
        if temperature is not None:
            body["temperature"] = temperature
        if prompt.tools:
            body["tools"] = [_tool(tool) for tool in prompt.tools]
        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        first = prompt.messages[0] if prompt.messages else None

        def messages(message: Message) -> Iterator[dict[str, Any]]:
            yield from system if message is first else ()
            yield from _messages(message)

        return await body_of(body, prompt, messages)


class _Answer:
    """An answer as its events tell it."""

    def __init__(self) -> None:
        self._calls: dict[int, list[str]] = {}
        """Id, name and arguments of each tool call, by its index."""
        self._finish: Finish | None = None
        self._usage: Usage | None = None

    def take(self, event: _Event) -> Iterator[Chunk]:
        """The chunks of one event. Raises a `Fault`."""
        if event.error is not None:
            raise reported(event.error.message)
        if event.usage is not None:
            self._usage = Usage(event.usage.prompt_tokens, event.usage.completion_tokens)
        for choice in event.choices[:1]:
            delta = choice.delta
            if delta.reasoning_content:
                yield ThinkingDelta(delta.reasoning_content)
            if delta.content or delta.refusal:
                yield TextDelta((delta.content or "") + (delta.refusal or ""))
            for call in delta.tool_calls or ():
                self._add(call)
            if choice.finish_reason is not None:
                self._finish = FINISH.get(choice.finish_reason, "end_turn")

    def end(self) -> Iterator[Chunk]:
        """The tool calls and the end. Raises a `Fault` for an answer that has none."""
        if self._finish is None:
            raise cut_off()
        for index, (id_, name, arguments) in sorted(self._calls.items()):
            yield ToolUse(id_ or f"call_{index}", name, arguments)
        # Some endpoints say `stop` after tool calls.
        yield Finished("tool_use" if self._calls else self._finish, self._usage)

    def _add(self, call: _Call) -> None:
        known = self._calls.get(call.index)
        if known is None:
            if len(self._calls) >= MOST_CALLS:
                raise Fault("TOO_LARGE", f"the model asks for more than {MOST_CALLS} tool calls at once")
            known = self._calls[call.index] = ["", "", ""]
        known[0] = call.id or known[0]
        if call.function is not None:
            known[1] += call.function.name or ""
            known[2] += call.function.arguments or ""
        if len(known[1]) > 256 or len(known[2]) > MOST_ARGUMENT_BYTES:
            raise Fault("TOO_LARGE", f"a tool call of the model is larger than {MOST_ARGUMENT_BYTES} bytes")


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    """A message as this API has it: the result of each call is a message of its own, before anything else."""
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield {"role": "tool", "tool_call_id": part.id, "content": part.text}
    calls = [part for part in message.parts if isinstance(part, ToolUse)]
    parts = [part for part in message.parts if not isinstance(part, ToolUse | ToolResult)]
    # Results are text in this API, so their images follow as a message of the user.
    shown = [(part.id, part.images) for part in message.parts if isinstance(part, ToolResult) and part.images]
    seen: list[Text | Image] = []
    for id_, images in shown:
        seen += [Text(f"[Images of the result of {id_}]"), *images]
    parts = [*seen, *parts]
    if not parts and not calls:
        return
    said: dict[str, Any] = {"role": message.role}
    texts = [part.text for part in parts if isinstance(part, Text)]
    said["content"] = "\n\n".join(texts) if len(texts) == len(parts) else [_part(part) for part in parts]
    if calls:
        said["content"] = said["content"] or None
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in calls
        ]
    yield said


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        url = part.uri if part.uri is not None else f"data:{part.mime_type};base64,{part.data}"
        return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(part, Audio) and part.data is not None:
        form = (part.mime_type or "").rpartition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": "mp3" if form == "mpeg" else form}}
    return {"type": "text", "text": msgspec.json.encode(part).decode()}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount = 0


class _Error(msgspec.Struct):
    message: str = "no reason given"


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | None = None
