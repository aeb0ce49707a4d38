"""How a server asks its hosts: on their session, or on a stream that they opened, which they answer with a request.

A request of the stateless era is answered by `dev.interlock/answer`, which counts only from the host that was asked.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.errors import BY_CODE
from interlock.protocols.mcpl.inference import InferenceChunk
from interlock.protocols.mcpl.live import ANSWER, Answer, AnswerError
from interlock.server.requests.framing import Framing
from interlock.server.requests.listeners import Listeners
from interlock.server.requests.session import Exchange, Session
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

ANSWER_S: Final = 60.0
"""How long a host may take to answer."""

HostKey: TypeAlias = Session | str
"""A host: its session, or in the stateless era the caller's owner."""
OnChunk: TypeAlias = Callable[[str], object]


class HostRequests:
    """The requests of one server that its hosts have not answered yet."""

    def __init__(self, listeners: Listeners, framing: Framing) -> None:
        self._listeners = listeners
        self._framing = framing
        self._waiting: dict[str, tuple[str, asyncio.Future[bytes]]] = {}
        """On streams of the stateless era: the owner, by the request's id."""
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
            self._listeners.deliver(host, method, None, params, None)
        else:
            host.notify(method, params)

    def on_chunk(self, host: HostKey, chunk: InferenceChunk) -> None:
        """Hand a piece of an inference to its reader. One that nobody waits for is dropped."""
        reader = self._streams.get((host, chunk.request_id))
        if reader is not None:
            reader(chunk.delta)

    async def _ask_on_stream(
        self, owner: str, method: str, feature: str | None, params: bytes, on_chunk: OnChunk | None
    ) -> bytes:
        id_ = secrets.token_urlsafe(16)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = (owner, answered)
        try:
            if not self._listeners.deliver(owner, method, feature, params, id_):
                raise Fault("UPSTREAM_UNAVAILABLE", "the host has no stream open")
            return await self._with_chunks((owner, id_), answered, on_chunk)
        finally:
            del self._waiting[id_]

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

    def take_answer(self, exchange: Exchange) -> None:
        """`dev.interlock/answer`: good only from the host that was asked."""
        said = decode(Answer, exchange.request.params)
        owner, answered = self._waiting.get(str(said.id), ("", None))
        if answered is None or owner != exchange.caller.owner:
            raise Fault("INVALID_PARAMS", "nothing waits for this answer", data={"field": "id"})
        if not answered.done():
            if said.error is not None:
                answered.set_exception(_fault(said.error))
            else:
                answered.set_result(msgspec.json.encode(said.result))
        self._framing.answer(exchange, b'"taken":true')

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {ANSWER: self.take_answer}


def _fault(error: AnswerError) -> Fault:
    kind = BY_CODE.get(error.code)
    return Fault("UPSTREAM_ERROR" if kind is None else kind.name, error.message[:1000], code=error.code)
