"""A server's own requests on one private connection, carried to the client behind it and back. Which client that is was
decided before.

Ids never cross the hop, nor do the tokens under which a client tells how far it is: each side has its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from interlock.protocols.mcp.meta import PROGRESS_TOKEN, members, with_meta
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import ErrorObject, Fault, Tongue
from interlock.wire.messages import Id, Request, one_line

CARRIED: Final = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
"""What a server may ask of a client."""

Ask = Callable[[str, bytes], asyncio.Future[bytes]]
"""Puts a request to the client. Raises a `Fault` where it cannot be put."""


class Answers(Protocol):
    """The way back to the server."""

    def answer(self, id: Id, result: bytes) -> None:
        """Send an answer."""

    def refuse(self, id: Id, error: ErrorObject) -> None:
        """Send a refusal."""

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification."""


class Questions:
    """What the server of one connection has asked and waits for."""

    def __init__(self) -> None:
        self._open: dict[Id, asyncio.Future[bytes]] = {}
        self._progress: dict[str, tuple[Answers, Id]] = {}
        """Our progress tokens, and the server's own."""

    def relay(self, server: Answers, request: Request, ask: Ask) -> None:
        """Ask the client, and give the server whatever comes of it. It always gets an answer, unless it withdraws."""
        if request.method not in CARRIED:
            _refuse(server, request, Fault("METHOD_NOT_FOUND", f"no such method: {request.method}"))
            return
        token, ours = _token_in(request.params), f"asked-{secrets.token_urlsafe(12)}"
        try:
            params = one_line(request.params)
            waiting = ask(request.method, params if token is None else with_meta(params, {PROGRESS_TOKEN: ours}))
        except Fault as fault:
            _refuse(server, request, fault)
            return
        self._open[request.id] = waiting
        if token is not None:
            self._progress[ours] = (server, token)

        def settled(future: asyncio.Future[bytes]) -> None:
            if self._open.get(request.id) is future:
                del self._open[request.id]
            self._progress.pop(ours, None)
            _settle(server, request, future)

        waiting.add_done_callback(settled)

    def withdraw(self, params: bytes) -> None:
        """The server's `notifications/cancelled`: the client is told, and its answer is not waited for any longer."""
        try:
            id_ = msgspec.json.decode(params, type=_Withdrawn).requestId
        except msgspec.DecodeError:
            return
        waiting = self._open.get(id_)
        if waiting is not None:
            waiting.cancel()

    def progressed(self, params: bytes) -> None:
        """The client's `notifications/progress`, if it is about something that was asked here."""
        try:
            found = self._progress.get(str(msgspec.json.decode(params, type=_Progress).progressToken))
        except msgspec.DecodeError:
            return
        if found is not None:
            server, token = found
            server.tell(PROGRESS, msgspec.json.encode({**members(params), PROGRESS_TOKEN: token}))

    def close(self) -> None:
        """The connection is gone: nobody waits for an answer."""
        for waiting in list(self._open.values()):
            waiting.cancel()


def _token_in(params: bytes) -> Id | None:
    """The token under which a request wants to hear of progress."""
    if PROGRESS_TOKEN.encode() not in params:
        return None
    try:
        return msgspec.json.decode(params, type=_Marked).meta.progressToken
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _settle(server: Answers, request: Request, future: asyncio.Future[bytes]) -> None:
    if future.cancelled():
        _refuse(server, request, Fault("CANCELLED", "the call is over"))
        return
    cause = future.exception()
    if cause is None:
        server.answer(request.id, one_line(future.result()))
    elif isinstance(cause, Fault):
        _refuse(server, request, cause)
    else:
        _refuse(server, request, Fault("INTERNAL_ERROR", "the client could not be asked"))


def _refuse(server: Answers, request: Request, fault: Fault) -> None:
    server.refuse(request.id, fault.render(Tongue.OLD_MCP))


class _Withdrawn(msgspec.Struct):
    requestId: Id


class _Progress(msgspec.Struct):
    progressToken: Id


class _Meta(msgspec.Struct):
    progressToken: Id | None = None


class _Marked(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
