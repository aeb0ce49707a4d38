"""Models behind an endpoint with OpenAI's chat completions: `POST …/chat/completions`, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

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
    ToolDefinition,
    ToolUse,
)
from interlock.host.models.streamed_model import AnswerReader, PartialCall, StreamedModel
from interlock.protocols.mcpl.content import AudioContent, ImageContent, TextContent
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.transports.resolving import Resolver
from interlock.wire.sse import SseEvent

ADDRESS: Final = "https://api.openai.com/v1"
FINISH: Final[dict[str, Finish]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""The finish reasons of this API. An unknown one counts as `end_turn`."""


class OpenAiModel(StreamedModel):
    """A model of an OpenAI-compatible endpoint."""

    def __init__(self, settings: ModelSettings, resolver: Resolver) -> None:
        url = (settings.url or ADDRESS).rstrip("/")
        url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        super().__init__(settings, "openai", url, headers, resolver)
        # OpenAI's newer models refuse `max_tokens`, which is the only name that other endpoints know.
        self._bound = "max_completion_tokens" if urlsplit(url).hostname == "api.openai.com" else "max_tokens"

    def _reader(self) -> _StreamReader:
        return _StreamReader(self._endpoint.secrets)

    async def _body(self, prompt: ModelPrompt) -> bytes:
        body: dict[str, Any] = {
            "model": self._settings.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            self._bound: self._max_tokens(prompt),
        }
        temperature = self._temperature(prompt)
        if temperature is not None:
            body["temperature"] = temperature
        if prompt.tools:
            body["tools"] = [_tool(tool) for tool in prompt.tools]
        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        first = prompt.messages[0] if prompt.messages else None

        def messages(message: ModelMessage) -> Iterator[dict[str, Any]]:
            yield from system if message is first else ()
            yield from _messages(message)

        return await body_of(body, prompt, messages)


class _StreamReader(AnswerReader):
    """Reads one answer. Pieces of a tool call name its index, but some endpoints repeat or omit it."""

    def __init__(self, secrets: EndpointSecrets) -> None:
        super().__init__(secrets)
        self._at: dict[int | None, PartialCall] = {}
        """The newest call of each index."""

    def take(self, event: SseEvent) -> Iterator[Chunk]:
        if event.data.strip() == b"[DONE]":
            self.ended = True
            return
        decoded = read(event, _Event)
        if decoded.error is not None:
            raise reported(decoded.error.message, self._secrets)
        if decoded.usage is not None:
            self._usage = TokenUsage(decoded.usage.prompt_tokens, decoded.usage.completion_tokens)
        for choice in decoded.choices[:1]:
            delta = choice.delta
            thought = delta.reasoning_content or delta.reasoning
            if isinstance(thought, str) and thought:
                yield ThinkingDelta(thought)
            if delta.content or delta.refusal:
                yield TextDelta((delta.content or "") + (delta.refusal or ""))
            for call in delta.tool_calls or ():
                self._add(call)
            if choice.finish_reason is not None:
                self._finish = FINISH.get(choice.finish_reason, "end_turn")

    def _add(self, call: _Call) -> None:
        function = call.function or _Function()
        known = self._at.get(call.index)
        if known is None or (function.name and known.name and _is_another(call, known)):
            known = self._at[call.index] = self._begin_call(len(self._calls), PartialCall())
        known.id = known.id or call.id or ""
        known.extend(function.arguments or "", function.name or "")


def _is_another(call: _Call, known: PartialCall) -> bool:
    """Whether a piece with a name begins another call. At some endpoints, pieces without a name have varying ids."""
    return call.id != known.id if call.id else call.index is None


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _messages(message: ModelMessage) -> Iterator[dict[str, Any]]:
    """The API messages for one message: first each tool result as a message of its own, then the rest."""
    for part in message.parts:
        if isinstance(part, ModelToolResult):
            yield {"role": "tool", "tool_call_id": part.id, "content": part.text}
    calls = [part for part in message.parts if isinstance(part, ToolUse)]
    parts = [part for part in message.parts if not isinstance(part, ToolUse | ModelToolResult)]
    # Tool results are text in this API, so their images follow as a user message.
    shown = [(part.id, part.images) for part in message.parts if isinstance(part, ModelToolResult) and part.images]
    seen: list[TextContent | ImageContent] = []
    for id_, images in shown:
        seen += [TextContent(f"[Images of the result of {id_}]"), *images]
    parts = [*seen, *parts]
    if not parts and not calls:
        return
    written: dict[str, Any] = {"role": message.role}
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    written["content"] = "\n\n".join(texts) if len(texts) == len(parts) else [_part(part) for part in parts]
    if calls:
        written["content"] = written["content"] or None
        written["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
            for call in calls
        ]
    yield written


def _arguments(call: ToolUse) -> str:
    """The arguments as the model wrote them, or an empty object if they are not one, which some endpoints refuse."""
    return call.arguments if call.arguments and arguments_of(call.arguments) is not None else "{}"


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImageContent):
        url = part.uri if part.uri is not None else f"data:{part.mime_type};base64,{part.data}"
        return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(part, AudioContent) and part.data is not None:
        form = (part.mime_type or "").rpartition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": "mp3" if form == "mpeg" else form}}
    return {"type": "text", "text": msgspec.json.encode(part).decode()}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: object = None
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
