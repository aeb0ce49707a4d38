"""The categories that a list of level L1 names, so that a model knows what it can search for.

Servers write categories, and the hub's own description shows them: a name may pass, a sentence may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from interlock.discovery.budget import fit
from interlock.hub.catalog.items import Tool
from interlock.hub.tool_search.declared_categories import declared_of

MAX_CATEGORIES: Final = 60
WORD_TOKENS: Final = 8
"""The tokens of the word before the categories. Each name costs less than its letters."""
SHARE: Final = 4
"""Categories take at most one part in this many of the budget beyond the hub's own tools."""
_UNLIMITED: Final = 1_000_000
_IS_NAME: Final = re.compile(r"(?=.{1,40}\Z)\w+(?:-\w+){0,2}(?:/\w+(?:-\w+){0,2}){0,3}")


def listed_categories(tools: Iterable[Tool], beyond_own: int | None) -> tuple[list[str], int]:
    """The categories of the tools, largest first, and an upper bound for the tokens of their names.

    `beyond_own` is the budget beyond the hub's own tools; None for no budget.
    """
    from interlock.discovery import categories

    count: dict[str, int] = {}
    for tool in tools:
        definition = msgspec.json.decode(tool.full, type=dict[str, object])
        declared, _ = declared_of(definition)
        for category in categories.of_tool(declared, tool.name, str(definition.get("description") or "")):
            count[category] = count.get(category, 0) + 1
    named = filter(_IS_NAME.fullmatch, sorted(count))
    names = sorted(named, key=lambda name: -count[name])[:MAX_CATEGORIES]
    tokens = _UNLIMITED if beyond_own is None else beyond_own // SHARE
    fitting = fit([(name, len(name.encode()) + 2) for name in names], max(0, tokens - WORD_TOKENS))
    return list(fitting.kept), WORD_TOKENS + fitting.tokens
