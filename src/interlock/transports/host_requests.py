"""How a server of MCPL asks its hosts: on their session, or on a stream that they opened, answered with a request.

A request of the stateless era is answered by `dev.interlock/answer`, which counts only from the host that was asked.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.errors import BY_CODE
from interlock.protocols.mcpl.inference import InferenceChunk
from interlock.protocols.mcpl.live import AnswerError, AnswerParams
from interlock.transports.sessions.session import TransportSession
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

ANSWER_S: Final = 60.0
"""How long a host may take to answer."""
CLOSED_S: Final = 2.0
"""How long it may take when the stream on which it was asked is closed."""

HostKey: TypeAlias = TransportSession | str
"""A host: its session, or in the stateless era a name for its streams."""
OnChunk: TypeAlias = Callable[[str], object]


class HostStreams(Protocol):
    """The streams that hosts of the stateless era opened."""

    def deliver(
        self, principal_name: str, method: str, feature: str | None, params: bytes, id: str | None
    ) -> object | None:
        """Send a message on a stream of its host; with an id it is a request. Returns the stream; None if none takes
        it."""


class HostRequests:
    """The requests that hosts have not answered yet."""

    def __init__(self, streams: HostStreams) -> None:
        self._hosts = streams
        self._waiting: dict[str, tuple[str, asyncio.Future[bytes]]] = {}
        """On streams of the stateless era: the host, by the request's id."""
        self._open_on_stream: dict[object, set[asyncio.Future[bytes]]] = {}
        """The same, by stream."""
        self._streams: dict[tuple[HostKey, Id], OnChunk] = {}

    async def ask(
        self,
        host: HostKey,
        method: str,
        feature: str | None,
        params: bytes,
        *,
        timeout_s: float = ANSWER_S,
        on_chunk: OnChunk | None = None,
    ) -> bytes:
        """The host's answer. Raises a `Fault`."""
        try:
            async with asyncio.timeout(timeout_s):
                if isinstance(host, str):
                    return await self._ask_on_stream(host, method, feature, params, on_chunk)
                answer = host.ask(method, params)
                return await self._with_chunks((host, answer.id), answer, on_chunk)
        except TimeoutError:
            raise Fault("TIMEOUT", f"the host did not answer within {timeout_s:g} s") from None

    def tell(self, host: HostKey, method: str, params: bytes) -> None:
        """Send a host a notification. One of the stateless era gets it if it has a stream open."""
        if isinstance(host, str):
            self._hosts.deliver(host, method, None, params, None)
        else:
            host.notify(method, params)

    def on_chunk(self, host: HostKey, chunk: InferenceChunk) -> None:
        """Hand a piece of an inference to its reader. One that nobody waits for is dropped."""
        reader = self._streams.get((host, chunk.request_id))
        if reader is not None:
            reader(chunk.delta)

    def on_answer(self, host: str, params: bytes) -> None:
        """Take a `dev.interlock/answer`: good only from the host that was asked. Raises INVALID_PARAMS."""
        answer = decode(AnswerParams, params)
        asked_host, answered = self._waiting.get(str(answer.id), ("", None))
        if answered is None or asked_host != host:
            raise Fault("INVALID_PARAMS", "nothing waits for this answer", data={"field": "id"})
        if answered.done():
            return
        if answer.error is not None:
            answered.set_exception(_fault(answer.error))
        else:
            answered.set_result(msgspec.json.encode(answer.result))

    def on_stream_closed(self, stream: object) -> None:
        """A host closed a stream, and may not have read the requests on it: they get little time from now on."""
        for answered in self._open_on_stream.get(stream, ()):
            answered.get_loop().call_later(CLOSED_S, _give_up, answered)

    async def _ask_on_stream(
        self, host: str, method: str, feature: str | None, params: bytes, on_chunk: OnChunk | None
    ) -> bytes:
        id_ = secrets.token_urlsafe(16)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = (host, answered)
        stream = None
        try:
            stream = self._hosts.deliver(host, method, feature, params, id_)
            if stream is None:
                raise Fault("UPSTREAM_UNAVAILABLE", "the host has no stream open")
            self._open_on_stream.setdefault(stream, set()).add(answered)
            return await self._with_chunks((host, id_), answered, on_chunk)
        finally:
            del self._waiting[id_]
            open_ids = self._open_on_stream.get(stream, set())
            open_ids.discard(answered)
            if not open_ids:
                self._open_on_stream.pop(stream, None)

    async def _with_chunks(
        self, key: tuple[HostKey, Id], answer: asyncio.Future[bytes], on_chunk: OnChunk | None
    ) -> bytes:
        if on_chunk is None:
            return await answer
        self._streams[key] = on_chunk
        try:
            return await answer
        finally:
            del self._streams[key]


def _give_up(answered: asyncio.Future[bytes]) -> None:
    if not answered.done():
        answered.set_exception(Fault("UPSTREAM_UNAVAILABLE", "the host closed its stream and did not answer"))


def _fault(error: AnswerError) -> Fault:
    kind = BY_CODE.get(error.code)
    return Fault("UPSTREAM_ERROR" if kind is None else kind.name, error.message[:1000], code=error.code)
