"""Texts of servers about tasks: progress and status messages.

They reach the principal of a task like text of a call does: masked where results are, and counted for taints.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from interlock.hub.calls.bridges.retries import QUESTIONS
from interlock.hub.calls.plan import CallPolicy
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import SessionCaller
from interlock.protocols.mcp.meta import members

_KEPT: Final = frozenset({"taskId", "progressToken", "requestState", "result", "error", QUESTIONS})
"""Members that must stay as they are, or that are processed on their own. Questions are not masked."""
_PLAIN: Final = re.compile(rb'"[0-9TZ:.+\-]{0,40}"|"[a-z_]{0,20}"|[0-9.eE+\-]{1,30}|null|true|false')
"""Values that are no text: times, the words of the protocol, numbers."""


class StatusTexts:
    """Checks the texts of all tasks, by the configuration in force."""

    def __init__(self, policy: CallPolicy) -> None:
        self._policy = policy

    def checked(self, caller: SessionCaller, server: str, tool: str, params: bytes) -> bytes:
        """The params of a notification or a result about a task, for its principal."""
        processor = self._policy.processor_of(caller, Target("tool", server, tool))
        if processor is None:
            return params
        fields = members(params)
        texts = {name: bytes(raw) for name, raw in fields.items() if name not in _KEPT and not _PLAIN.fullmatch(raw)}
        checked = {name: msgspec.Raw(processor.params(text)) for name, text in texts.items()}
        return msgspec.json.encode({**fields, **checked})
