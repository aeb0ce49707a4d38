"""The answer to a client's MGP offer: the client's dialect with the agreement, and the answer in the capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mgp.negotiation import agree, answer


def size_of(dialect: Dialect) -> int:
    """The bytes of a dialect that its client chose."""
    return len(dialect.capabilities.raw) + len(dialect.client_info or b"")


def spoken_with(dialect: Dialect, offered: Iterable[str]) -> Dialect:
    """The dialect with the extensions that both sides offer; plain MCP for an unsupported version."""
    if dialect.mgp_offer is None:
        return dialect
    return msgspec.structs.replace(dialect, mgp=agree(offered, *dialect.mgp_offer))


def with_answer(
    capabilities: Mapping[str, object],
    dialect: Dialect,
    *,
    server_id: str | None = None,
    permissions: Sequence[str] = (),
) -> dict[str, object]:
    """Add the answer to a client's MGP offer to the capabilities, in the same member as the offer."""
    if dialect.mgp is None:
        return dict(capabilities)
    answered = answer(dialect.mgp, server_id=server_id, permissions=permissions)
    for home, extensions in answered.items():
        known = capabilities.get(home)
        if isinstance(known, Mapping) and isinstance(extensions, Mapping):
            answered[home] = {**known, **extensions}
    return {**capabilities, **answered}
