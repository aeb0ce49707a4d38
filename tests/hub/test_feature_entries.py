"""Entries on feature sets are patterns: some set may be on unless the disabling ones name every set of the others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.hub.live.feature_entry import AgentEntries, FeatureEntry, entry_id

SEGMENTS = st.lists(st.sampled_from(("a", "b", "*", "**")), min_size=1, max_size=3).map(".".join)
NAMES = [".".join(parts) for parts in ("a", "b", "aa", "ab", "ba", "bb", "aba", "abab", "bab")]


def entries(enabling: list[str], disabling: list[str]) -> AgentEntries:
    def entry(pattern: str, enabled: bool) -> FeatureEntry:
        id_ = entry_id("s", "mine", pattern)
        return FeatureEntry(id_, "s", "mine", pattern, enabled, "ada", datetime.now(UTC))

    return AgentEntries([entry(each, True) for each in enabling], [entry(each, False) for each in disabling])


@given(st.lists(SEGMENTS, max_size=2), st.lists(SEGMENTS, max_size=2))
def test_a_set_that_is_on_may_be_on(enabling: list[str], disabling: list[str]) -> None:
    mine = entries(enabling, disabling)
    assert mine.may_enable or not any(map(mine.enable, NAMES))


@pytest.mark.parametrize(
    ("enabling", "disabling", "may"),
    [
        (["on.check"], [], True),
        (["on.check", "off.x"], ["off.*"], True),
        (["a.**.c"], ["a.*.c"], True),
        ([], [], False),
        (["on.check", "on.**"], ["on.*"], False),
        (["on.check"], ["on.check"], False),
        (["**"], ["*"], False),
    ],
)
def test_sets_are_off_where_every_pattern_that_enables_some_is_disabled(
    enabling: list[str], disabling: list[str], may: bool
) -> None:
    assert entries(enabling, disabling).may_enable is may
