"""Requests of a link that wait for an access token: before they are sent, or after the server refused them.

A request that a server refused with 401 or 403 had no effect, so it may be sent again. No person is asked meanwhile: a
login that needs one raises LOGIN_REQUIRED, and the request ends with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final, Protocol

import msgspec

from interlock.protocols.oauth.challenges import BearerChallenge, read_challenge
from interlock.transports.http.client.heads import HeadWriter
from interlock.transports.http.client.http_call import HttpCall
from interlock.transports.http.client.reply import Reply
from interlock.wire.errors import Fault, internal_error
from interlock.wire.messages import Id

_log = logging.getLogger("interlock.http")

MAX_REFUSALS: Final = 3
"""How often one request may be refused before it ends."""


class UnauthorizedCall(msgspec.Struct, frozen=True):
    """A request that the server refused for lack of a token."""

    status: int
    challenge: BearerChallenge
    sent: str
    """The `Authorization` header that it was sent with."""
    again: bool = False
    """Whether the same request was refused before, with another token."""


class Authorization(Protocol):
    """Gives the `Authorization` header of a link's requests, and renews it."""

    idle: bool
    """Whether there is no value to send or to renew, as with most servers."""

    @property
    def header(self) -> str:
        """The value to send; empty where there is none."""

    @property
    def due(self) -> bool:
        """Whether the value must be renewed before it is sent again."""

    async def renew(self) -> None:
        """Renew the value if it is due, once for all who wait. Raises a `Fault`."""

    async def refused(self, refused: UnauthorizedCall) -> None:
        """Replace a value that the server refused. Raises LOGIN_REQUIRED where only a person can."""


class CallSender(Protocol):
    """The link that the requests belong to."""

    calls: dict[Id, HttpCall]

    def repeat(self, call: HttpCall) -> None:
        """Send a request, on a connection of its own."""

    def lose(self, call: HttpCall, fault: Fault) -> None:
        """End a request without an answer."""

    def send_post(self, body: bytes, method: str) -> None:
        """Send a notification or an answer."""

    def send_stream(self, standing: Reply, last_event_id: str | None) -> None:
        """Send the GET of a standing stream, whatever token there is."""


class AuthorizedCalls:
    """The calls of one link that need a token."""

    def __init__(self, sender: CallSender, heads: HeadWriter, authorization: Authorization) -> None:
        self._sender = sender
        self._heads = heads
        self._authorization = authorization
        self._waiting: set[asyncio.Task[None]] = set()

    def ready(self) -> bool:
        """Whether requests can be sent at once. Their heads have the present token then."""
        authorization = self._authorization
        if authorization.due:
            return False
        self._heads.authorize(authorization.header)
        return True

    def hold(self, call: HttpCall) -> None:
        """Send a request as soon as there is a fresh token."""
        self._start(self._send(call))

    def hold_post(self, body: bytes, method: str) -> None:
        """Send a notification or an answer as soon as there is a fresh token."""
        self._start(self._post(body, method))

    def hold_stream(self, standing: Reply, last_event_id: str | None) -> None:
        """Open a stream as soon as there is a fresh token."""
        self._start(self._open_stream(standing, last_event_id))

    def refused(self, call: HttpCall, status: int, header: str) -> bool:
        """Take over a request that the server refused. False where another token would not help."""
        challenge = read_challenge(header)
        refusals = call.count_refusal()
        if refusals > MAX_REFUSALS or (status == 403 and not challenge.insufficient_scope):
            return False
        self._start(self._answer(call, UnauthorizedCall(status, challenge, call.authorization, again=refusals > 1)))
        return True

    async def settled(self) -> None:
        """Wait until all that waits now is sent or given up."""
        if self._waiting:
            await asyncio.wait(self._waiting)

    def stop(self) -> None:
        """Send nothing more."""
        for task in self._waiting:
            task.cancel()

    def _start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _send(self, call: HttpCall) -> None:
        try:
            await self._authorization.renew()
        except Exception as cause:
            self._sender.lose(call, _fault_of(cause))
        else:
            self._again(call)

    async def _answer(self, call: HttpCall, refused: UnauthorizedCall) -> None:
        try:
            await self._authorization.refused(refused)
        except Exception as cause:
            self._sender.lose(call, _fault_of(cause))
        else:
            self._again(call)

    async def _post(self, body: bytes, method: str) -> None:
        await self._try_to_renew()
        self._sender.send_post(body, method)

    async def _open_stream(self, standing: Reply, last_event_id: str | None) -> None:
        await self._try_to_renew()
        self._sender.send_stream(standing, last_event_id)

    async def _try_to_renew(self) -> None:
        """Renew the token. If that fails, the message is sent without: the server refuses it, and that is counted."""
        try:
            await self._authorization.renew()
        except Exception as cause:
            _fault_of(cause)  # logged unless it was foreseen
        self._heads.authorize(self._authorization.header)

    def _again(self, call: HttpCall) -> None:
        """Send a call that still waits. It had no effect at the server before."""
        self._heads.authorize(self._authorization.header)
        if call.id in self._sender.calls:
            self._sender.repeat(call)


def _fault_of(cause: Exception) -> Fault:
    """The fault that ends a request whose login failed. It may quote text of servers: issuers, addresses, reasons."""
    if isinstance(cause, Fault):
        return cause.quoting()
    _log.error("a token could not be renewed", exc_info=cause)
    return internal_error()
