"""The common parts of model APIs that stream their answers as events.

Each API has a subclass of `StreamedModel`, which writes requests, and of `AnswerReader`, which reads events.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Final

import msgspec

from interlock.config.model_settings import ModelSettings
from interlock.host.models.endpoint import EndpointSecrets, ModelEndpoint, cut_off
from interlock.host.models.media import presentable
from interlock.host.models.model import (
    MAX_ARGUMENT_BYTES,
    MAX_CALLS,
    AnswerFinished,
    Chunk,
    Finish,
    ModelPrompt,
    ToolUse,
    believable,
    estimated,
    size_of,
    size_of_chunk,
)
from interlock.protocols.mcpl.inference import ModelInfo, TokenUsage
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault
from interlock.wire.sse import SseEvent

MAX_NAME_CHARS: Final = 256
"""Characters of a tool's name in an answer."""
UNSEEN_TOKENS: Final = 4096
"""Tokens that an endpoint may count beyond an estimate, for its own instructions and for images that it fetches."""


class StreamedModel(abc.ABC):
    """A model behind one endpoint."""

    def __init__(
        self, settings: ModelSettings, vendor: str, url: str, headers: Mapping[str, str], resolver: Resolver
    ) -> None:
        self._settings = settings
        self._endpoint = ModelEndpoint(settings, url, headers, resolver)
        self.info = ModelInfo(settings.model, settings.vendor or vendor, settings.context_window, settings.capabilities)

    async def stream(self, prompt: ModelPrompt) -> AsyncGenerator[Chunk, None]:
        """The answer in chunks. Raises a `Fault`."""
        answer, written = self._reader(), 0
        body = await self._body(presentable(prompt, self.info.capabilities))
        async with aclosing(self._endpoint.events(body)) as events:
            async for event in events:
                for chunk in answer.take(event):
                    written += size_of_chunk(chunk)
                    yield chunk
                if answer.ended:
                    break
        for chunk in answer.end():
            written += size_of_chunk(chunk)
            if isinstance(chunk, AnswerFinished) and chunk.usage is not None:
                counted = estimated(prompt, written)
                # In rare scripts, a tokenizer takes one token for each of up to three bytes of a character.
                slack = UNSEEN_TOKENS + size_of(prompt)
                usage = believable(chunk.usage, counted, self._max_tokens(prompt), slack)
                chunk = msgspec.structs.replace(chunk, usage=usage)
            yield chunk

    async def drain(self) -> None:
        await self._endpoint.drain()

    async def close(self) -> None:
        await self._endpoint.close()

    @abc.abstractmethod
    async def _body(self, prompt: ModelPrompt) -> bytes:
        """The request body. Stable parts come first, messages last."""

    @abc.abstractmethod
    def _reader(self) -> AnswerReader:
        """A reader for one answer."""

    def _max_tokens(self, prompt: ModelPrompt) -> int:
        return min(prompt.max_tokens or self._settings.max_tokens, self._settings.max_tokens)

    def _temperature(self, prompt: ModelPrompt) -> float | None:
        return self._settings.temperature if prompt.temperature is None else prompt.temperature


class PartialCall(msgspec.Struct):
    """A tool call that is still being received."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def extend(self, arguments: str, name: str = "") -> None:
        """Add a piece. Raises TOO_LARGE."""
        self.name += name
        self.arguments += arguments
        if len(self.name) > MAX_NAME_CHARS or len(self.arguments) > MAX_ARGUMENT_BYTES:
            raise Fault("TOO_LARGE", f"a tool call of the model is larger than {MAX_ARGUMENT_BYTES} bytes")


class AnswerReader(abc.ABC):
    """Reads one answer from its events."""

    def __init__(self, secrets: EndpointSecrets) -> None:
        self._secrets = secrets
        self.ended = False
        """Whether the API said that no further event comes."""
        self._finish: Finish | None = None
        self._usage: TokenUsage | None = None
        self._calls: dict[int, PartialCall] = {}
        """The tool calls by their index."""

    @abc.abstractmethod
    def take(self, event: SseEvent) -> Iterator[Chunk]:
        """The chunks of one event. Raises a `Fault`."""

    def end(self) -> Iterator[Chunk]:
        """The tool calls and the end of the answer. Raises a `Fault` for an incomplete answer."""
        if self._finish is None:
            raise cut_off()
        for index, call in sorted(self._calls.items()):
            yield ToolUse(call.id or f"call_{index}", call.name, call.arguments)
        # No prompt has 0 tokens, so an endpoint that says so does not count.
        usage = self._usage if self._usage is not None and self._usage.input_tokens else None
        # Some endpoints give a wrong stop reason after tool calls.
        yield AnswerFinished("tool_use" if self._calls else self._finish, usage)

    def _begin_call(self, index: int, call: PartialCall) -> PartialCall:
        """Begin a tool call. Raises TOO_LARGE."""
        if len(self._calls) >= MAX_CALLS:
            raise Fault("TOO_LARGE", f"the model asks for more than {MAX_CALLS} tool calls at once")
        self._calls[index] = call
        return call
