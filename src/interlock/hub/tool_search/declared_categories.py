"""Reads the categories and keywords that a tool declares: in its definition (MGP, Tool Index), and in `_meta` (tool
registry). The hub ignores a member that is not a list of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.protocols.registry.about import about

MAX_ENTRIES: Final = 32


def declared_of(definition: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The categories and the keywords of a tool."""
    declared = about(definition)
    categories = (*_texts(definition.get("categories")), *((declared.category,) if declared.category else ()))
    return categories, (*_texts(definition.get("keywords")), *declared.tags[:MAX_ENTRIES])


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return ()
    return tuple(value[:MAX_ENTRIES])
