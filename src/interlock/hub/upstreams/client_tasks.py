"""Tasks of a client (2025-11-25): a server starts a sampling or elicitation as a task and fetches its outcome later.

The server and the client know a task by different ids. So a server reaches only the tasks that it started on this
connection, and none that the client runs for others.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import AUGMENTED, task_id_in, task_in, unknown_task, with_related

SINGLE_TASK: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
METHODS: Final = SINGLE_TASK | {"tasks/list"}
"""The methods for tasks that a server may send to a client."""
MAX_TASKS: Final = 256
"""Tasks that one connection remembers. Each further one makes the hub forget the oldest."""


class TaskIds(Protocol):
    """Makes the hub's ids of tasks, which name its node and worker."""

    def new_task_id(self) -> str:
        """An id that cannot be guessed."""


class ClientTasks:
    """The tasks that the server of one private connection started at the client."""

    def __init__(self, ids: TaskIds) -> None:
        self._ids = ids
        self._client_ids: dict[str, str] = {}
        """The hub's id of each task, which the server knows, and the client's."""

    def to_client(self, method: str, params: bytes) -> bytes:
        """Translate a server's request to the client's id. Raises INVALID_PARAMS for a task of another server."""
        if method not in SINGLE_TASK:
            return params
        client_id = self._client_ids.get(task_id_in(params))
        if client_id is None:
            raise unknown_task()
        return _with_id(params, client_id)

    def to_server(self, method: str, params: bytes, result: bytes) -> bytes:
        """Translate the client's result to the id that the server knows. Raises a `Fault`, or DecodeError."""
        if method == "tasks/list":
            return self._listed(result)
        if method == "tasks/result":
            return with_related(result, task_id_in(params))
        if method in SINGLE_TASK:
            return _with_id(result, task_id_in(params))
        started = task_in(result, modern=False) if AUGMENTED in members(params) else None
        if started is None:
            return result
        fields = members(result)
        fields["task"] = msgspec.Raw(_with_id(bytes(fields["task"]), self._remember(started.id)))
        return msgspec.json.encode(fields)

    def on_notification(self, params: bytes) -> bytes | None:
        """Translate a client's task status for the server; None for a task that this server did not start."""
        hub_id = self._hub_id(task_id_in(params))
        return None if hub_id is None else _with_id(params, hub_id)

    def _listed(self, result: bytes) -> bytes:
        fields = members(result)
        known = []
        for task in msgspec.json.decode(fields.get("tasks", b"[]"), type=list[msgspec.Raw]):
            hub_id = self._hub_id(task_id_in(bytes(task)))
            if hub_id is not None:
                known.append(msgspec.Raw(_with_id(bytes(task), hub_id)))
        fields["tasks"] = msgspec.Raw(msgspec.json.encode(known))
        return msgspec.json.encode(fields)

    def _remember(self, client_id: str) -> str:
        while len(self._client_ids) >= MAX_TASKS:
            del self._client_ids[next(iter(self._client_ids))]
        hub_id = self._ids.new_task_id()
        self._client_ids[hub_id] = client_id
        return hub_id

    def _hub_id(self, client_id: str) -> str | None:
        return next((hub_id for hub_id, known in self._client_ids.items() if known == client_id), None)


def _with_id(payload: bytes, id: str) -> bytes:
    return msgspec.json.encode({**members(payload), "taskId": id})
