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

from interlock.hub.catalog.links import exposed_question, restored_answer
from interlock.hub.upstreams import client_tasks as of_clients
from interlock.protocols.mcp.input_requests import check_answer
from interlock.protocols.mcp.meta import PROGRESS_TOKEN, with_meta
from interlock.protocols.mcp.progress import with_token
from interlock.protocols.mcp.tasks import STATUS_CHANGED
from interlock.wire.cancellation import read_withdrawal
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.messages import Id, Request, one_line
from interlock.wire.names import may_spell

CARRIED: Final = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
"""What a server may ask of a client."""
_RELAYED: Final = CARRIED | of_clients.METHODS
_STATUS: Final = STATUS_CHANGED[False]
HEARD: Final = frozenset({PROGRESS, _STATUS})
"""What a client tells of that which it was asked."""

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


class ServerRequests:
    """What the server of one connection has asked and waits for."""

    def __init__(self) -> None:
        self._open: dict[Id, asyncio.Future[bytes]] = {}
        self._progress: dict[str, Id] = {}
        """Our progress tokens, and the server's own."""
        self._tasks = of_clients.ClientTasks()

    def relay(self, server: Answers, request: Request, ask: Ask, shown: str | None = None) -> None:
        """Ask the client, and give the server whatever comes of it. It always gets an answer, unless it withdraws.

        `shown` is the server's name to a client that sees many servers, and so has other addresses than the server.
        """
        if request.method not in _RELAYED:
            _refuse(server, request, Fault("METHOD_NOT_FOUND", f"no such method: {request.method}"))
            return
        token, ours = _token_in(request.params), f"asked-{secrets.token_urlsafe(12)}"
        try:
            params = self._tasks.to_client(request.method, one_line(request.params))
            if shown is not None:
                params = exposed_question(shown, request.method, params)
            waiting = ask(request.method, params if token is None else with_meta(params, {PROGRESS_TOKEN: ours}))
        except Fault as fault:
            _refuse(server, request, fault)
            return
        self._open[request.id] = waiting
        if token is not None:
            self._progress[ours] = token

        def settled(future: asyncio.Future[bytes]) -> None:
            if self._open.get(request.id) is future:
                del self._open[request.id]
            self._progress.pop(ours, None)
            self._settle(server, request, future, shown)

        waiting.add_done_callback(settled)

    def withdraw(self, params: bytes) -> None:
        """The server's `notifications/cancelled`: the client is told, and its answer is not waited for any longer."""
        try:
            id_, reason = read_withdrawal(params)
        except msgspec.DecodeError:
            return
        waiting = self._open.get(id_)
        if waiting is not None:
            waiting.cancel(reason)

    def on_notification(self, server: Answers, method: str, params: bytes) -> None:
        """What the client tells of something, for the server if it was asked for here: how far it is, or how a task of
        its own stands."""
        try:
            if method == _STATUS:
                told = self._tasks.on_notification(params)
                if told is not None:
                    server.tell(_STATUS, told)
                return
            token = self._progress.get(str(msgspec.json.decode(params, type=_Progress).progressToken))
        except (Fault, msgspec.DecodeError):
            return
        if token is not None:
            server.tell(PROGRESS, with_token(params, token))

    def close(self) -> None:
        """The connection is gone: nobody waits for an answer."""
        for waiting in list(self._open.values()):
            waiting.cancel()

    def _settle(self, server: Answers, request: Request, future: asyncio.Future[bytes], shown: str | None) -> None:
        if future.cancelled():
            _refuse(server, request, Fault("CANCELLED", "the call is over"))
            return
        cause = future.exception()
        if isinstance(cause, Fault):
            _refuse(server, request, cause)
        elif cause is not None:
            _refuse(server, request, Fault("INTERNAL_ERROR", "the client could not be asked"))
        else:
            try:
                said = one_line(future.result() if shown is None else restored_answer(shown, future.result()))
                result = self._tasks.to_server(request.method, request.params, said)
                # Untouched, it is the answer itself, and no task that was begun.
                if request.method in CARRIED and result is said:
                    check_answer(request.method, said)
            except (Fault, msgspec.DecodeError) as bad:
                _refuse(server, request, Fault("INTERNAL_ERROR", f"the client's answer cannot be read: {bad}"))
            else:
                server.answer(request.id, result)


def _token_in(params: bytes) -> Id | None:
    """The token under which a request wants to hear of progress."""
    if not may_spell(params, PROGRESS_TOKEN.encode()):
        return None
    try:
        return msgspec.json.decode(params, type=_Marked).meta.progressToken
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _refuse(server: Answers, request: Request, fault: Fault) -> None:
    server.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))


class _Progress(msgspec.Struct):
    progressToken: Id


class _Meta(msgspec.Struct):
    progressToken: Id | None = None


class _Marked(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
