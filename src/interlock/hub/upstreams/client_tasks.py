"""Tasks of a client (2025-11-25): a server asks for a sampling or an elicitation as a task, and comes for its outcome.

Each hop has its own ids. So a server finds what it began on this connection, and nothing else that the client does for
others.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.tasks import AUGMENTED, task_id_in, task_in, unknown_task, with_related

ABOUT_ONE: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
METHODS: Final = ABOUT_ONE | {"tasks/list"}
"""What a server may ask of a client about its tasks."""
MOST: Final = 256
"""Tasks that one connection remembers. Beyond, the oldest is forgotten: it is unknown to its server from then on."""


class ClientTasks:
    """What the server of one private connection has begun at the client behind it."""

    def __init__(self) -> None:
        self._theirs: dict[str, str] = {}
        """Our id, which the server knows, and the client's own."""

    def to_client(self, method: str, params: bytes) -> bytes:
        """A server's request, under the client's own id. Raises INVALID_PARAMS for a task that is none of its own."""
        if method not in ABOUT_ONE:
            return params
        theirs = self._theirs.get(task_id_in(params))
        if theirs is None:
            raise unknown_task()
        return _with_id(params, theirs)

    def to_server(self, method: str, params: bytes, result: bytes) -> bytes:
        """The client's answer to a request, under the id that the server knows. Raises a `Fault`, or DecodeError."""
        if method == "tasks/list":
            return self._listed(result)
        if method == "tasks/result":
            return with_related(result, task_id_in(params))
        if method in ABOUT_ONE:
            return _with_id(result, task_id_in(params))
        begun = task_in(result, modern=False) if AUGMENTED in members(params) else None
        if begun is None:
            return result
        fields = members(result)
        fields["task"] = msgspec.Raw(_with_id(bytes(fields["task"]), self._remember(begun.id)))
        return msgspec.json.encode(fields)

    def on_notification(self, params: bytes) -> bytes | None:
        """A client's word on how a task stands, for its server; None where it is not of this one's."""
        ours = self._ours(task_id_in(params))
        return None if ours is None else _with_id(params, ours)

    def _listed(self, result: bytes) -> bytes:
        fields = members(result)
        mine = []
        for task in msgspec.json.decode(fields.get("tasks", b"[]"), type=list[msgspec.Raw]):
            ours = self._ours(task_id_in(bytes(task)))
            if ours is not None:
                mine.append(msgspec.Raw(_with_id(bytes(task), ours)))
        fields["tasks"] = msgspec.Raw(msgspec.json.encode(mine))
        return msgspec.json.encode(fields)

    def _remember(self, theirs: str) -> str:
        while len(self._theirs) >= MOST:
            del self._theirs[next(iter(self._theirs))]
        ours = secrets.token_urlsafe(24)
        self._theirs[ours] = theirs
        return ours

    def _ours(self, theirs: str) -> str | None:
        return next((ours for ours, known in self._theirs.items() if known == theirs), None)


def _with_id(payload: bytes, id: str) -> bytes:
    return msgspec.json.encode({**members(payload), "taskId": id})
