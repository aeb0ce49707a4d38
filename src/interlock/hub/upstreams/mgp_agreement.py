"""Agrees with a server on MGP extensions (MGP, Capability Negotiation). A server that offers none speaks plain MCP.

The name that a server gives itself is for display only, and its own trust level can only lower the configured one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, members
from interlock.protocols.mgp.negotiation import Agreed, Offer, agree, asked_with, read_offer
from interlock.wire.bounded_cache import remembers_short
from interlock.wire.errors import Fault

ASKED: Final = ("security", "audit", "code_safety", "streaming", "bidirectional")
"""The MGP extensions that the hub offers to servers."""


class Agreement(msgspec.Struct, frozen=True):
    """The agreed extensions of one server, and its offer."""

    agreed: Agreed
    offer: Offer

    def speaks(self, extension: str) -> bool:
        """Whether an extension was agreed."""
        return extension in self.agreed.extensions


def agreement(capabilities: bytes) -> tuple[Agreement | None, str]:
    """Read a server's offer. Returns the agreement, None for plain MCP, and a warning for the operator."""
    try:
        found = read_offer(capabilities)
    except Fault as fault:
        return None, f"its MGP offer cannot be read, so the hub speaks plain MCP with it: {fault.message}"
    if found is None:
        return None, ""
    offer, home = found
    agreed = agree(ASKED, offer, home)
    if agreed is None:
        return None, f"the hub does not support its MGP version {offer.version[:20]!r} and speaks plain MCP with it"
    return Agreement(agreed, offer), agreed.warning


@remembers_short(1024)
def asking(capabilities: bytes) -> bytes:
    """A client's capabilities with the hub's own MGP offer in place of the client's."""
    return asked_with(capabilities, ASKED)


@remembers_short(1024)
def _asking_in(meta_capabilities: bytes) -> msgspec.Raw:
    return msgspec.Raw(asking(meta_capabilities))


def asking_meta(meta: msgspec.Raw | None) -> msgspec.Raw:
    """A request's `_meta` with the hub's MGP offer, as each request of the stateless era carries one."""
    fields = {} if meta is None else members(bytes(meta))
    declared = fields.get(CLIENT_CAPABILITIES)
    fields[CLIENT_CAPABILITIES] = _asking_in(b"{}" if declared is None else bytes(declared))
    return msgspec.Raw(msgspec.json.encode(fields))
