"""The table of all methods and notifications of MCP: who sends each, in which era, and what it needs."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from interlock.protocols.mcp.revisions import Era
from interlock.wire.json_values import decode_json_or

Sender = Literal["client", "server", "both"]


class Method(msgspec.Struct, frozen=True):
    """The row of a method: who sends it, in which eras, and how it is forwarded."""

    name: str
    sender: Sender
    eras: frozenset[Era]
    needs: str = ""
    """The capability that the *other* side must have declared."""
    named_by: Literal["", "name", "uri", "taskId"] = ""
    """The member of params that names the target. `Mcp-Name` repeats it."""
    list_member: str = ""
    """For a paginated list: the member of the result that holds the items."""
    cacheable: bool = False
    """The result carries `ttlMs` and `cacheScope` in the stateless era."""
    may_ask: bool = False
    """The result may be `input_required` in the stateless era."""
    params: frozenset[str] = frozenset()
    """The members of its params that are forwarded to a server. Others are dropped, because no gate judges them."""

    @property
    def notification(self) -> bool:
        """Whether it is a notification."""
        return self.name.startswith("notifications/")


_BOTH = frozenset(Era)
_OLD = frozenset({Era.LEGACY})
_NEW = frozenset({Era.MODERN})


_RETRY = ("inputResponses", "requestState", "_meta")
"""The answers of a client to questions of a server, and the `_meta` of every request."""


def _client(name: str, eras: frozenset[Era] = _BOTH, **more: object) -> Method:
    return msgspec.convert({"name": name, "sender": "client", "eras": eras, **more}, Method)


METHODS: Final = {
    row.name: row
    for row in (
        _client("initialize", _OLD),
        _client("server/discover", _NEW, cacheable=True),
        _client("subscriptions/listen", _NEW),
        _client("tools/list", needs="tools", list_member="tools", cacheable=True),
        _client(
            "tools/call",
            needs="tools",
            named_by="name",
            may_ask=True,
            params=("name", "arguments", "task", *_RETRY),
        ),
        _client("tools/validate", needs="tools"),
        _client("resources/list", needs="resources", list_member="resources", cacheable=True),
        _client("resources/templates/list", needs="resources", list_member="resourceTemplates", cacheable=True),
        _client(
            "resources/read",
            needs="resources",
            named_by="uri",
            cacheable=True,
            may_ask=True,
            params=("uri", *_RETRY),
        ),
        _client("resources/subscribe", _OLD, needs="resources"),
        _client("resources/unsubscribe", _OLD, needs="resources"),
        _client("prompts/list", needs="prompts", list_member="prompts", cacheable=True),
        _client(
            "prompts/get",
            needs="prompts",
            named_by="name",
            may_ask=True,
            params=("name", "arguments", *_RETRY),
        ),
        _client("completion/complete", needs="completions", params=("ref", "argument", "context", "_meta")),
        _client("logging/setLevel", _OLD, needs="logging"),
        _client("tasks/get", needs="tasks", named_by="taskId", params=("taskId", "_meta")),
        _client("tasks/cancel", needs="tasks", named_by="taskId", params=("taskId", "_meta")),
        _client("tasks/result", _OLD, needs="tasks"),
        _client("tasks/list", _OLD, needs="tasks", list_member="tasks"),
        _client("tasks/update", _NEW, needs="tasks", named_by="taskId", params=("taskId", "inputResponses", "_meta")),
        Method("ping", "both", _OLD),
        Method("sampling/createMessage", "server", _BOTH, needs="sampling"),
        Method("elicitation/create", "server", _BOTH, needs="elicitation"),
        Method("roots/list", "server", _BOTH, needs="roots"),
        Method("notifications/initialized", "client", _OLD),
        Method("notifications/cancelled", "both", _BOTH),
        Method("notifications/progress", "both", _BOTH),
        Method("notifications/roots/list_changed", "client", _OLD, needs="roots"),
        Method("notifications/message", "server", _BOTH),
        Method("notifications/tools/list_changed", "server", _BOTH),
        Method("notifications/prompts/list_changed", "server", _BOTH),
        Method("notifications/resources/list_changed", "server", _BOTH),
        Method("notifications/resources/updated", "server", _BOTH),
        Method("notifications/elicitation/complete", "server", _OLD),
        Method("notifications/subscriptions/acknowledged", "server", _NEW),
        Method("notifications/tasks/status", "server", _OLD),
        Method("notifications/tasks", "server", _NEW),
    )
}

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Least severe first (RFC 5424)."""


def is_severe(message: bytes, least: str | None) -> bool:
    """Whether the client asked for a log message. A message without a level counts as most severe."""
    if least is None:
        return True
    level = decode_json_or(message, _Logged, _Logged()).level
    return level not in LOG_LEVELS or LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


class _Logged(msgspec.Struct):
    level: str = ""


def _served(era: Era) -> frozenset[str]:
    rows = METHODS.values()
    return frozenset(r.name for r in rows if r.sender != "server" and era in r.eras and not r.notification)


SERVED_MODERN: Final = _served(Era.MODERN)

IDEMPOTENT: Final = frozenset(
    row.name for row in METHODS.values() if row.sender == "client" and row.name not in ("tools/call", "initialize")
) | {"ping"}
"""Requests that may be repeated when the outcome of the first is unknown."""
