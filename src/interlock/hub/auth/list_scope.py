"""The scope of a caller's lists: which part of the catalog, and how many tokens of it."""

from __future__ import annotations

import msgspec

from interlock.config.value_types import Level
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.catalog.views import View


class ListScope(msgspec.Struct, frozen=True):
    """Everything that decides a caller's list. Callers with equal scopes have equal lists."""

    view: View
    budget: int | None = None
    """Tokens that the hub may put into the context; None for no limit."""
    level: Level | None = None
    """The configured level; None lets the size decide."""
    pinned: tuple[str, ...] = ()
    """Patterns over exposed names of tools that are always listed."""
    requests: tuple[str, ...] = ()
    """Patterns over exposed names of tools that the caller may request without having access."""
    by_default: bool = True
    """Whether neither agent nor profile sets a level or budget: then the kind of client decides."""
    stated: bool = False
    """Whether an agent or a profile sets the budget: then it holds for every kind of client."""
    parts: tuple[int, int, int] | None = None
    """The configured shares of the budget for pinned, found and loaded tools."""
    rooms: tuple[str, ...] = ()
    """The topics that the caller may join, which list the tools for rooms."""
    principal: Principal = LOCAL_AGENT
    """The caller: a list shows only what this principal may reach."""
    audiences: tuple[str, ...] = ()
    """The audiences that the caller belongs to (`catalog/audiences.py`): some tools are for those only."""
