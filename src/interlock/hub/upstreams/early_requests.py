"""Requests that a server sends while its connection is still being opened. Each is answered once it is open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from interlock.client.connection import Connection
from interlock.process.task_set import TaskSet
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Id, Request

MAX_EARLY: Final = 16
"""Upper bound for the requests of one connection that are served later. Further ones are refused then."""
MAX_REFUSED: Final = 1_024
"""Upper bound for ids that are kept to be refused. A server that sends still more loses its connection."""


class EarlyRequests:
    """Keeps requests until the connection on which they are answered is known."""

    def __init__(self) -> None:
        self._to_serve: list[Request] = []
        self._refused: list[Id] = []
        self._flooded = False
        self._closing = TaskSet()

    def keep(self, request: Request) -> None:
        """Keep a request, or its id beyond the bound."""
        if len(self._to_serve) < MAX_EARLY:
            self._to_serve.append(request)
        elif len(self._refused) < MAX_REFUSED:
            self._refused.append(request.id)
        else:
            self._flooded = True

    def release(self, connection: Connection) -> list[Request]:
        """The requests to serve now. The others are refused on the connection."""
        (to_serve, refused), self._to_serve, self._refused = (self._to_serve, self._refused), [], []
        error = Fault(
            "RESOURCE_EXHAUSTED", f"the hub serves {MAX_EARLY} requests from before the connection was open"
        ).render(ErrorDialect.OLD_MCP)
        for id_ in refused:
            connection.refuse(id_, error)
        if self._flooded:
            # Some ids were dropped, so closing the connection is the answer to all.
            self._closing.begin(connection.close())
            return []
        return to_serve


class RequestListener(ABC):
    """Receives the requests of a server on one connection, also those that came while it was being opened."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        """None until it is open."""
        self._early = EarlyRequests()

    def attach(self, connection: Connection) -> None:
        """Answer requests on this connection, those too that arrived already."""
        self.connection = connection
        for request in self._early.release(connection):
            self.on_request(request)

    def on_request(self, request: Request) -> None:
        """Answer a request, now or when the connection is open."""
        if self.connection is None:
            self._early.keep(request)
        else:
            self.answer(self.connection, request)

    @abstractmethod
    def answer(self, connection: Connection, request: Request) -> None:
        """Answer a request on the open connection."""


def refuse(connection: Connection, request: Request, message: str) -> None:
    """Refuse a request with METHOD_NOT_FOUND."""
    connection.refuse(request.id, Fault("METHOD_NOT_FOUND", message).render(ErrorDialect.OLD_MCP))
