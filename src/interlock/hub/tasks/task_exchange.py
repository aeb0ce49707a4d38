"""A call that may become a task: its answer is looked at before the client gets it, and its end in the record waits.

To whoever carries the call it is an exchange like any other. Only calls whose client takes a task for an answer have
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import Outcome
from interlock.hub.calls.background_tasks import Later
from interlock.hub.calls.call import Call
from interlock.hub.tasks.ledger import KeptTask
from interlock.hub.tasks.live import renamed
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import TaskState, task_in
from interlock.transports.exchange import Exchange
from interlock.wire.errors import ErrorObject, Fault


class TaskExchange(Exchange):
    """Stands before the exchange of such a call."""

    __slots__ = ("_call", "_id", "_later", "_line", "_record", "_release", "_ticket", "_token", "_tracker", "real")

    def __init__(
        self,
        call: Call,
        line: UpstreamConnection,
        tracker: Tracker,
        later: Later,
        *,
        release: Callable[[], None],
        record: Callable[[Ticket, Outcome | None], None],
        id: str,
        token: str | None,
    ) -> None:
        real = call.exchange
        preview = real.preview
        if token is not None and preview.meta is not None:
            # The link must not set a token of its own, which would be worth nothing once the call is answered.
            preview = msgspec.structs.replace(preview, meta=msgspec.structs.replace(preview.meta, progress_token=None))
        super().__init__(real.request, preview, real.dialect, real.caller, real.session, real.headers)
        self.real = real
        self._call = call
        self._line = line
        self._tracker = tracker
        self._later = later
        self._release = release
        self._record = record
        self._id = id
        self._token = token
        self._ticket: Ticket | None = None
        real.on_cancel = self._cancelled

    @property
    def open(self) -> bool:
        return self.real.open

    def hold_ticket(self) -> None:
        """The call is over for whoever carried it: its end is not recorded before it is known whether it is one."""
        self._ticket, self._call.ticket = self._call.ticket, None
        outcome = self._call.outcome
        if outcome is None or (outcome.transport, outcome.protocol) != ("answered", "result"):
            self._no_task()

    def result(self, result: bytes) -> None:
        """The server's answer: a task, or what the call came to."""
        try:
            said = task_in(result, self._line.connection.modern)
        except Fault as fault:
            self.fail(fault)
            return
        if said is None:
            self._no_task()
            self.real.result(result)
        else:
            self._later(self._begin(result, said))

    def fail(self, fault: Fault) -> None:
        self._no_task()
        self.real.fail(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        self._no_task()
        self.real.pass_failure(error)

    def notify(self, method: str, params: bytes) -> None:
        self.real.notify(method, params)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        return self.real.ask(method, params)

    async def _begin(self, result: bytes, said: TaskState) -> None:
        ticket, self._ticket = self._ticket, None
        self._call.exchange = self.real
        try:
            task = await self._tracker.begin(self._id, self._call, self._line, said, ticket, self._token)
        except Fault as fault:
            self.real.fail(fault)
            return
        finally:
            self._ended()
        if self.real.dialect.modern and not self.real.open:
            # Closing the stream cancels in the stateless era, and the id was told to nobody.
            await self._tracker.abandon(task)
            return
        self.real.result(_created(result, task))

    def _cancelled(self, reason: str) -> None:
        if self.on_cancel is not None:
            self.on_cancel(reason)

    def _no_task(self) -> None:
        if self._token is not None:
            self._tracker.expect_no_more(self._token)
        self._ended()

    def _ended(self) -> None:
        """It is no task, or one that is kept by now: what was reserved for it is given back."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._record(ticket, self._call.outcome)
        release, self._release = self._release, _nothing
        release()


def _created(result: bytes, task: KeptTask) -> bytes:
    if task.modern:
        return renamed(result, task)
    fields: dict[str, object] = dict(members(result))
    fields["task"] = msgspec.Raw(renamed(bytes(members(result)["task"]), task))
    return msgspec.json.encode(fields)


def _nothing() -> None:
    """Given back already."""
