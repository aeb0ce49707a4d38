"""The incremental index against one built afresh: no order of changes may leave a trace."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from example_counts import example_count
from interlock.discovery.lexical import LexicalIndex
from interlock.discovery.tool_fields import ToolFields
from interlock.discovery.words import terms
from memory_kept import kept_by

WORDS = st.sampled_from(["read", "write", "file", "mail", "weather", "city", "convert", "currency", "list", "user"])
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
FIELDS = st.builds(
    ToolFields,
    name=st.lists(WORDS, min_size=1, max_size=3).map("_".join),
    server=WORDS,
    description=TEXTS,
    parameters=st.lists(WORDS, max_size=3).map(tuple),
    parameter_descriptions=st.lists(TEXTS, max_size=3).map(tuple),
)


class IncrementalIndex(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = LexicalIndex()
        self.model: dict[int, ToolFields] = {}

    @rule(slot=st.integers(0, 5), fields=FIELDS)
    def put(self, slot: int, fields: ToolFields) -> None:
        self.index.put(slot, fields)
        self.model[slot] = fields

    @rule(slot=st.integers(0, 5))
    def remove(self, slot: int) -> None:
        if slot in self.model:
            self.index.remove(slot)
            del self.model[slot]

    @invariant()
    def scores_are_those_of_a_fresh_index(self) -> None:
        fresh = LexicalIndex()
        for slot, fields in sorted(self.model.items()):
            fresh.put(slot, fields)
        query = [dict.fromkeys(terms("read the weather file"), ()), dict.fromkeys(terms("convert currency"), ())]
        for mine, theirs in zip(self.index.score(query, 6), fresh.score(query, 6), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5)
        assert len(self.index) == len(self.model)


TestIncrementalIndex = IncrementalIndex.TestCase
TestIncrementalIndex.settings = settings(max_examples=example_count(20, 40), stateful_step_count=20, deadline=None)


def ranked(index: LexicalIndex, query: str, slots: int) -> list[int]:
    scores = index.score([dict.fromkeys(terms(query), ())], slots)[0]
    return [int(slot) for slot in np.argsort(-scores, kind="stable") if scores[slot] > 0]


def test_a_word_in_the_name_outweighs_the_same_word_in_a_parameter() -> None:
    index = LexicalIndex()
    index.put(0, ToolFields("convert", description="Turns one thing into another", parameters=("currency",)))
    index.put(1, ToolFields("currency", description="Turns one thing into another", parameters=("convert",)))
    assert ranked(index, "currency", 2) == [1, 0]


def test_a_misspelt_word_finds_the_word_most_like_it() -> None:
    index = LexicalIndex()
    index.put(0, ToolFields("get_weather", description="Current weather"))
    index.put(1, ToolFields("send_mail", description="Send mail"))
    assert ranked(index, "wheather", 2) == [0]


def test_removing_one_of_many_holders_of_a_term_leaves_the_others() -> None:
    index = LexicalIndex()
    for slot in range(300):
        index.put(slot, ToolFields("read_file", description=f"number {slot}"))
    index.remove(150)
    scores = index.score([dict.fromkeys(terms("file"), ())], 300)[0]
    assert scores[150] == 0
    assert int((scores > 0).sum()) == 299


@given(FIELDS)
@settings(max_examples=30, deadline=None)
def test_a_removed_tool_matches_nothing(fields: ToolFields) -> None:
    index = LexicalIndex()
    index.put(0, fields)
    index.remove(0)
    assert not index.score([dict.fromkeys(terms(fields.name), ())], 1)[0].any()


def test_tools_that_come_and_go_leave_no_memory_behind() -> None:
    def come_and_go(index: LexicalIndex) -> None:
        for first, second, third in product("abcdefghij", repeat=3):
            index.put(1, ToolFields(f"tool_{first * 6}{second * 5}{third * 4}"))
        index.remove(1)

    come_and_go(LexicalIndex())  # fills the caches of words
    index = LexicalIndex()
    index.put(0, ToolFields("stays_here"))
    # A thousand words with their letter triples are a quarter of a megabyte.
    assert kept_by(lambda: come_and_go(index)) < 25_000
    assert ranked(index, "stays", 2) == [0]


def test_a_tool_counts_once_for_a_word_and_the_words_that_mean_the_same() -> None:
    index = LexicalIndex()
    index.put(0, ToolFields("lookup", description="find search lookup anything"))
    index.put(1, ToolFields("search", description="anything"))
    for slot in range(2, 40):
        index.put(slot, ToolFields(f"other{slot}", description="something else"))
    alone, related = (index.score([{"search": words}], 40)[0] for words in ((), ("find", "lookup")))
    assert related.tolist() == pytest.approx(alone.tolist())
    missing = index.score([{"seek": ("search",)}], 40)[0]
    assert 0 < missing[1] < alone[1]
