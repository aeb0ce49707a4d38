"""Decides which calls may become tasks, before they are sent.

Tasks do not cross the eras: the hub drops a client's request for one unless the server has the same form.
"""

from __future__ import annotations

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call
from interlock.hub.calls.recording import Recording
from interlock.hub.tasks.ledger import full
from interlock.hub.tasks.running_task import ExpectedTask
from interlock.hub.tasks.task_exchange import TaskExchange
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.task_offers import offers_tasks
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, PROGRESS_TOKEN, members
from interlock.protocols.mcp.tasks import AUGMENTED, EXTENSION
from interlock.wire.errors import Fault


class PossibleTasks:
    """Wraps the exchanges of calls that may become tasks."""

    def __init__(
        self, tracker: Tracker, upstreams: Upstreams, recording: Recording, background: BackgroundTasks
    ) -> None:
        self._tracker = tracker
        self._upstreams = upstreams
        self._recording = recording
        self._background = background

    def prepare(self, call: Call, connection: UpstreamConnection) -> TaskExchange | None:
        """Let a call become a task, where it may. Raises a `Fault` where it must not be sent."""
        if isinstance(call.exchange, TaskExchange):
            # This is a retry: the first try ended with an error.
            call.answer_through(call.exchange.real)
        exchange, modern = call.exchange, connection.connection.modern
        dialect = exchange.dialect
        if call.target.kind != "tool":
            # Only tool calls become tasks, in either form.
            call.members.pop(AUGMENTED, None)
            return None
        if dialect.modern:
            # The stateless era ignores the member of 2025-11-25 (SEP-2663, Backward Compatibility).
            call.members.pop(AUGMENTED, None)
            wants = dialect.capabilities.tasks and modern
        else:
            wants = self._requests_task(call, modern)
        if not wants:
            return None
        if not self._tracker.ledger.reserve(call.caller.principal_name):
            if not dialect.modern:
                raise full()
            # In the stateless era the server decides. Without the extension it answers the call directly.
            call.replace_meta(msgspec.Raw(_without_extension(bytes(call.members["_meta"]))))
            return None
        id_ = self._tracker.ledger.new_id()
        token = None
        meta = exchange.preview.meta
        if not dialect.modern and meta is not None and meta.progress_token is not None:
            expected = ExpectedTask(id_, call.target.server, meta.progress_token, exchange.session, call.target.name)
            token = self._tracker.progress.expect(expected)
            fields = members(bytes(call.members["_meta"]))
            call.members["_meta"] = msgspec.Raw(msgspec.json.encode({**fields, PROGRESS_TOKEN: token}))
        task = TaskExchange(call, connection, self._tracker, self._recording, self._background, id=id_, token=token)
        call.answer_through(task)
        return task

    def _requests_task(self, call: Call, modern: bool) -> bool:
        """Whether a call of 2025-11-25 requests a task. Raises METHOD_NOT_FOUND where the tool takes none."""
        if AUGMENTED not in call.members:
            return False
        if not self._offers_tasks(call):
            del call.members[AUGMENTED]
            return False
        tool = call.target.tool
        if modern or tool is None or tool.tasks == "forbidden":
            raise Fault("METHOD_NOT_FOUND", "this tool cannot be called as a task", hint="call it without `task`")
        return True

    def _offers_tasks(self, call: Call) -> bool:
        view = call.caller.view
        upstream = None if view.server is None else self._upstreams.get(view.server)
        return offers_tasks(call.exchange.dialect, view, None if upstream is None else upstream.peer)


def _without_extension(meta: bytes) -> bytes:
    """A request's `_meta` without the tasks extension."""
    declared = msgspec.json.decode(members(meta).get(CLIENT_CAPABILITIES, b"{}"), type=dict[str, object])
    extensions = declared.get("extensions")
    if isinstance(extensions, dict):
        declared["extensions"] = {name: value for name, value in extensions.items() if name != EXTENSION}
    return msgspec.json.encode({**members(meta), CLIENT_CAPABILITIES: declared})
