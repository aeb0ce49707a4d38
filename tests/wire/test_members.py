"""Members that every reader finds alike, and nesting, found in one pass."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each_case
from interlock.wire.members import MAX_MEMBERS, BadObject, MemberReader
from interlock.wire.nesting import has_more_members, nested_deeper

READER = MemberReader(("name", "params"), ("params",), rest_bytes=200)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


def problem(data: bytes) -> str:
    with pytest.raises(BadObject) as caught:
        READER.read(data)
    return caught.value.problem


@each_case(
    ("data", "expected"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b'{"name":1}x', "not_json"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'{"name":1,"name":1}', "duplicate"),
        (b'{"name":12,"name":1}', "duplicate"),
        (b'{"name":1,"name":12}', "duplicate"),
        (b'{"x":1, "y":2 , "x":{}}', "duplicate"),
        (b'{"name":1,"n\\u0061me":2}', "duplicate"),
        (b'{"params":{},"params":{"a":1}}', "duplicate"),
        (b'{"a":"b","b":"a","a":2}', "duplicate"),
        (b'{"x{":":1}","":{":":1},"x{":2}', "duplicate"),
        (b'{"Name":1}', "wrong_case"),
        (b'{"name":1,"PARAMS":{}}', "wrong_case"),
        (b'{"x":"' + b"y" * 200 + b'"}', "too_large"),
        (b'{"params":"' + b"y" * 200 + b'","params":1}', "too_large"),
    ],
)
def test_objects_that_readers_could_take_differently_are_refused(data: bytes, expected: str) -> None:
    assert problem(data) == expected


def test_more_members_than_the_bound_are_refused() -> None:
    reader = MemberReader(["name"])
    most = {f"m{number}": 1 for number in range(MAX_MEMBERS)}
    assert len(reader.read(json.dumps(most).encode())) == MAX_MEMBERS
    with pytest.raises(BadObject) as refused:
        reader.read(json.dumps({**most, "one": 1}).encode())
    assert refused.value.problem == "too_large"


def test_large_members_do_not_count_towards_the_rest() -> None:
    assert set(READER.read(b'{"params":"' + b"y" * 10_000 + b'","name":1}')) == {"params", "name"}


@given(st.dictionaries(st.text(max_size=5), values, max_size=5), st.sampled_from([None, 1]))
def test_members_are_those_that_the_standard_library_reads(said: dict[str, object], indent: int | None) -> None:
    reader = MemberReader((), (), rest_bytes=1_000_000)
    read = reader.read(json.dumps(said, indent=indent).encode())
    assert {name: json.loads(bytes(value)) for name, value in read.items()} == said


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "{", '"', ":", ""]), values), max_size=5))
@example([("a", 12), ("a", 1)])
@example([("a", 1.5), ("b", 2), ("a", 1)])
def test_a_name_that_stands_twice_is_always_found(pairs: list[tuple[str, object]]) -> None:
    reader = MemberReader((), (), rest_bytes=1_000_000)
    data = ("{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}").encode()
    if len({name for name, _ in pairs}) == len(pairs):
        assert len(reader.read(data)) == len(pairs)
    else:
        with pytest.raises(BadObject):
            reader.read(data)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(values, st.integers(0, 4))
@example(["]", "[", "\\", '"[', ["\\\\"]], 1)
def test_nesting_is_what_walking_the_value_finds(value: object, levels: int) -> None:
    assert nested_deeper(json.dumps(value).encode(), levels) == (depth(value) > levels)


@each_case("levels", [8, 64, 1000])
def test_the_deepest_nesting_that_can_be_configured_is_measured(levels: int) -> None:
    assert not nested_deeper(b"[" * levels + b"]" * levels, levels)
    assert nested_deeper(b"[" * (levels + 1) + b"]" * (levels + 1), levels)
    assert not nested_deeper(b'{"a":"' + b"[" * 5_000 + b'"}', levels)


def places(value: object) -> int:
    """Members and items; an empty array or object counts as one with one."""
    if isinstance(value, dict):
        return max(1, len(value)) + sum(map(places, value.values()))
    return max(1, len(value)) + sum(map(places, value)) if isinstance(value, list) else 0


@given(values, st.integers(0, 12))
@example(['\\"', "\\\\", ',[{"', {"\\": ['"', ","]}], 6)
def test_members_are_counted_outside_of_texts(value: object, most: int) -> None:
    assert has_more_members(json.dumps(value).encode(), most) == (places(value) > most)
