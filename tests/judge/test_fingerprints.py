"""The fingerprint of a definition changes with its meaning, and with nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.fingerprints import fingerprint

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@each_case(
    ("one", "other"),
    [({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"n": 10}, {"n": 10.0}), ([1e1], [10]), ({"n": -0.0}, {"n": 0})],
)
def test_order_of_keys_and_spelling_of_numbers_mean_nothing(one: object, other: object) -> None:
    assert fingerprint(one) == fingerprint(other)


@each_case(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ([1, 2], [2, 1]),
        ([[1], 2], [[1, 2]]),
        ({"a": {"b": 1}}, {"a": {}, "b": 1}),
        ("é", "e\u0301"),
        (["ab"], ["a", "b"]),
        ({"a": "b"}, ["a", "b"]),
    ],
)
def test_everything_else_does(one: object, other: object) -> None:
    assert fingerprint(one) != fingerprint(other)


def canonical(value: object) -> str:
    """A slow model: JSON with sorted keys, whole floats as integers."""

    def plain(inner: object) -> object:
        if isinstance(inner, dict):
            return {key: plain(item) for key, item in inner.items()}
        if isinstance(inner, list):
            return [plain(item) for item in inner]
        return int(inner) if isinstance(inner, float) and inner.is_integer() else inner

    return json.dumps(plain(value), sort_keys=True)


@given(JSON, JSON)
def test_fingerprints_agree_exactly_when_the_model_does(one: object, other: object) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (canonical(one) == canonical(other))


def test_depth_does_not_matter() -> None:
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    assert len(fingerprint(deep)) == 64
