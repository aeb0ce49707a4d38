"""Schemas from outside: bombs, remote references, bounds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interlock.judge.schemas import MAX_DEPTH, judge_schema
from processor_work import work_of


def rules_of(schema: object) -> set[str]:
    return {finding.rule for finding in judge_schema(schema)}


def doubling(levels: int) -> dict[str, Any]:
    """Each definition refers twice to the next: small to hold, enormous to expand."""
    next_twice = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**next_twice, f"d{levels}": {"type": "string"}}}


def test_an_ordinary_recursive_schema_passes() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/t"}, "right": {"$ref": "#/$defs/t"}}}
    assert judge_schema({"$ref": "#/$defs/t", "$defs": {"t": tree}}) == ()
    assert judge_schema(doubling(8)) == ()


def test_references_that_double_at_every_level_are_a_bomb() -> None:
    assert rules_of(doubling(30)) == {"schema.bomb"}


def test_remote_references_are_refused_and_local_ones_are_not() -> None:
    assert rules_of({"$ref": "http://169.254.169.254/"}) == {"schema.remote_ref"}
    assert rules_of({"items": {"$dynamicRef": "other.json#x"}}) == {"schema.remote_ref"}
    assert rules_of({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#"}) == set()


def test_depth_and_size_are_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"items": deep}
    assert rules_of(deep) == {"schema.too_deep"}
    assert rules_of({"anyOf": [{"type": "string"}] * 6000}) >= {"schema.too_large"}
    assert rules_of({"enum": list(range(6000))}) == {"schema.too_large"}


def test_patterns_are_judged_wherever_they_stand() -> None:
    assert rules_of({"patternProperties": {"(a*)*": {}}}) == {"regex.nested_repeat"}
    assert rules_of({"properties": {"pattern": {"type": "string"}}}) == set()


def test_a_bomb_is_found_at_once() -> None:
    schema = doubling(1000)
    assert work_of(lambda: judge_schema(schema)) < 35_000_000


KEYS = st.sampled_from(["$ref", "$defs", "definitions", "allOf", "items", "pattern", "patternProperties", "enum", "x"])
SCHEMAS = st.recursive(
    st.none() | st.integers() | st.sampled_from(["#", "#/$defs/x", "#/$defs/$ref", "(a+)+", "http://x"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(SCHEMAS)
def test_no_value_makes_the_judge_of_schemas_fail(schema: object) -> None:
    assert judge_schema(schema) == judge_schema(schema)
