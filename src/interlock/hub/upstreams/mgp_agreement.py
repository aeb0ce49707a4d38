"""Agrees with a server on MGP extensions (MGP, Capability Negotiation). A server that offers none speaks plain MCP.

The name that a server gives itself is for display only, and its own trust level can only lower the configured one. A
declaration that cannot be read counts as the strictest: the server may have meant to restrict itself.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, members
from interlock.protocols.mgp.negotiation import MgpAgreement, MgpOffer, agree, asked_with, read_offer
from interlock.protocols.mgp.permissions import STANDARD
from interlock.protocols.mgp.security import Trust
from interlock.wire.bounded_cache import cache_short
from interlock.wire.errors import Fault

ASKED: Final = ("security", "audit", "code_safety", "lifecycle", "streaming", "bidirectional")
"""The MGP extensions that the hub offers to servers."""


class Agreement(msgspec.Struct, frozen=True):
    """The agreed extensions of one server, and its offer."""

    agreed: MgpAgreement | None
    """None where the hub speaks plain MCP with the server. Its declarations hold nevertheless."""
    offer: MgpOffer
    warning: str = ""

    def speaks(self, extension: str) -> bool:
        """Whether an extension was agreed."""
        return self.agreed is not None and extension in self.agreed.extensions


STRICTEST: Final = MgpOffer("", (), tuple(STANDARD), trust_level=Trust.SANDBOXED.name.lower())
"""The offer in place of one that cannot be read: every permission is needed, and the server is not trusted."""


def agreement(capabilities: bytes) -> Agreement | None:
    """Read a server's offer. None for a server that offers nothing of MGP."""
    try:
        found = read_offer(capabilities)
    except Fault as fault:
        unreadable = "its MGP declaration cannot be read, so the hub takes the strictest: every permission is needed"
        return Agreement(None, STRICTEST, f"{unreadable} ({fault.message})")
    if found is None:
        return None
    offer, home = found
    agreed = agree(ASKED, offer, home)
    if agreed is None:
        unsupported = f"the hub does not support its MGP version {offer.version[:20]!r} and speaks plain MCP with it"
        return Agreement(None, offer, unsupported)
    return Agreement(agreed, offer, agreed.warning)


@cache_short(1024)
def asking(capabilities: bytes) -> bytes:
    """A client's capabilities with the hub's own MGP offer in place of the client's."""
    return asked_with(capabilities, ASKED)


@cache_short(1024)
def _asking_in(meta_capabilities: bytes) -> msgspec.Raw:
    return msgspec.Raw(asking(meta_capabilities))


def asking_meta(meta: msgspec.Raw | None) -> msgspec.Raw:
    """A request's `_meta` with the hub's MGP offer, as each request of the stateless era carries one."""
    fields = {} if meta is None else members(bytes(meta))
    declared = fields.get(CLIENT_CAPABILITIES)
    fields[CLIENT_CAPABILITIES] = _asking_in(b"{}" if declared is None else bytes(declared))
    return msgspec.Raw(msgspec.json.encode(fields))
