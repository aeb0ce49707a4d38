"""What the hub speaks with a client beyond plain MCP: MGP, with those that asked (MGP, Capability Negotiation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.negotiation import Agreed, Home, agree, answer
from interlock.wire.bounded_cache import remembers_short

OFFERED: Final = ("security", "access_control", "audit", "tool_discovery")
"""The extensions that this hub has for clients."""

_METHODS_ALONE: Final = Agreed(frozenset(), Home.PLAIN)
"""For MGP's own methods when nothing was agreed: their errors have MGP's codes whoever asks."""


def _size(dialect: Dialect) -> int:
    return len(dialect.capabilities.raw) + len(dialect.client_info or b"")


@remembers_short(1024, _size)
def speaking(dialect: Dialect) -> Dialect:
    """The dialect that is spoken with a client that offered MGP. Versions that do not fit leave plain MCP."""
    if dialect.mgp_offer is None:
        return dialect
    return msgspec.structs.replace(dialect, mgp=agree(OFFERED, *dialect.mgp_offer))


def speaks_of_security(dialect: Dialect) -> bool:
    """Whether a client is told what the hub makes of a tool's security (MGP, Tool Security Metadata)."""
    return dialect.mgp is not None and "security" in dialect.mgp.extensions


@remembers_short(1024, _size)
def for_mgp_method(dialect: Dialect) -> Dialect:
    """The dialect in which a method of MGP's own is answered."""
    return dialect if dialect.mgp is not None else msgspec.structs.replace(dialect, mgp=_METHODS_ALONE)


def with_answer(offered: dict[str, object], dialect: Dialect) -> dict[str, object]:
    """The hub's capabilities, with the answer to a client's offer in the place where it asked."""
    if dialect.mgp is None:
        return offered
    said = answer(dialect.mgp)
    for home, extensions in said.items():
        known = offered.get(home)
        if isinstance(known, Mapping) and isinstance(extensions, Mapping):
            said[home] = {**known, **extensions}
    return {**offered, **said}
