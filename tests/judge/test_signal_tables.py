"""The tables of signals: every row holds what it says of itself."""

from __future__ import annotations

from collections import Counter

from interlock.judge.regexes import OctetRegexes
from interlock.judge.requests import grammar
from interlock.judge.signals import RULE_MESSAGES, read_signals
from interlock.judge.signals.languages import foreign_instructions
from interlock.judge.tables import read_table


def test_every_signal_matches_its_own_example_and_leaves_the_honest_one_alone() -> None:
    signals = read_signals()
    tables = [row for rule in RULE_MESSAGES for row in read_table("interlock.judge.signals", f"{rule}.txt")]
    examples = {row.head[0]: [row.one(kind).replace("\\n", "\n") for kind in "+-"] for row in tables}
    regexes = OctetRegexes(signal.pattern for signal in signals)
    wrong = []
    for index, signal in enumerate(signals):
        spoken, honest = examples[signal.name]
        if index not in dict(regexes.matching(spoken.encode())):
            wrong.append(f"{signal.name} misses {spoken!r}")
        if not honest or index in dict(regexes.matching(honest.encode())):
            wrong.append(f"{signal.name} matches {honest!r}")
    assert wrong == []


def test_every_signal_has_a_name_of_its_own_under_its_rule() -> None:
    signals = read_signals()
    assert [name for name, count in Counter(signal.name for signal in signals).items() if count > 1] == []
    assert all(signal.name.partition(".")[0] == signal.rule for signal in signals)
    assert {signal.rule for signal in signals} == RULE_MESSAGES.keys()
    assert all(0 < signal.weight <= 2 for signal in signals)


def test_every_language_knows_its_own_sentences() -> None:
    languages = [row for row in read_table("interlock.judge.signals", "languages.txt") if not row.one("small")]
    assert len(languages) > 12
    for row in languages:
        for rule in ("theft", "secrecy", "override"):
            assert rule in {found for found, _, _ in foreign_instructions(row.one(rule))}, (row.head, rule)
        assert list(foreign_instructions(row.one("honest"))) == []


def test_every_part_of_a_request_is_found_in_its_own_example_and_not_in_the_other() -> None:
    known = grammar()
    for row in read_table("interlock.judge.signals", "requests.txt"):
        with_it, without = (
            {part for sentence in (known.request(text), known.above_all(text)) if sentence for part in sentence.parts}
            for text in (row.one("+"), row.one("-"))
        )
        assert row.head[0] in with_it, row.one("+")
        assert row.head[0] not in without, row.one("-")
