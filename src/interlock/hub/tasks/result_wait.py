"""The wait for a task's result (2025-11-25): carried to the server and back, with whatever the task asks meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import msgspec

from interlock.hub.tasks.ledger import KeptTask
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.protocols.mcp.tasks import with_related
from interlock.transports.exchange import Exchange
from interlock.transports.link import Outgoing
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Failure, Id, Request, Result

if TYPE_CHECKING:
    from interlock.hub.calls.call import Caller

Told = Callable[[str, ConnectionOwner | None, str, bytes], None]
"""Takes what a server tells of tasks: which server, on whose connection, what."""


class ResultWait:
    """One `tasks/result` on its way. The sink of the request it sends; what the task asks goes to its owner."""

    __slots__ = ("_exchange", "_handle", "_line", "_over", "_task", "_told", "answer")

    def __init__(self, exchange: Exchange, task: KeptTask, line: UpstreamConnection, told: Told) -> None:
        self._exchange = exchange
        self._task = task
        self._line = line
        self._told = told
        self._handle: Id | None = None
        self._over = False
        self.answer: asyncio.Future[Result | Failure] = asyncio.get_running_loop().create_future()

    @property
    def attended(self) -> bool:
        """The client waits for it for as long as it is there."""
        return True

    def start(self, deadline: float) -> None:
        """Send it. Raises what makes that impossible."""
        params = msgspec.json.encode({"taskId": self._task.theirs})
        # Progress is asked for, since a server may tell of the task's on this stream.
        outgoing = Outgoing("tasks/result", params, deadline, name=self._task.theirs, wants_progress=True)
        owner = self._line.owner
        if owner is not None:
            owner.open.add(self)
            owner.waits[self._task.theirs] = self
        try:
            self._handle = self._line.connection.send(outgoing, self, idempotent=True)
        except Fault:
            self.stop("it could not be sent")
            raise

    def stop(self, reason: str) -> None:
        """Wait no longer. The task itself goes on."""
        if self._over:
            return
        self._over = True
        owner = self._line.owner
        if owner is not None:
            owner.open.discard(self)
            if owner.waits.get(self._task.theirs) is self:
                del owner.waits[self._task.theirs]
        if self._handle is not None and not self.answer.done():
            self._line.connection.cancel(self._handle, reason)

    # What comes back

    def on_response(self, answer: Result | Failure) -> None:
        """The outcome."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def on_lost(self, fault: Fault) -> None:
        """None will come on this way."""
        if not self.answer.done():
            self.answer.set_exception(fault)

    def on_notification(self, method: str, params: bytes) -> None:
        """What the server tells on the way: of the task, or of another one."""
        self._told(self._task.server, self._line.owner, method, params)

    def on_request(self, request: Request) -> None:
        """The task asks its owner. On a shared connection nobody can know whom."""
        owner = self._line.owner
        if owner is None:
            fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be answered on a shared connection")
            self._line.connection.refuse(request.id, fault.render(ErrorDialect.OLD_MCP))
            return
        marked = Request(request.id, request.method, with_related(request.params, self._task.id))
        shown = None if cast("Caller", self._exchange.caller).view.bare else self._task.server
        owner.questions.relay(self._line.connection, marked, self._exchange.ask, shown)
