"""The agreement with a peer: with a session in the handshake era, with each request in the stateless one."""

from __future__ import annotations

import msgspec

from interlock.protocols.mcp.capabilities import NO_CAPABILITIES, ClientCapabilities
from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mgp.negotiation import MgpAgreement, MgpOffer, MgpPlace
from interlock.wire.errors import ErrorDialect


class Dialect(msgspec.Struct, frozen=True):
    """How one client speaks."""

    revision: Revision
    capabilities: ClientCapabilities = NO_CAPABILITIES
    client_info: bytes | None = None
    """Self-reported, for display alone."""
    log_level: str | None = None
    """The least severe message this request wants; None wants none (stateless era)."""
    rest: bool = False
    """Whether it came as a plain HTTP request and is answered with a status and a body, not with a message."""

    mgp_offer: tuple[MgpOffer, MgpPlace] | None = None
    """The client's MGP declaration, and its place; None if it made none."""
    mgp: MgpAgreement | None = None
    """The MGP agreement. A service that speaks MGP sets it; without it the peers speak plain MCP."""

    modern: bool = False
    """Whether requests stand alone: the revision's own word, kept here because every call asks for it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "modern", self.revision.modern)

    @property
    def error_dialect(self) -> ErrorDialect:
        """How errors are spoken to this client."""
        if self.rest:
            return ErrorDialect.REST
        if self.mgp is not None:
            return ErrorDialect.NEW_MGP if self.modern else ErrorDialect.MGP
        return ErrorDialect.NEW_MCP if self.modern else ErrorDialect.OLD_MCP
