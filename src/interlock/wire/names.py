"""Searches JSON for a text. Escapes give every text many spellings, and a search for bytes finds one of them."""

from __future__ import annotations

LINE_FEED, CARRIAGE_RETURN, BACKSLASH = b"\n\r\\"
"""As numbers: `in` finds a number at once, and for bytes it first raises and drops an error inside the interpreter."""


def may_spell(payload: bytes, text: bytes) -> bool:
    """Whether JSON may hold this text in a name or a value, however it is escaped. False is certain.

    A letter has two spellings, itself and `\\u`; a slash has a third. `text` has neither quotes nor control characters.
    """
    if payload.find(text) >= 0:
        return True
    return BACKSLASH in payload and (payload.find(b"\\u") >= 0 or payload.find(b"\\/") >= 0)
