"""The exchange of a call that may become a task. It reads the answer before the client gets it.

The audit log gets the end of the call only once it is known whether the call became a task.
"""

from __future__ import annotations

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import Outcome
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call
from interlock.hub.calls.recording import Recording
from interlock.hub.sessions.exchanges import WrappedExchange
from interlock.hub.sessions.session import SessionCaller
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.tasks.running_task import renamed
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import TaskState, task_in
from interlock.wire.errors import ErrorObject, Fault


class TaskExchange(WrappedExchange[SessionCaller]):
    """Wraps the exchange of such a call."""

    __slots__ = (
        "_background",
        "_call",
        "_id",
        "_outcome",
        "_recording",
        "_reserved",
        "_route",
        "_ticket",
        "_token",
        "_tracker",
    )

    def __init__(
        self,
        call: Call,
        route: UpstreamConnection,
        tracker: Tracker,
        recording: Recording,
        background: BackgroundTasks,
        *,
        id: str,
        token: str | None,
    ) -> None:
        real = call.exchange
        preview = real.preview
        if token is not None and preview.meta is not None:
            # A progress token of the link would be void once the call is answered.
            preview = msgspec.structs.replace(preview, meta=msgspec.structs.replace(preview.meta, progress_token=None))
        super().__init__(real)
        self.preview = preview
        self._call = call
        self._route = route
        self._tracker = tracker
        self._background = background
        self._recording = recording
        self._reserved = True
        """Whether the ledger reserves a place for the task."""
        self._id = id
        self._token = token
        self._ticket: Ticket | None = None
        self._outcome: Outcome | None = None

    @property
    def reachable(self) -> bool:
        """True: a result that is a task is kept by the ledger, not for an identical call."""
        return True

    def call_ended(self, ticket: Ticket | None, outcome: Outcome | None) -> None:
        """Keep the audit ticket of a call that ended, until it is known whether the call became a task."""
        self._recording.end_of_answer(self._call, outcome)
        self._ticket, self._outcome = ticket, outcome
        if outcome is None or (outcome.transport, outcome.protocol) != ("answered", "result"):
            self._no_task()

    def result(self, result: bytes) -> None:
        """Take the server's answer: a task, or the result of the call."""
        try:
            started = task_in(result, self._route.connection.modern)
        except Fault as fault:
            self.fail(fault)
            return
        if started is None:
            self._no_task()
            self.real.result(result)
        else:
            self._background.begin(self._start_task(result, started), self.real)

    def fail(self, fault: Fault) -> None:
        self._no_task()
        self.real.fail(fault)

    def pass_failure(self, error: ErrorObject) -> None:
        self._no_task()
        self.real.pass_failure(error)

    async def _start_task(self, result: bytes, started: TaskState) -> None:
        ticket, self._ticket = self._ticket, None
        self._call.answer_through(self.real)
        try:
            task = await self._tracker.begin(self._id, self._call, self._route, started, ticket, self._token)
        except Fault as fault:
            self.real.fail(fault)
            return
        finally:
            self._ended()
        if self.real.dialect.modern and not self.real.open:
            # Closing the stream cancels in the stateless era, and no client knows the id.
            await self._tracker.abandon(task)
            return
        self.real.result(_created(result, task))

    def _no_task(self) -> None:
        self._tracker.progress.drop(self._token)
        self._ended()

    def _ended(self) -> None:
        """Release the quota: the call became no task, or the ledger has the task by now."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._recording.end_later(ticket, self._outcome)
        if self._reserved:
            self._reserved = False
            self._tracker.ledger.release(self._call.caller.principal_name)


def _created(result: bytes, task: StoredTask) -> bytes:
    if task.modern:
        return renamed(result, task)
    fields: dict[str, object] = dict(members(result))
    fields["task"] = msgspec.Raw(renamed(bytes(members(result)["task"]), task))
    return msgspec.json.encode(fields)
