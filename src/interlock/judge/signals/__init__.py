"""Signals: what an instruction to a model looks like in text that should only describe, each with a weight.

A signal of weight 2 decides alone; weaker ones must come together, since honest descriptions also say "must", "first"
and "important". The signals are rows of the tables in this folder.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from interlock.judge.tables import Row, read_table

RULE_MESSAGES: Final = {
    "secrecy": "tells the model to keep something from the person",
    "override": "tells the model to set other instructions aside",
    "role": "gives the model another role",
    "impersonation": "speaks to the model as if it were the system or the person",
    "theft": "tells the model to hand over what belongs to the person",
    "coercion": "orders the model about",
    "shadowing": "tells the model how to treat other tools",
    "execution": "tells the model to run something",
}
"""The rules, which are also the names of the tables, and what a finding of each says."""

NAME: Final = "name"
"""The language of signals that are only for names of parameters."""

RESULT: Final = "result"
"""The language of signals that are only for results: a definition may address the model, a result may not."""


class Signal(NamedTuple):
    """Something that an instruction to a model says, and how much it weighs."""

    rule: str
    weight: float
    pattern: str
    name: str = ""
    language: str = ""
    address: bool = False
    """Whether it only addresses the model, or speaks firmly, as honest definitions do too."""
    prose: bool = False
    """Whether honest pages say it too, so that it counts little in a result."""


def read_signals() -> list[Signal]:
    """All signals of all tables; those for results and then those for names of parameters stand last."""
    fragments = {row.head[0]: row.one("=") for row in read_table(__name__, "fragments.txt")}
    signals = [_signal(rule, row, fragments) for rule in RULE_MESSAGES for row in read_table(__name__, f"{rule}.txt")]
    return sorted(signals, key=lambda signal: (signal.language == NAME, signal.language == RESULT))


def _signal(rule: str, row: Row, fragments: dict[str, str]) -> Signal:
    name, weight, language, *marks = row.head
    pattern = _spelled_out(row.one("="), fragments)
    return Signal(rule, float(weight), pattern, name, language, "address" in marks, "prose" in marks)


def _spelled_out(pattern: str, fragments: dict[str, str]) -> str:
    """A pattern as RE2 takes it: fragments put in, blanks as joints between words, `<40>` as a part of a sentence."""
    while (whole := _FRAGMENT.sub(lambda match: fragments[match[1]], pattern)) != pattern:
        pattern = whole
    joined = _JOINT.sub(r"[\\s_*\"'`,:\\-]{1,4}", pattern)
    return "(?is)" + _SENTENCE.sub(r"(?:[^.!?;]{0,\1}?)", joined)


_FRAGMENT = re.compile(r"<([A-Z_]+)>")
_JOINT = re.compile(r"(?<![\\\[]) (?![?\]|)])")
_SENTENCE = re.compile(r"<(\d+)>")
