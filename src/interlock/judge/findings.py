"""Findings of a judge about a value: one for each fault, with the way to be allowed."""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing wrong with a judged value."""

    rule: str
    """Stable dotted name of the rule, for configuration, records and `why`: `shell.recursive_delete`."""
    message: str
    """The fault, in a sentence for the person or model that wrote the value."""
    hint: str = ""
    """How to be allowed: what to write instead, or which setting an operator would change."""
    span: tuple[int, int] | None = None
    """Where in the judged text (start, end in characters), when the judge knows."""


def reported(found: Iterable[Finding], ignored: Container[str], most: int) -> tuple[Finding, ...]:
    """Each finding once, without ignored rules, and at most `most`."""
    kept: list[Finding] = []
    for finding in found:
        if finding.rule not in ignored and finding not in kept:
            kept.append(finding)
            if len(kept) == most:
                break
    return tuple(kept)
