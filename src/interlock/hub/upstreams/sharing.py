"""Decides which callers share a connection. Callers never share one that could leak data between them."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.config.value_types import Share
from interlock.hub.catalog.audiences import declared_audience
from interlock.hub.sessions.session import ConnectionKey, ConnectionUser, Session
from interlock.protocols.mcp.capability_projection import capabilities_across, capabilities_along
from interlock.protocols.mcp.dialect import Dialect

_ROOTS: Final = "#roots:"
"""Between the name of a private connection and the digest of the roots that its server knows."""


def connection_key(
    share: Share, modern: bool, attributes_logs: bool, principal: str, origin: ConnectionUser
) -> ConnectionKey | None:
    """The private connection for a call, or None for the shared one.

    Callers share a stateless server, as each request carries identity and capabilities. The shared session of a server
    of the handshake era declares no client capabilities, so a caller that has some, or wants log messages, gets a
    private session. On standard streams a log message names no caller in either era, so a caller that wants them gets
    a private process.
    """
    if modern and share == "auto" and origin.session is None and origin.dialect.log_level is None:
        return None
    level = log_level_of(origin)
    answers = not modern and origin.dialect.capabilities.answers_servers
    own = answers or (level is not None and not (modern and attributes_logs))
    session = origin.session
    if share == "auto" and not own:
        return None
    dialect = origin.dialect
    # Only a private session is notified of changed roots and may fetch a client's tasks.
    project = capabilities_across if dialect.modern or share == "principal" else capabilities_along
    capabilities = project(dialect.capabilities.raw) if answers else b"{}"
    asks_roots = answers and dialect.capabilities.roots and share != "principal"
    if share != "principal" and session is not None:
        return ConnectionKey(_of_session(session), capabilities, level, session, principal, asks_roots=asks_roots)
    if not own:
        return ConnectionKey(_of_principal(principal), principal=principal)
    name = _of_declared(principal, capabilities, level)
    return ConnectionKey(name, capabilities, level, principal=principal, asks_roots=asks_roots)


def with_roots(key: ConnectionKey, roots: bytes) -> ConnectionKey:
    """The connection for clients with these roots. A server keeps the roots that it got, so clients with other roots
    need another connection."""
    return msgspec.structs.replace(key, name=rooted_name(key.name, roots), roots=roots)


def rooted_name(name: str, roots: bytes) -> str:
    """The name of a private connection whose server knows these roots. Roots that cannot be decoded, such as those with
    a number out of range, are compared by their bytes."""
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(roots), order="deterministic")
    except (ValueError, RecursionError):
        canonical = roots
    return f"{name}{_ROOTS}{hashlib.sha256(canonical).hexdigest()[:16]}"


def audience_of(name: str) -> str:
    """The audience of a private connection. Clients that differ in their roots alone are one audience, since a request
    to list or subscribe carries no roots."""
    return name.rpartition(_ROOTS)[0] or name


def prefers_handshake(dialect: Dialect, session: Session | None) -> bool:
    """Whether the hub should use the handshake era for a client of a server that speaks both eras.

    It should for a client that answers requests of servers within its session: many servers can ask only by such
    requests, which the stateless era does not have.
    """
    return session is not None and not dialect.modern and dialect.capabilities.answers_servers


def audiences(principal: str, dialect: Dialect, session: Session | None) -> tuple[str, ...]:
    """The audiences that a client belongs to: all that declare the same, and the private connections it may have."""
    declared = declared_audience(dialect.capabilities)
    if not declared:
        return (_of_principal(principal),)
    level = dialect.log_level if session is None else session.log_level
    own = _of_declared(principal, capabilities_across(dialect.capabilities.raw), level)
    return (declared, own) if session is None else (declared, _of_session(session), own)


def _of_session(session: Session) -> str:
    return f"session:{session.id}"


def _of_principal(principal: str) -> str:
    return f"principal:{principal}"


def _of_declared(principal: str, capabilities: bytes, level: str | None) -> str:
    digest = hashlib.sha256(capabilities + b"\0" + (level or "").encode()).hexdigest()[:16]
    return f"principal:{principal}:{digest}"


def log_level_of(origin: ConnectionUser) -> str | None:
    """The least severe log level that a request's client wants, or None."""
    session = origin.session
    return origin.dialect.log_level if session is None else session.log_level
