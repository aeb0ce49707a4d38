"""The HTTP client of model endpoints: one request, its events, and its failures.

A request to a busy endpoint is repeated after its `Retry-After`, but never sooner than without that header, and within
the model's `wait_s`. After the first part of an answer, it is not repeated. Errors never contain the endpoint's key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from interlock.config.model_settings import ModelSettings
from interlock.host.models.model import ModelMessage, ModelPrompt, size_of
from interlock.judge.secrets import redact
from interlock.transports.http.client.refusals import retry_after_ms
from interlock.transports.http.client.streamed_post import ResponseHead, StreamedAnswer, StreamedPost
from interlock.transports.resolving import Resolver, guarded_for
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS, decode_json, decode_json_or
from interlock.wire.sse import EventReader, EventTooLarge, SseEvent

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one answer."""
MAX_EVENT_BYTES: Final = 2 * 1024 * 1024
MAX_ERROR_BYTES: Final = 64 * 1024
FIRST_PAUSE_S: Final = 0.5
PING: Final = "ping"
"""The name of events that only keep a connection open."""
KEPT_ALIVE: Final = 10
"""An answer with only comments and pings stays open for this many times `idle_s`."""
SHORTEST_SECRET: Final = 6
"""Characters from which a key is hidden in messages. A shorter key, such as `none`, is a placeholder."""
BUSY: Final = frozenset({429, 500, 502, 503, 504, 529})
"""Statuses after which the same request may succeed."""

SMALL_CHARS: Final = 32 * 1024
"""A prompt up to this size is encoded on the loop, a larger one in a thread."""

T = TypeVar("T")


class ModelEndpoint:
    """One address of a model API."""

    def __init__(self, settings: ModelSettings, url: str, headers: Mapping[str, str], resolver: Resolver) -> None:
        self._settings = settings
        self.secrets = EndpointSecrets.of(settings)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._post = StreamedPost(url, headers, guard=guarded_for(url, resolver), most_bytes=MAX_BYTES)

    async def events(self, body: bytes) -> AsyncGenerator[SseEvent, None]:
        """The events of the answer to a request. Raises a `Fault`."""
        self._under_way += 1
        self._idle.clear()
        answer: StreamedAnswer | None = None
        clock = _AnswerClock(self._settings)
        try:
            answer = await self._good_answer(body, clock)
            reader = EventReader(MAX_EVENT_BYTES)
            async for piece in answer.pieces(self._settings.idle_s):
                found = reader.feed(piece)
                clock.check(progress=any(event.event != PING for event in found))
                for event in found:
                    yield event
        except EventTooLarge as cause:
            raise Fault("TOO_LARGE", f"the model's endpoint sent too large an event: {cause}") from None
        finally:
            if answer is not None:
                answer.close()
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def drain(self) -> None:
        """Wait until no answer is under way."""
        while self._under_way:
            await self._idle.wait()

    async def close(self) -> None:
        """Close the connections. Answers that are under way fail."""
        await self._post.close()

    async def _good_answer(self, body: bytes, clock: _AnswerClock) -> StreamedAnswer:
        """An answer that is an event stream, after as many attempts as the settings have time for."""
        ends, pause, fresh = time.monotonic() + self._settings.wait_s, FIRST_PAUSE_S, False
        while True:
            answer = self._post.send(body, fresh=fresh)
            try:
                head = await answer.start(self._settings.idle_s)
                if head.status == 200 and head.headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                    return answer
                fault = await self._refusal(answer, head, clock)
            except Fault:
                answer.close()
                if not answer.stale or fresh:
                    raise
                fresh = True  # The endpoint closed an idle connection, so the request did not fail.
                continue
            except BaseException:
                answer.close()
                raise
            answer.close()
            retry_after_ms = fault.retry_after_ms
            # `Retry-After: 0`, or a date from a slow clock, must not cause a storm of requests.
            wait_s = max(pause, 0 if retry_after_ms is None else retry_after_ms / 1000)
            if head.status not in BUSY or time.monotonic() + wait_s > ends:
                raise fault
            pause *= 2
            await asyncio.sleep(wait_s)

    async def _refusal(self, answer: StreamedAnswer, head: ResponseHead, clock: _AnswerClock) -> Fault:
        """The error for an answer that is not an event stream."""
        body = b""
        async for piece in answer.pieces(self._settings.idle_s):
            clock.check(progress=False)
            body += piece
            if len(body) > MAX_ERROR_BYTES:
                break
        why = self.secrets.hidden_in(_reason(body))
        if head.status == 200:
            return Fault("UPSTREAM_ERROR", "the model's endpoint did not answer with an event stream", hint=_CHECK)
        message = f"the model's endpoint answered with status {head.status}" + (f": {why}" if why else "")
        data: dict[str, object] = {"status": head.status}
        if head.status in (401, 403):
            return Fault("UPSTREAM_ERROR", message, hint="check `key` in [models.NAME]", data=data)
        if head.status == 429:
            return Fault("RATE_LIMITED", message, retry_after_ms=retry_after_ms(head.headers), data=data)
        if head.status in BUSY:
            return Fault("UPSTREAM_UNAVAILABLE", message, retry_after_ms=retry_after_ms(head.headers), data=data)
        return Fault("UPSTREAM_ERROR", message, hint=_CHECK, data=data)


