"""Who shares an upstream. Confidentiality first: what could carry one caller's affairs to another is not shared."""

from __future__ import annotations

import hashlib

import msgspec

from interlock.config.settings import Share
from interlock.protocols.mcp.capability_projection import capabilities_across, capabilities_along
from interlock.transports.exchange import Exchange, Session


class SessionState(msgspec.Struct):
    """What the hub keeps for a client's session (handshake era)."""

    log_level: str | None = None
    subscriptions: dict[tuple[str, str], str] = {}
    """`(server, uri)` to the address the client knows it by."""
    private_connections: set[tuple[str, str]] = set()
    """`(server, lane)` of the connections that were opened for this session alone."""
    tasks: set[str] = set()
    """The tasks whose owner was last seen here, to be told of them."""
    own_lanes: dict[tuple[str, Share, bool, str | None], ConnectionKey | None] = {}
    """Whose connection its calls take: by server, how that is shared, its era, and the log level of the session."""


class ConnectionKey(msgspec.Struct, frozen=True):
    """Whose a private connection is, and what its server is told of the client behind it."""

    name: str
    capabilities: bytes = b"{}"
    log_level: str | None = None
    session: Session | None = None
    """The one session it is for; None where it serves several requests of one principal."""


def connection_key(
    share: Share, modern: bool, attributes_logs: bool, owner: str, exchange: Exchange
) -> ConnectionKey | None:
    """Whose connection a call takes: None for the one all share, else the private one.

    A modern server is shared: identity and capabilities travel with each request. A legacy server's shared session
    declares no client capabilities, so whoever has some, or wants log messages, gets a session of their own. On
    standard streams a log message does not say whose it is, in either era: whoever wants them gets their own there.
    """
    if modern and share == "auto" and exchange.session is None and exchange.dialect.log_level is None:
        return None
    level = log_level_of(exchange)
    answers = not modern and exchange.dialect.capabilities.answers_servers
    own = answers or (level is not None and not (modern and attributes_logs))
    session = exchange.session
    if share == "auto" and not own:
        return None
    dialect = exchange.dialect
    # Only a session of its own is told of changed roots, and comes for a client's tasks.
    said = capabilities_across if dialect.modern or share == "principal" else capabilities_along
    capabilities = said(dialect.capabilities.raw) if answers else b"{}"
    if share != "principal" and session is not None:
        return ConnectionKey(f"session:{session.id}", capabilities, level, session)
    if not own:
        return ConnectionKey(f"principal:{owner}")
    digest = hashlib.sha256(capabilities + b"\0" + (level or "").encode()).hexdigest()[:16]
    return ConnectionKey(f"principal:{owner}:{digest}", capabilities, level)


def log_level_of(exchange: Exchange) -> str | None:
    """The least severe log message that a request's client wants, in whichever way its era says so; None for none."""
    session = exchange.session
    if session is None:
        return exchange.dialect.log_level
    return session.state.log_level if isinstance(session.state, SessionState) else None
