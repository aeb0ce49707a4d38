"""The negotiated properties of a client: per session in the handshake era, per request in the stateless era."""

from __future__ import annotations

import msgspec

from interlock.protocols.mcp.capabilities import NO_CAPABILITIES, ClientCapabilities
from interlock.protocols.mcp.revisions import Revision
from interlock.protocols.mgp.negotiation import MgpAgreement, MgpOffer, MgpPlace
from interlock.wire.errors import ErrorDialect


class Dialect(msgspec.Struct, frozen=True):
    """The protocol revision, capabilities and extensions of one client."""

    revision: Revision
    capabilities: ClientCapabilities = NO_CAPABILITIES
    client_info: bytes | None = None
    """The client's own description. Only for display."""
    log_level: str | None = None
    """The lowest log level that this request wants; None for no log messages (stateless era)."""
    rest: bool = False
    """Whether the request came over REST, and is answered with a status and a body instead of a message."""

    mgp_offer: tuple[MgpOffer, MgpPlace] | None = None
    """The client's MGP declaration, and its place; None if it made none."""
    mgp: MgpAgreement | None = None
    """The MGP agreement. A service that speaks MGP sets it; without it the peers speak plain MCP."""

    modern: bool = False
    """Whether the revision is stateless. A copy of `revision.modern`, because every call reads it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "modern", self.revision.modern)

    @property
    def error_dialect(self) -> ErrorDialect:
        """The error dialect for this client."""
        if self.rest:
            return ErrorDialect.REST
        if self.mgp is not None:
            return ErrorDialect.NEW_MGP if self.modern else ErrorDialect.MGP
        return ErrorDialect.NEW_MCP if self.modern else ErrorDialect.OLD_MCP