class EndpointSecrets:
    """The secrets that the hub sends to one endpoint. Some endpoints and proxies quote them in errors."""

    def __init__(self, texts: Iterable[str]) -> None:
        found = {form for text in texts for form in (text, quote(text, safe="")) if len(text) >= SHORTEST_SECRET}
        self._texts = sorted(found, key=len, reverse=True)

    @classmethod
    def of(cls, settings: ModelSettings) -> EndpointSecrets:
        """The key, and the user, password and query of the address."""
        try:
            parts = urlsplit(settings.url or "")
            values = [pair.partition("=")[2] for pair in parts.query.split("&")]
            texts = [settings.key or "", parts.username or "", parts.password or "", *values]
        except ValueError:
            texts = [settings.key or ""]
        return cls([*texts, *map(unquote, texts)])

    def hidden_in(self, message: str) -> str:
        """The message without secrets, cut to a bounded length."""
        # Replace the endpoint's own secrets first. The other patterns, or the cut, could leave a part of one.
        for text in self._texts:
            message = message.replace(text, "[secret: model key]")
        return redact(message)[:500]


class _AnswerClock:
    """The time limits of one answer: in total, and between two of its events."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._began = self._progress = time.monotonic()

    def check(self, *, progress: bool) -> None:
        """Note that bytes arrived. Raises UPSTREAM_TIMEOUT if the answer takes too long."""
        now, settings = time.monotonic(), self._settings
        if now - self._began > settings.answer_s:
            message = f"the model's endpoint did not end its answer within {settings.answer_s:g} s"
            raise Fault("UPSTREAM_TIMEOUT", message, hint="raise `answer_s` in [models.NAME]")
        if progress:
            self._progress = now
        elif now - self._progress > KEPT_ALIVE * settings.idle_s:
            kept = f"{KEPT_ALIVE * settings.idle_s:g} s"
            raise Fault("UPSTREAM_TIMEOUT", f"the model's endpoint sent only comments and pings for {kept}")


_CHECK: Final = "check `url` and `model` in [models.NAME]"


async def body_of(
    stable: Mapping[str, Any], prompt: ModelPrompt, messages: Callable[[ModelMessage], Iterable[Any]]
) -> bytes:
    """The JSON of a request: the stable members first, the messages last. A thread makes a large one.

    Each message is encoded by itself, so that the thread never holds the interpreter lock for long.
    """

    def make() -> bytes:
        listed = b",".join(msgspec.json.encode(part) for message in prompt.messages for part in messages(message))
        return msgspec.json.encode(stable)[:-1] + b',"messages":[' + listed + b"]}"

    return make() if size_of(prompt) <= SMALL_CHARS else await asyncio.to_thread(make)


def read(event: SseEvent, kind: type[T]) -> T:
    """The decoded JSON of an event. Raises UPSTREAM_ERROR if it cannot be decoded."""
    return decode_json(event.data, kind, "UPSTREAM_ERROR", "the model's endpoint sent an event that cannot be read")


def cut_off() -> Fault:
    """The error for a stream that ended before the answer."""
    return Fault("UPSTREAM_UNAVAILABLE", "the model's endpoint ended its answer before it was complete")


def reported(message: str, secrets: EndpointSecrets) -> Fault:
    """An error that the endpoint sent within its answer."""
    return Fault("UPSTREAM_ERROR", f"the model's endpoint failed: {secrets.hidden_in(message)}")


def arguments_of(text: str) -> dict[str, Any] | None:
    """The arguments of a tool call; None if the model did not write a JSON object."""
    return decode_json_or(text or "{}", dict[str, Any], None)


def _reason(body: bytes) -> str:
    """The message in an error body, as both APIs write it."""
    try:
        found = msgspec.json.decode(body, type=_ErrorBody)
    except JSON_ERRORS:
        return ""
    return found.error.message if isinstance(found.error, _Error) else found.error or ""


class _Error(msgspec.Struct):
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Error | str | None = None
