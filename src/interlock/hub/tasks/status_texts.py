"""Texts of servers about tasks: progress and status messages.

They reach the owner of a task like text of a call does: masked where results are, and counted for taints.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.calls.plan import CallPolicy
from interlock.hub.catalog.target import Target
from interlock.hub.sessions.session import SessionCaller
from interlock.protocols.mcp.meta import members

_TEXTS: Final = ("message", "statusMessage")
"""Of progress, and of a task's status."""


class StatusTexts:
    """Checks the texts of all tasks, by the configuration in force."""

    def __init__(self, policy: CallPolicy) -> None:
        self._policy = policy

    def checked(self, caller: SessionCaller, server: str, tool: str, params: bytes) -> bytes:
        """The params of a notification or a result about a task, for its owner."""
        processor = self._policy.processor_of(caller, Target("tool", server, tool))
        if processor is None:
            return params
        fields = members(params)
        texts = {name: msgspec.Raw(processor.params(bytes(fields[name]))) for name in _TEXTS if name in fields}
        return msgspec.json.encode({**fields, **texts})
