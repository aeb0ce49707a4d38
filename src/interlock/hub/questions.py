"""A server's own requests, carried to the client they concern and back. Which client that is was decided before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from interlock.wire.errors import ErrorObject, Fault, Tongue
from interlock.wire.messages import Id, Request, one_line

CARRIED = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
"""What a server may ask of a client."""


class Answers(Protocol):
    """The way back to the server."""

    def answer(self, id: Id, result: bytes) -> None:
        """Send an answer."""

    def refuse(self, id: Id, error: ErrorObject) -> None:
        """Send a refusal."""


def relay_question(
    server: Answers, request: Request, ask: Callable[[str, bytes], asyncio.Future[bytes]], tongue: Tongue
) -> None:
    """Ask the client, and give the server whatever comes of it. The server always gets an answer."""
    if request.method not in CARRIED:
        server.refuse(request.id, Fault("METHOD_NOT_FOUND", f"no such method: {request.method}").render(tongue))
        return
    try:
        waiting = ask(request.method, one_line(request.params))
    except Fault as fault:
        server.refuse(request.id, fault.render(tongue))
        return

    def settled(future: asyncio.Future[bytes]) -> None:
        if future.cancelled():
            server.refuse(request.id, Fault("CANCELLED", "the call is over").render(tongue))
            return
        cause = future.exception()
        if cause is None:
            server.answer(request.id, one_line(future.result()))
        elif isinstance(cause, Fault):
            server.refuse(request.id, cause.render(tongue))
        else:
            server.refuse(request.id, Fault("INTERNAL_ERROR", "the client could not be asked").render(tongue))

    waiting.add_done_callback(settled)
