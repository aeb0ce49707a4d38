"""Who shares an upstream. Confidentiality first: what could carry one caller's affairs to another is not shared."""

from __future__ import annotations

import msgspec

from interlock.config.settings import Share
from interlock.hub.call import Caller
from interlock.transports.exchange import Session


class SessionState(msgspec.Struct):
    """What the hub keeps for a client's session (handshake era)."""

    log_level: str | None = None
    subscriptions: dict[tuple[str, str], str] = {}
    """`(server, uri)` to the address the client knows it by."""
    lanes: set[tuple[str, str]] = set()
    """`(server, lane)` of the connections that were opened for this session alone."""


def lane(share: Share, *, upstream_modern: bool, caller: Caller, session: Session | None) -> str | None:
    """Whose connection a call takes: None for the one all share, else the name of the private one.

    A modern server is shared: identity and capabilities travel with each request. A legacy server's shared session
    declares no client capabilities, so whoever has some, or wants log messages, gets a session of their own.
    """
    if share == "principal":
        return f"principal:{caller.owner}"
    if share == "session":
        return f"session:{session.id}" if session is not None else f"principal:{caller.owner}"
    if upstream_modern or session is None:
        return None
    state = session.state
    wants_log = isinstance(state, SessionState) and state.log_level is not None
    if session.dialect.capabilities.answers_servers or wants_log:
        return f"session:{session.id}"
    return None
