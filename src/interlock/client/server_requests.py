"""Requests of the server to the client: each gets one answer from the client's handlers, unless it is withdrawn."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.client.handlers import CallbackHandler, Handlers, Json
from interlock.protocols.mgp.callbacks import RESPOND
from interlock.wire.cancellation import read_withdrawal
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Id, Request

log = logging.getLogger("interlock.client")

AT_ONCE: Final = 64
"""Most requests of a server that wait for an answer."""


class ServerRequests:
    """Answers the requests of one server."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._open: dict[Id, asyncio.Task[None]] = {}

    def take(self, connection: Connection, request: Request) -> None:
        """Begin to answer a request."""
        if len(self._open) >= AT_ONCE:
            fault = Fault("RESOURCE_EXHAUSTED", "too many questions at once")
            connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))
            return
        answering = self._answer(connection, request)
        task = self._open[request.id] = asyncio.get_running_loop().create_task(answering)

        def done(_: asyncio.Task[None]) -> None:
            if self._open.get(request.id) is task:
                del self._open[request.id]

        task.add_done_callback(done)

    def take_callback(self, connection: Connection, params: bytes) -> None:
        """Begin to answer a callback of the server (MGP, Callback Requests). A repeated one is answered once."""
        try:
            callback = msgspec.json.decode(params, type=dict[str, object])
            id_ = str(callback["callback_id"])
        except (msgspec.DecodeError, KeyError):
            return
        if id_ in self._open or len(self._open) >= AT_ONCE:
            return
        answer = self._handlers.callback or _nobody
        task = asyncio.get_running_loop().create_task(self._respond(connection, callback, id_, answer))
        self._open[id_] = task
        task.add_done_callback(lambda _: self._open.pop(id_, None))

    async def _respond(self, connection: Connection, callback: Json, id: str, answer: CallbackHandler) -> None:
        try:
            response = await answer(callback)
            if callback.get("type") != "notification":
                await connection.request(RESPOND, {"callback_id": id, "response": response})
        except Exception:
            # The server stops waiting by itself.
            log.exception("the callback %s was not answered", id)

    def withdraw(self, params: bytes) -> None:
        """Stop answering a request that the server cancelled (2025-11-25, Cancellation)."""
        try:
            task = self._open.get(read_withdrawal(params)[0])
        except msgspec.DecodeError:
            return
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Answer nothing more."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, connection: Connection, request: Request) -> None:
        try:
            result = await self._handlers.answer(request.method, request.params)
        except Fault as fault:
            connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))
        except Exception:
            log.exception("the handler for %s failed", request.method)
            failed = Fault("INTERNAL_ERROR", "the client could not answer")
            connection.refuse(request.id, failed.render(ErrorDialect.OLD_MCP))
        else:
            connection.answer(request.id, result)


async def _nobody(request: Json) -> object:
    """The response without a callback handler."""
    return None
