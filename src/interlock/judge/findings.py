"""What a judge says about a value: one finding for each thing that is wrong, and how to be allowed."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing wrong with a judged value."""

    rule: str
    """Stable dotted name of the rule, for configuration, records and `why`: `shell.recursive_delete`."""
    message: str
    """What is wrong, in a sentence for the person or model that wrote the value."""
    mend: str = ""
    """How to be allowed: what to write instead, or which setting an operator would change."""
    span: tuple[int, int] | None = None
    """Where in the judged text (start, end in characters), when the judge knows."""
