"""The tools in each caller's context: pinned tools, loaded tools, and the tools of its last answer.

In the handshake era each session has a context, in the stateless era each principal at each address.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from interlock.discovery.budget import SessionTools, TokenBudget
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.views import View
from interlock.hub.sessions.session import Session, SessionCaller
from interlock.hub.tool_search.listings import ToolListings

UNBOUNDED: Final = TokenBudget(90_000_000, 30_000_000, 30_000_000, 30_000_000)
"""For callers without a budget: every tool fits."""
MAX_CALLERS: Final = 10_000

_Key = tuple[str, str, View]


class _Context(msgspec.Struct, eq=False):
    """The context of one caller."""

    tools: SessionTools
    caller: Caller
    session: Session | None
    stamp: tuple[int, int, int]
    """The versions of the catalog, the counts and the rights that the costs were computed from."""
    listed: bytes = b""
    """The loaded tools in the list that its session was last notified of."""


class Contexts:
    """The contexts of all callers. The hub forgets the least recently used first."""

    def __init__(self, listings: ToolListings) -> None:
        self._listings = listings
        self.by_caller: OrderedDict[_Key, _Context] = OrderedDict()

    def of(self, caller: Caller, session: Session | None) -> SessionTools:
        """The context of a caller, with its present budget and tools."""
        key, stamp = _key(caller, session), self._listings.stamp(caller.list_scope)
        budget = self._listings.budget.left(caller.list_scope) or UNBOUNDED
        pinned = self._listings.budget.pinned(caller.list_scope)
        context = self.by_caller.get(key)
        if context is None:
            context = self.by_caller[key] = _Context(SessionTools(budget, pinned), caller, session, stamp)
        elif context.stamp != stamp or context.tools.budget != budget:
            context.tools.refresh(self._costs(caller, context.tools.loaded))
            context.tools.adopt(budget, pinned)
        context.caller, context.stamp = caller, stamp
        self.by_caller.move_to_end(key)
        if len(self.by_caller) > MAX_CALLERS:
            self.by_caller.popitem(last=False)
        return context.tools

    def listed(self, caller: Caller, session: Session | None) -> tuple[str, ...]:
        """The loaded tools in a session's list, in the order of loading."""
        known = session is not None and _key(caller, session) in self.by_caller
        if not known or self._listings.budget.level(caller.list_scope) != "L3":
            return ()
        return self.of(caller, session).loaded

    def used(self, caller: Caller, session: Session | None, name: str) -> None:
        """Note a call of a tool."""
        context = self.by_caller.get(_key(caller, session))
        if context is not None:
            context.tools.use(name)

    def changed(self, caller: Caller, session: Session | None) -> None:
        """Notify a session if the loaded tools in its list changed."""
        context = self.by_caller.get(_key(caller, session))
        if context is None or session is None:
            return
        loaded = self.listed(caller, session)
        whole = self._listings.listing(caller.list_scope, "tool", loaded) if loaded else b""
        listed = whole[len(self._listings.listing(caller.list_scope, "tool")) - 1 :]
        if listed != context.listed:
            context.listed = listed
            session.notify("notifications/tools/list_changed", b"{}")

    def recheck(self) -> None:
        """Check every session with loaded tools after a change."""
        for context in list(self.by_caller.values()):
            if context.listed:
                self.changed(context.caller, context.session)

    def forget(self, session: Session) -> None:
        """Drop the context of a closed session."""
        self.by_caller.pop(_key(session.caller, session), None)

    def _costs(self, caller: Caller, names: tuple[str, ...]) -> dict[str, int]:
        list_scope = caller.list_scope
        tools = ((name, self._listings.visible.tool(list_scope, name)) for name in names)
        return {name: self._listings.budget.cost(list_scope, tool) for name, tool in tools if tool is not None}


def _key(caller: SessionCaller, session: Session | None) -> _Key:
    return (caller.principal_name, session.id if session is not None else "", caller.view)
