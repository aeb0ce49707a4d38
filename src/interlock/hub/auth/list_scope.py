"""A shelf: which part of everything a caller's list is made from, and how much of it may stand in the context."""

from __future__ import annotations

import msgspec

from interlock.config.settings import Level
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.catalog.views import View


class ListScope(msgspec.Struct, frozen=True):
    """What decides a caller's list. Two callers with equal shelves have equal lists."""

    view: View
    budget: int | None = None
    """Tokens that the hub may put into the context; None for no bound."""
    level: Level | None = None
    """What the operator set; None lets the size decide."""
    pinned: tuple[str, ...] = ()
    """Patterns over exposed names of tools that are always listed."""
    requests: tuple[str, ...] = ()
    """Patterns over exposed names of tools that may be asked for where there is no access."""
    by_default: bool = True
    """Whether neither agent nor profile says how much is listed: then the kind of client may."""
    stated: bool = False
    """Whether an agent or a profile states the budget: then it holds everywhere."""
    parts: tuple[int, int, int] | None = None
    """What of the budget is for pinned, found and loaded tools, where the operator says so."""
    principal: Principal = LOCAL_AGENT
    """Whose list it is: what it may not reach is not in it."""
