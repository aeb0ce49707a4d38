"""Relays a server's own requests on one private connection to the client, and the answers back.

Request ids and progress tokens never cross the hub: each side has its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.catalog.links import exposed_question, restored_answer
from interlock.hub.catalog.target import CLIENT_TARGETS
from interlock.hub.sessions.session import SessionCaller
from interlock.hub.upstreams import client_tasks as of_clients
from interlock.hub.upstreams.client_requests import RequestJudge, judged_params
from interlock.protocols.mcp.input_requests import check_answer
from interlock.protocols.mcp.meta import PROGRESS_TOKEN, with_meta
from interlock.protocols.mcp.progress import with_token
from interlock.protocols.mcp.reserved_names import params_of_server
from interlock.protocols.mcp.tasks import STATUS_CHANGED
from interlock.wire.cancellation import read_withdrawal
from interlock.wire.conversation import CANCELLED_METHOD, PROGRESS
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Id, Request, one_line
from interlock.wire.names import may_spell

RELAYED: Final = frozenset(CLIENT_TARGETS)
"""The requests that a server may send to a client."""
_RELAYED: Final = RELAYED | of_clients.METHODS
_STATUS: Final = STATUS_CHANGED[False]
CLIENT_NOTIFICATIONS: Final = frozenset({PROGRESS, _STATUS})
"""Notifications of a client about a server's request."""

Ask = Callable[[str, bytes, bytes], asyncio.Future[bytes]]
"""Judges a request (method, params as the server gave them, params for the client) and sends it to the client. Raises a
`Fault` where that is not possible."""


class OpenServerRequests:
    """The open requests of the server of one connection."""

    def __init__(self, server: str, judge: RequestJudge) -> None:
        self._server = server
        self._judge = judge
        self._open: dict[Id, tuple[asyncio.Future[bytes], SessionCaller]] = {}
        """Each with the caller whose client has it."""
        self._progress: dict[str, Id] = {}
        """The hub's progress tokens, and the server's."""
        self._tasks = of_clients.ClientTasks(judge)

    @property
    def pending(self) -> int:
        """How many requests of the server wait for the answer of a client."""
        return len(self._open)

    def relay(
        self, server: Connection, request: Request, client: SessionCaller, ask: Ask, shown: str | None = None
    ) -> None:
        """Send a request to the client and its answer to the server. The server always gets one, unless it cancels.

        `shown` is the server's name for a client that sees many servers, whose resource addresses then contain it.
        """
        if request.method not in _RELAYED:
            _refuse(server, request, Fault("METHOD_NOT_FOUND", f"no such method: {request.method}"))
            return
        request = Request(request.id, request.method, params_of_server(request.params))
        token, hub_token = _token_in(request.params), f"asked-{secrets.token_urlsafe(12)}"
        try:
            judged = one_line(judged_params(request.params))
            client_params = self._tasks.to_client(request.method, one_line(request.params))
            if shown is not None:
                client_params = exposed_question(shown, request.method, client_params)
            if token is not None:
                client_params = with_meta(client_params, {PROGRESS_TOKEN: hub_token})
            waiting = ask(request.method, judged, client_params)
        except Fault as fault:
            _refuse(server, request, fault)
            return
        self._open[request.id] = waiting, client
        if token is not None:
            self._progress[hub_token] = token

        def settled(future: asyncio.Future[bytes]) -> None:
            if request.id in self._open and self._open[request.id][0] is future:
                del self._open[request.id]
            self._progress.pop(hub_token, None)
            self._settle(server, request, future, shown)

        waiting.add_done_callback(settled)

    def withdraw(self, params: bytes) -> None:
        """Cancel a request after the server's `notifications/cancelled`."""
        try:
            id_, reason = read_withdrawal(params)
        except msgspec.DecodeError:
            return
        if id_ in self._open:
            waiting, client = self._open[id_]
            if reason or reason.meta:
                self._judge.note_text(client, self._server, CANCELLED_METHOD)
            waiting.cancel(reason)

    def on_notification(self, server: Connection, method: str, params: bytes) -> None:
        """Pass a client's progress or task status to the server, if it belongs to a request of this server."""
        try:
            if method == _STATUS:
                status = self._tasks.on_notification(params)
                if status is not None:
                    server.tell(_STATUS, status)
                return
            token = self._progress.get(str(msgspec.json.decode(params, type=_Progress).progressToken))
        except (Fault, msgspec.DecodeError):
            return
        if token is not None:
            server.tell(PROGRESS, with_token(params, token))

    async def settled(self) -> None:
        """Wait until the requests that are open now are answered."""
        if self._open:
            await asyncio.wait([waiting for waiting, _ in self._open.values()])

    def close(self) -> None:
        """Cancel every request: the connection is closed."""
        for waiting, _ in list(self._open.values()):
            waiting.cancel()

    def _settle(self, server: Connection, request: Request, future: asyncio.Future[bytes], shown: str | None) -> None:
        if future.cancelled():
            _refuse(server, request, Fault("CANCELLED", "the request was cancelled"))
            return
        cause = future.exception()
        if isinstance(cause, Fault):
            _refuse(server, request, cause)
        elif cause is not None:
            _refuse(server, request, Fault("INTERNAL_ERROR", "the request could not be sent to the client"))
        else:
            try:
                answer = one_line(future.result() if shown is None else restored_answer(shown, future.result()))
                result = self._tasks.to_server(request.method, request.params, answer)
                # A changed result names a started task rather than the answer.
                if request.method in RELAYED and result is answer:
                    check_answer(request.method, answer)
            except (Fault, msgspec.DecodeError, UnicodeDecodeError) as bad:
                _refuse(server, request, Fault("INTERNAL_ERROR", f"the client's answer cannot be read: {bad}"))
            else:
                server.answer(request.id, result)


def _token_in(params: bytes) -> Id | None:
    """The progress token of a request."""
    if not may_spell(params, PROGRESS_TOKEN.encode()):
        return None
    try:
        return msgspec.json.decode(params, type=_Marked).meta.progressToken
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _refuse(server: Connection, request: Request, fault: Fault) -> None:
    server.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))


class _Progress(msgspec.Struct):
    progressToken: Id


class _Meta(msgspec.Struct):
    progressToken: Id | None = None


class _Marked(msgspec.Struct):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")
