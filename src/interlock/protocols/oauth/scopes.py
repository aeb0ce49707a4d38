"""Which scopes to ask for (MCP, Scope Selection Strategy and Step-Up Authorization Flow)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

OFFLINE: Final = "offline_access"


def initial_scopes(
    challenged: str | None, supported: Iterable[str] | None, configured: Iterable[str], server_scopes: Iterable[str]
) -> tuple[str, ...]:
    """The scopes of a first login: those of the challenge, or else all of the resource, and the configured ones.

    `offline_access`, which gives a refresh token, is added only if the authorization server supports it.
    """
    chosen = challenged.split() if challenged is not None else list(supported or ())
    chosen += configured
    if OFFLINE in server_scopes:
        chosen.append(OFFLINE)
    return tuple(dict.fromkeys(chosen))


def stepped_up(requested: Iterable[str], needed: Iterable[str]) -> tuple[str, ...] | None:
    """The earlier scopes and those that a request needs. None if none is new."""
    before = tuple(dict.fromkeys(requested))
    new = [scope for scope in needed if scope not in before]
    return (*before, *dict.fromkeys(new)) if new else None
