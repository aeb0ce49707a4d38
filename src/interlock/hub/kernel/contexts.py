"""What stands in each caller's context: pinned tools, those it loaded, and what it was last told of.

In the handshake era a session has its own, in the stateless one a principal does, at each address that it comes to.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from interlock.discovery.budget import Budget, SessionTools
from interlock.hub.call import Caller
from interlock.hub.catalog.views import View
from interlock.hub.kernel.shelves import Shelves
from interlock.transports.exchange import Session

UNBOUNDED: Final = Budget(90_000_000, 30_000_000, 30_000_000, 30_000_000)
"""For callers without a budget: everything fits."""
MOST_CALLERS: Final = 10_000

_Whose = tuple[str, str, View]
_Stamp = tuple[int, int, int]


class Contexts:
    """The contexts of all callers, the least recently used forgotten first."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self.kept: OrderedDict[_Whose, tuple[SessionTools, _Stamp]] = OrderedDict()

    def of(self, caller: Caller, session: Session | None) -> SessionTools:
        """A caller's context, as its budget and its tools are now."""
        whose, stamp = _whose(caller, session), self._shelves.stamp(caller.shelf)
        tools, made_for = self.kept.get(whose) or (None, None)
        budget = self._shelves.budget(caller.shelf) or UNBOUNDED
        pinned = self._shelves.pinned(caller.shelf)
        if tools is None:
            tools = SessionTools(budget, pinned)
        elif made_for != stamp or tools.budget != budget:
            tools.refresh(self._costs(caller, tools.loaded))
            tools.adopt(budget, pinned)
        self.kept[whose] = (tools, stamp)
        self.kept.move_to_end(whose)
        if len(self.kept) > MOST_CALLERS:
            self.kept.popitem(last=False)
        return tools

    def loaded(self, caller: Caller, session: Session | None) -> tuple[str, ...]:
        """Tools that were loaded at a caller's wish, in that order."""
        return self.of(caller, session).loaded if _whose(caller, session) in self.kept else ()

    def used(self, caller: Caller, session: Session | None, name: str) -> None:
        """A tool was called."""
        kept = self.kept.get(_whose(caller, session))
        if kept is not None:
            kept[0].use(name)

    def forget(self, caller: Caller, session: Session) -> None:
        """A session is over."""
        self.kept.pop(_whose(caller, session), None)

    def _costs(self, caller: Caller, names: tuple[str, ...]) -> dict[str, int]:
        shelf = caller.shelf
        tools = ((name, self._shelves.tool(shelf, name)) for name in names)
        return {name: self._shelves.cost(shelf, tool) for name, tool in tools if tool is not None}


def _whose(caller: Caller, session: Session | None) -> _Whose:
    return (caller.owner, session.id if session is not None else "", caller.view)
