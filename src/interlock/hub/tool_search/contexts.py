"""What stands in each caller's context: pinned tools, those it loaded, and what it was last told of.

In the handshake era a session has its own, in the stateless one a principal does, at each address that it comes to.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from interlock.discovery.budget import Budget, SessionTools
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.views import View
from interlock.hub.tool_search.listings import ToolListings
from interlock.transports.exchange import Session

UNBOUNDED: Final = Budget(90_000_000, 30_000_000, 30_000_000, 30_000_000)
"""For callers without a budget: everything fits."""
MOST_CALLERS: Final = 10_000

_Whose = tuple[str, str, View]


class _Context(msgspec.Struct, eq=False):
    """One caller's."""

    tools: SessionTools
    caller: Caller
    session: Session | None
    stamp: tuple[int, int, int]
    """What its figures were made from."""
    listed: bytes = b""
    """Where it is a session's: what loaded tools added to its list when it was last told of that."""


class Contexts:
    """The contexts of all callers, the least recently used forgotten first."""

    def __init__(self, listings: ToolListings) -> None:
        self._listings = listings
        self.kept: OrderedDict[_Whose, _Context] = OrderedDict()

    def of(self, caller: Caller, session: Session | None) -> SessionTools:
        """A caller's context, as its budget and its tools are now."""
        whose, stamp = _whose(caller, session), self._listings.stamp(caller.list_scope)
        budget = self._listings.budget(caller.list_scope) or UNBOUNDED
        pinned = self._listings.pinned(caller.list_scope)
        context = self.kept.get(whose)
        if context is None:
            context = self.kept[whose] = _Context(SessionTools(budget, pinned), caller, session, stamp)
        elif context.stamp != stamp or context.tools.budget != budget:
            context.tools.refresh(self._costs(caller, context.tools.loaded))
            context.tools.adopt(budget, pinned)
        context.caller, context.stamp = caller, stamp
        self.kept.move_to_end(whose)
        if len(self.kept) > MOST_CALLERS:
            self.kept.popitem(last=False)
        return context.tools

    def listed(self, caller: Caller, session: Session | None) -> tuple[str, ...]:
        """The tools that a session loaded and its list shows, in the order they were loaded."""
        if (
            session is None
            or _whose(caller, session) not in self.kept
            or self._listings.level(caller.list_scope) != "L3"
        ):
            return ()
        return self.of(caller, session).loaded

    def used(self, caller: Caller, session: Session | None, name: str) -> None:
        """A tool was called."""
        context = self.kept.get(_whose(caller, session))
        if context is not None:
            context.tools.use(name)

    def changed(self, caller: Caller, session: Session | None) -> None:
        """Tell a session that its list is another, if other tools than before are loaded, or they are others now."""
        context = self.kept.get(_whose(caller, session))
        if context is None or session is None:
            return
        loaded = self.listed(caller, session)
        whole = self._listings.listing(caller.list_scope, "tool", loaded) if loaded else b""
        listed = whole[len(self._listings.listing(caller.list_scope, "tool")) - 1 :]
        if listed != context.listed:
            context.listed = listed
            session.notify("notifications/tools/list_changed", b"{}")

    def look_again(self) -> None:
        """Something changed: look at every session that has tools loaded."""
        for context in list(self.kept.values()):
            if context.listed:
                self.changed(context.caller, context.session)

    def forget(self, caller: Caller, session: Session) -> None:
        """A session is over."""
        self.kept.pop(_whose(caller, session), None)

    def _costs(self, caller: Caller, names: tuple[str, ...]) -> dict[str, int]:
        list_scope = caller.list_scope
        tools = ((name, self._listings.tool(list_scope, name)) for name in names)
        return {name: self._listings.cost(list_scope, tool) for name, tool in tools if tool is not None}


def _whose(caller: Caller, session: Session | None) -> _Whose:
    return (caller.owner, session.id if session is not None else "", caller.view)
