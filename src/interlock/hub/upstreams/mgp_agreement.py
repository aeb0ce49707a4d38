"""What the hub and a server speak beyond MCP (MGP, Capability Negotiation). The hub asks all; silence is plain MCP.

A server's own word on its name is for display, and its word on its trust can only lower what the operator gave it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, members
from interlock.protocols.mgp.negotiation import Agreed, Offer, agree, asked_with, read_offer
from interlock.wire.bounded_cache import remembers_short
from interlock.wire.errors import Fault

ASKED: Final = ("security", "audit", "code_safety")
"""The extensions that the hub has for servers."""


class Agreement(msgspec.Struct, frozen=True):
    """What was agreed with one server, and what it said of itself."""

    agreed: Agreed
    offer: Offer

    def speaks(self, extension: str) -> bool:
        """Whether an extension is spoken with it."""
        return extension in self.agreed.extensions


def agreement(capabilities: bytes) -> tuple[Agreement | None, str]:
    """What a server's answer comes to, and what the operator should know of it. None: plain MCP is spoken."""
    try:
        found = read_offer(capabilities)
    except Fault as fault:
        return None, f"what it says of MGP cannot be read, so plain MCP is spoken: {fault.message}"
    if found is None:
        return None, ""
    offer, home = found
    agreed = agree(ASKED, offer, home)
    if agreed is None:
        return None, f"it speaks MGP {offer.version[:20]!r}, which does not fit, so plain MCP is spoken"
    return Agreement(agreed, offer), agreed.warning


@remembers_short(1024)
def asking(capabilities: bytes) -> bytes:
    """A client's capabilities with the hub's own question about MGP in them, in place of the client's."""
    return asked_with(capabilities, ASKED)


@remembers_short(1024)
def _asking_in(meta_capabilities: bytes) -> msgspec.Raw:
    return msgspec.Raw(asking(meta_capabilities))


def asking_meta(meta: msgspec.Raw | None) -> msgspec.Raw:
    """A request's `_meta` for a server of the stateless era that speaks MGP: there the question comes with each."""
    fields = {} if meta is None else members(bytes(meta))
    said = fields.get(CLIENT_CAPABILITIES)
    fields[CLIENT_CAPABILITIES] = _asking_in(b"{}" if said is None else bytes(said))
    return msgspec.Raw(msgspec.json.encode(fields))
