"""What a tool says it is about: the categories and keywords of its definition (MGP, Tool Index), and what the tool
registry's authors say in `_meta`. Anything that is not a short list of texts says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.protocols.registry.about import about

MOST: Final = 32


def declared_of(definition: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Categories and keywords."""
    said = about(definition)
    categories = (*_texts(definition.get("categories")), *((said.category,) if said.category else ()))
    return categories, (*_texts(definition.get("keywords")), *said.tags[:MOST])


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return ()
    return tuple(value[:MOST])
