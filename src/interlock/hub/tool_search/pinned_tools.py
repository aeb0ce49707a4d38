"""Reports pinned tools that exceed a budget to the operator, as a problem of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.config.problems import Problem
from interlock.config.settings import Config
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.tool_search.listings import ToolListings
from interlock.wire.errors import Fault

MAX_NAMED: Final = 5

Admit = Callable[[Principal, str], ListScope]
"""The list scope of a principal at an address. Raises a `Fault` where there is none."""


def pins_over_budget(config: Config, admit: Admit, listings: ToolListings) -> list[Problem]:
    """The problems for `interlock status`: agents and profiles whose pinned tools exceed their budget."""
    pinning = [
        (f"agents.{name}", Principal(name, "agent"), "/mcp") for name, own in config.agents.items() if own.pinned
    ]
    pinning += [
        (f"profiles.{name}", LOCAL_AGENT, f"/profiles/{name}/mcp")
        for name, profile in config.profiles.items()
        if profile.pinned
    ]
    found: list[Problem] = []
    for section, principal, address in pinning:
        try:
            list_scope = admit(principal, address)
        except Fault:
            continue
        left_out, needed = listings.budget.pinned_over_budget(list_scope), listings.budget.needed_for_pins(list_scope)
        if left_out and listings.budget.settled(list_scope):
            names = ", ".join(left_out[:MAX_NAMED]) + (", …" if len(left_out) > MAX_NAMED else "")
            what = "budget" if list_scope.parts is None else "pinned_reserve"
            message = f"[{section}] {what} is too small for the pinned {names}: all pinned tools take {needed} tokens"
            hint = f"raise `{what}` to {needed}, or pin less"
            found.append(Problem(config.origin.path or "", None, message, hint, fatal=False))
    return found
