"""Decides which callers share a connection. Callers never share one that could leak data between them."""

from __future__ import annotations

import hashlib

import msgspec

from interlock.config.settings import Share
from interlock.protocols.mcp.capability_projection import capabilities_across, capabilities_along
from interlock.transports.exchange import Exchange, Session


class SessionState(msgspec.Struct):
    """The hub's state for a client's session (handshake era)."""

    log_level: str | None = None
    subscriptions: dict[tuple[str, str], str] = {}
    """`(server, uri)` to the address that the client knows."""
    private_connections: set[tuple[str, str]] = set()
    """`(server, name)` of the private connections of this session."""
    tasks: set[str] = set()
    """The tasks that this session is notified of."""
    connection_keys: dict[tuple[str, Share, bool, str | None], ConnectionKey | None] = {}
    """The connection that its calls take, by server, sharing, era and log level."""


class ConnectionKey(msgspec.Struct, frozen=True):
    """The name of a private connection, and the properties of the client that its server sees."""

    name: str
    capabilities: bytes = b"{}"
    log_level: str | None = None
    session: Session | None = None
    """The only session that uses it; None where several requests of one principal do."""


def connection_key(
    share: Share, modern: bool, attributes_logs: bool, owner: str, exchange: Exchange
) -> ConnectionKey | None:
    """The private connection for a call, or None for the shared one.

    Callers share a modern server, as identity and capabilities travel with each request. The shared session of a legacy
    server declares no client capabilities, so a caller that has some, or wants log messages, gets a private session.
    On standard streams a log message names no caller in either era, so a caller that wants them gets a private process.
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
    # Only a private session is notified of changed roots and may fetch a client's tasks.
    project = capabilities_across if dialect.modern or share == "principal" else capabilities_along
    capabilities = project(dialect.capabilities.raw) if answers else b"{}"
    if share != "principal" and session is not None:
        return ConnectionKey(f"session:{session.id}", capabilities, level, session)
    if not own:
        return ConnectionKey(f"principal:{owner}")
    digest = hashlib.sha256(capabilities + b"\0" + (level or "").encode()).hexdigest()[:16]
    return ConnectionKey(f"principal:{owner}:{digest}", capabilities, level)


def log_level_of(exchange: Exchange) -> str | None:
    """The least severe log level that a request's client wants, or None."""
    session = exchange.session
    if session is None:
        return exchange.dialect.log_level
    return session.state.log_level if isinstance(session.state, SessionState) else None
