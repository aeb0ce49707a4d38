"""Which scopes to ask for (MCP, Scope Selection Strategy and Step-Up Authorization Flow)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from interlock.wire.errors import Fault

MAX_SCOPES: Final = 1000
"""Scopes of one login. A server chooses their names, and could name ever more of them."""
OFFLINE: Final = "offline_access"


def initial_scopes(
    challenged: str | None, supported: Iterable[str] | None, configured: Iterable[str], server_scopes: Iterable[str]
) -> tuple[str, ...]:
    """The scopes of a first login: those of the challenge, or else all of the resource, and the configured ones.

    `offline_access`, which gives a refresh token, is added only if the authorization server supports it. Raises
    UPSTREAM_ERROR for too many.
    """
    chosen = challenged.split() if challenged is not None else list(supported or ())
    chosen += configured
    if OFFLINE in server_scopes:
        chosen.append(OFFLINE)
    return _bounded(dict.fromkeys(chosen))


def stepped_up(requested: Iterable[str], needed: Iterable[str]) -> tuple[str, ...] | None:
    """The earlier scopes and those that a request needs. None if none is new. Raises UPSTREAM_ERROR for too many."""
    before = dict.fromkeys(requested)
    scopes = {**before, **dict.fromkeys(needed)}
    return _bounded(scopes) if len(scopes) > len(before) else None


def _bounded(scopes: Collection[str]) -> tuple[str, ...]:
    if len(scopes) > MAX_SCOPES:
        message = f"the server asks for {len(scopes)} scopes, and a login has at most {MAX_SCOPES}"
        raise Fault("UPSTREAM_ERROR", message, hint="ask the server's operator")
    return tuple(scopes)
