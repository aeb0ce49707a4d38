"""Agrees with a client on MGP extensions, where the client offered them (MGP, Capability Negotiation)."""

from __future__ import annotations

from typing import Final

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.agreement import size_of, spoken_with
from interlock.protocols.mgp.methods import agreed_on
from interlock.wire.bounded_cache import cache_short

OFFERED: Final = (
    "security",
    "access_control",
    "audit",
    "lifecycle",
    "streaming",
    "bidirectional",
    "discovery",
    "tool_discovery",
)
"""The MGP extensions that the hub offers to clients."""


@cache_short(1024, size_of)
def speaking(dialect: Dialect) -> Dialect:
    """The dialect for a client that offered MGP. With an unsupported version it stays plain MCP."""
    return spoken_with(dialect, OFFERED)


def speaks_of_security(dialect: Dialect) -> bool:
    """Whether a client gets the hub's security assessment of each tool (MGP, Tool Security Metadata)."""
    return agreed_on(dialect, "security")
