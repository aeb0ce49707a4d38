"""Waits for a task's result at its server (2025-11-25), and relays the task's requests to its principal meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from interlock.hub.sessions.session import Exchange
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.protocols.mcp.tasks import with_related
from interlock.transports.link import Outgoing
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Failure, Id, Request, Result

if TYPE_CHECKING:
    from interlock.hub.calls.call import Caller

OnNotification = Callable[[str, ConnectionOwner | None, str, bytes], None]
"""Receives notifications about tasks: the server, the owner of the connection, method and params."""


class ResultWait:
    """One open `tasks/result`: the sink of the request to the server."""

    __slots__ = ("_caller", "_exchange", "_handle", "_on_notification", "_over", "_route", "_task", "answer")

    def __init__(
        self,
        exchange: Exchange,
        caller: Caller,
        task: StoredTask,
        route: UpstreamConnection,
        on_notification: OnNotification,
    ) -> None:
        self._exchange = exchange
        self._caller = caller
        self._task = task
        self._route = route
        self._on_notification = on_notification
        self._handle: Id | None = None
        self._over = False
        self.answer: asyncio.Future[Result | Failure] = asyncio.get_running_loop().create_future()

    @property
    def attended(self) -> bool:
        """The client waits for it as long as it exists."""
        return True

    def start(self, deadline: float) -> None:
        """Send the request. Raises a `Fault` where that is not possible."""
        params = msgspec.json.encode({"taskId": self._task.upstream_id})
        # The request asks for progress, as a server may send the task's progress on this stream.
        id_ = self._task.upstream_id
        outgoing = Outgoing("tasks/result", params, deadline, name=id_, wants_progress=True, idempotent=True)
        owner = self._route.owner
        if owner is not None:
            owner.open.add(self)
            owner.waits[self._task.upstream_id] = self
        try:
            self._handle = self._route.connection.send(outgoing, self)
        except Fault:
            self.stop("the request could not be sent")
            raise

    def stop(self, reason: str) -> None:
        """Stop waiting. The task itself goes on."""
        if self._over:
            return
        self._over = True
        owner = self._route.owner
        if owner is not None:
            owner.open.discard(self)
            if owner.waits.get(self._task.upstream_id) is self:
                del owner.waits[self._task.upstream_id]
        # A client that stops waiting for the answer has cancelled it.
        if self._handle is not None and (not self.answer.done() or self.answer.cancelled()):
            self._route.connection.cancel(self._handle, reason)

    # The sink

    def on_response(self, answer: Result | Failure) -> None:
        """Take the outcome."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def on_lost(self, fault: Fault) -> None:
        """Take the loss of the connection."""
        if not self.answer.done():
            self.answer.set_exception(fault)

    def on_notification(self, method: str, params: bytes) -> None:
        """Pass on a notification about this task, or another."""
        self._on_notification(self._task.server, self._route.owner, method, params)

    def on_request(self, request: Request) -> None:
        """Relay a request of the task to its principal. Refuse it on a shared connection, which has no owner."""
        owner = self._route.owner
        if owner is None:
            fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be answered on a shared connection")
            self._route.connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))
            return
        marked = Request(request.id, request.method, with_related(request.params, self._task.id))
        caller = self._caller
        shown = None if caller.view.bare else self._task.server
        owner.questions.relay(self._route.connection, marked, caller, partial(self._ask_client, owner, caller), shown)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on the stream of this request."""
        return self._exchange.ask(method, params)

    def _ask_client(
        self, owner: ConnectionOwner, caller: Caller, method: str, params: bytes, client_params: bytes
    ) -> asyncio.Future[bytes]:
        return owner.ask_client(caller, self._exchange, method, params, client_params, self._task.trace)
