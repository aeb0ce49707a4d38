"""Access control (MGP, Access Control Protocol): tool grant over server grant over default policy.

On one level, deny wins. Expired entries are ignored. Times are compared as instants, never as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

Permission = Literal["allow", "deny"]
EntryType = Literal["tool_grant", "server_grant"]
DefaultPolicy = Literal["opt-in", "opt-out"]
Source = Literal["tool_grant", "server_grant", "default_policy"]

FOREVER: Final = float("inf")


class AccessEntry(msgspec.Struct, frozen=True):
    """One grant or denial."""

    entry_type: EntryType
    agent_id: str
    server_id: str
    permission: Permission
    tool_name: str | None = None
    granted_by: str = ""
    granted_at: datetime | None = None
    expires_at: datetime | None = None
    justification: str = ""

    def __post_init__(self) -> None:
        if (self.entry_type == "tool_grant") != (self.tool_name is not None):
            raise ValueError("a tool grant names its tool, a server grant names none")

    def holds(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


class AccessDecision(msgspec.Struct, frozen=True):
    """A decision, its source, and its expiry."""

    permission: Permission
    source: Source
    entry: AccessEntry | None = None
    until: datetime | None = None
    """When an entry that mattered expires, so that the decision must be made again."""


def decide(entries: Iterable[AccessEntry], tool: str, default: DefaultPolicy, now: datetime) -> AccessDecision:
    """Whether a tool may be called, by the entries of one agent and one server."""
    live = [entry for entry in entries if entry.holds(now)]
    until = min((entry.expires_at for entry in live if entry.expires_at is not None), default=None)
    levels: tuple[tuple[Source, list[AccessEntry]], ...] = (
        ("tool_grant", [e for e in live if e.entry_type == "tool_grant" and e.tool_name == tool]),
        ("server_grant", [e for e in live if e.entry_type == "server_grant"]),
    )
    for source, found in levels:
        if found:
            deciding = next((entry for entry in found if entry.permission == "deny"), found[0])
            return AccessDecision(deciding.permission, source, deciding, until)
    return AccessDecision("allow" if default == "opt-out" else "deny", "default_policy", None, until)
