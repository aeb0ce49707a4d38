"""The text of a tool by field, and the weight of each term in it.

Rule: the weights depend on the tool alone: constants replace the average lengths of the corpus.
"""

from __future__ import annotations

import msgspec

from interlock.discovery import words

MAX_TERMS_PER_FIELD = 1_024


class ToolFields(msgspec.Struct, frozen=True):
    """The text of one tool, by field."""

    name: str
    server: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    parameter_descriptions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


def term_weights(fields: ToolFields) -> dict[str, float]:
    """The weight of each term of a tool (BM25F): its frequency over all fields, saturated.

    Each field is normalized by its typical length. The name counts as one more term.
    """
    frequencies: dict[str, float] = {}
    for texts, weight, typical in (
        ((fields.name,), 3.0, 3.0),
        (fields.keywords, 1.5, 4.0),
        ((fields.server,), 0.8, 2.0),
        ((fields.description,), 1.0, 10.0),
        (fields.parameters, 0.7, 6.0),
        (fields.parameter_descriptions, 0.4, 24.0),
    ):
        found = [term for text in texts for term in words.terms(text)][:MAX_TERMS_PER_FIELD]
        share = weight / (1 - _LENGTH + _LENGTH * len(found) / typical)
        for term in found:
            frequencies[term] = frequencies.get(term, 0.0) + share
    frequencies.setdefault(words.joined(fields.name), 3.0)
    return {term: often * (_SATURATION + 1) / (often + _SATURATION) for term, often in frequencies.items()}


_SATURATION = 1.2
"""BM25's k1: how soon repetitions of a term stop to matter."""
_LENGTH = 0.5
"""BM25's b: how much long fields are penalized."""
