"""Agrees with a client on MGP extensions, where the client offered them (MGP, Capability Negotiation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.negotiation import Agreed, Home, agree, answer
from interlock.wire.bounded_cache import remembers_short

OFFERED: Final = ("security", "access_control", "audit", "tool_discovery")
"""The MGP extensions that the hub offers to clients."""

_METHODS_ONLY: Final = Agreed(frozenset(), Home.PLAIN)
"""For MGP's own methods when no extension was agreed: their errors have MGP's codes for every client."""


def _size(dialect: Dialect) -> int:
    return len(dialect.capabilities.raw) + len(dialect.client_info or b"")


@remembers_short(1024, _size)
def speaking(dialect: Dialect) -> Dialect:
    """The dialect for a client that offered MGP. With an unsupported version it stays plain MCP."""
    if dialect.mgp_offer is None:
        return dialect
    return msgspec.structs.replace(dialect, mgp=agree(OFFERED, *dialect.mgp_offer))


def speaks_of_security(dialect: Dialect) -> bool:
    """Whether a client gets the hub's security assessment of each tool (MGP, Tool Security Metadata)."""
    return dialect.mgp is not None and "security" in dialect.mgp.extensions


@remembers_short(1024, _size)
def for_mgp_method(dialect: Dialect) -> Dialect:
    """The dialect for answers to MGP's own methods."""
    return dialect if dialect.mgp is not None else msgspec.structs.replace(dialect, mgp=_METHODS_ONLY)


def with_answer(offered: dict[str, object], dialect: Dialect) -> dict[str, object]:
    """Add the answer to a client's MGP offer to the hub's capabilities, in the same member as the offer."""
    if dialect.mgp is None:
        return offered
    answered = answer(dialect.mgp)
    for home, extensions in answered.items():
        known = offered.get(home)
        if isinstance(known, Mapping) and isinstance(extensions, Mapping):
            answered[home] = {**known, **extensions}
    return {**offered, **answered}
