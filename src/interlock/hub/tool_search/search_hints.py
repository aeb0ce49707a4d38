"""Hints for a person after a search that found nothing, or that did not search as it was asked to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

INSTALL: Final = "`interlock search-model install` lets the hub find tools by meaning, too"
MAX_NAMED: Final = 30


def search_hint(
    strategy: str, used: str, found: int, available: int, categories: Sequence[str], engine: bool, problem: str
) -> str:
    """The hint for a search; empty where there is nothing to do.

    `engine` is whether the hub has a source of meanings, `problem` why it does not answer.
    """
    if not available:
        return (
            "there is no tool to be found: `interlock status` shows the servers and their problems,"
            " `interlock grants list` what agents are denied"
        )
    if strategy == "semantic" and used == "keyword":
        if engine:
            return (
                f"found by words: {problem or 'the meanings of the tools are not known yet, search again in a moment'}"
            )
        return f"found by words, since no model is installed: {INSTALL}"
    if found:
        return ""
    if strategy == "category":
        shown = ", ".join(categories[:MAX_NAMED]) + (", …" if len(categories) > MAX_NAMED else "")
        return f"no such category; there are {shown}" if shown else "no tool here has a category"
    if engine:
        return f"say it in other words{f' ({problem})' if problem else ''}"
    return f"say it in other words; {INSTALL}"
