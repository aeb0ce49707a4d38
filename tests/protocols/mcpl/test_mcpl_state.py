"""State left with the host: patches within bounds, and the tree of checkpoints against a plain model."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcpl import checkpoints
from interlock.protocols.mcpl.checkpoints import CheckpointTree, StateReport, read_state, record, roll_back
from interlock.protocols.mcpl.patches import Operation, PatchLimits, apply_patch
from interlock.wire.errors import ErrorDialect, Fault


class Traced:
    peak = 0


@contextmanager
def traced() -> Iterator[Traced]:
    """The most memory that was held at once."""
    memory = Traced()
    tracemalloc.start()
    try:
        yield memory
    finally:
        memory.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


def ops(*operations: dict[str, Any]) -> tuple[Operation, ...]:
    return msgspec.convert(operations, tuple[Operation, ...])


def patched(document: object, *operations: dict[str, Any], limits: PatchLimits | None = None) -> Any:
    return json.loads(apply_patch(json.dumps(document).encode(), ops(*operations), limits or PatchLimits()))


@each_case(
    ("document", "operation", "after"),
    [
        ({"notes": []}, {"op": "add", "path": "/notes/-", "value": {"id": 1}}, {"notes": [{"id": 1}]}),
        ({"a": 1}, {"op": "remove", "path": "/a"}, {}),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": None}, {"a": None}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
        ({"a/b": 1, "m~n": 2}, {"op": "remove", "path": "/a~1b"}, {"m~n": 2}),
        ([1, 2], {"op": "add", "path": "/1", "value": 9}, [1, 9, 2]),
        ({"a": 1}, {"op": "replace", "path": "", "value": [1]}, [1]),
        ({"a": 1}, {"op": "add", "path": "/a", "value": 2, "unknown": True}, {"a": 2}),
    ],
)
def test_each_operation_does_what_rfc_6902_says(document: object, operation: dict[str, Any], after: object) -> None:
    assert patched(document, operation) == after


@each_case(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "add", "path": "no slash", "value": 1},
        {"op": "add", "path": "/text/x", "value": 1},
        {"op": "test", "path": "/text", "value": "y"},
        {"op": "test", "path": "/one", "value": True},
        {"op": "test", "path": "/list", "value": {}},
        {"op": "move", "from": "/list", "path": "/list/0"},
        {"op": "copy", "from": "/x", "path": "/y"},
        {"op": "copy", "from": "/list/-", "path": "/y"},
        {"op": "move", "from": "x", "path": "/y"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/list/~2"},
        {"op": "remove", "path": "/text/0"},
    ],
)
def test_a_patch_that_does_not_apply_is_refused_without_the_document_in_its_text(operation: dict[str, Any]) -> None:
    with pytest.raises(Fault) as refused:
        patched({"list": [1], "text": "s" * 5_000, "one": 1}, operation)
    assert refused.value.name == "INVALID_PARAMS"
    assert len(refused.value.message) < 300


@each_case(
    "operation",
    [
        {"op": "jump", "path": "/a"},
        {"path": "/a"},
        {"op": "add"},
        {"op": "add", "path": "/a"},
        {"op": "move", "path": "/a"},
        {"op": "add", "path": 5, "value": 1},
    ],
)
def test_an_operation_of_the_wrong_shape_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(Fault):
        read_state(json.dumps({"state": {"checkpoint": "b", "parent": "a", "patch": [operation]}}).encode())


DOUBLING = [{"op": "copy", "from": "/a", "path": f"/a/{chr(97 + i)}"} for i in range(26)]
NESTING = [{"op": "copy", "from": "", "path": "/x"} for _ in range(80)]
DEEPENING = [
    {"op": "move", "from": "/x", "path": "/y"},
    {"op": "add", "path": "/x", "value": {}},
    {"op": "move", "from": "/y", "path": "/x/x"},
] * 66
SHUTTLING = [{"op": "move", "from": f"/{i % 2}", "path": f"/{(i + 1) % 2}"} for i in range(199)]


@each_case(
    ("document", "operations"),
    [
        ({"a": {"v": "x" * 1_000}}, DOUBLING),
        ({"a": [1, 2, 3]}, NESTING),
        ({"x": {}}, DEEPENING),
        ({"0": list(range(1_000))}, SHUTTLING),
        ({}, [{"op": "add", "path": "/a", "value": 1}] * 201),
        ({}, [{"op": "add", "path": "/a" * 100, "value": 1}]),
        ({}, [{"op": "remove", "path": "/a" * 100_000}]),
        ({}, [{"op": "copy", "from": "/a" * 100_000, "path": "/b"}]),
        ({}, [{"op": "add", "path": "/a", "value": [0] * 10_000}]),
        ({"a": "x" * 200_000}, [{"op": "copy", "from": "/a", "path": "/b"}]),
        ({"a": "x" * 300_000}, []),
        ({"a": [0] * 10_000}, []),
    ],
)
def test_a_hostile_patch_meets_a_bound(document: object, operations: list[dict[str, Any]]) -> None:
    with pytest.raises(Fault) as refused:
        patched(document, *operations)
    assert refused.value.name == "TOO_LARGE"


COPIED_TEXT = [
    *({"op": "copy", "from": "/a/0", "path": "/a/-"} for _ in range(30)),
    *({"op": "copy", "from": "/a", "path": f"/b{i}"} for i in range(30)),
]


@each_case(
    "document",
    [{"a": ["Z" * 250_000]}, {"a": [{"Z" * 250_000: 1}]}],
    ids=["a text", "the name of a member"],
)
def test_a_patch_never_builds_more_than_its_bound_whatever_a_node_weighs(document: object) -> None:
    with pytest.raises(Fault, match="grows beyond") as refused, traced() as memory:
        patched(document, *COPIED_TEXT)
    assert refused.value.name == "TOO_LARGE"
    assert memory.peak < 16 * PatchLimits().bytes
    with pytest.raises(Fault, match="at least"):
        record(CheckpointTree(), StateReport("a", data=["Z" * 250_000] * 3_000))


def test_a_large_state_may_be_replaced_and_moved_as_often_as_a_patch_has_operations() -> None:
    other = "y" * 60_000
    operations = [{"op": "copy", "from": "/b", "path": "/a"}, {"op": "replace", "path": "/b", "value": other}] * 90
    assert patched({"a": "x" * 100_000, "b": "z" * 100_000}, *operations) == {"a": other, "b": other}


def test_a_failing_patch_changes_nothing() -> None:
    tree = record(CheckpointTree(), StateReport("a", data={"n": [1]}))
    with pytest.raises(Fault):
        record(
            tree,
            StateReport("b", "a", patch=ops({"op": "add", "path": "/n/-", "value": 2}, {"op": "remove", "path": "/x"})),
        )
    assert tree.request_members() == {"state": msgspec.Raw(b'{"n":[1]}')}


# The tree


def test_the_story_of_the_specification() -> None:
    tree = record(CheckpointTree(), StateReport("chk_abc", None, {"notes": []}))
    one = {"op": "add", "path": "/notes/-", "value": {"id": 1}}
    tree = record(tree, StateReport("chk_def", "chk_abc", patch=ops(one)))
    assert tree.state_at("chk_def") == b'{"notes":[{"id":1}]}'
    back = roll_back(tree, "chk_abc")
    assert back.state_at("chk_abc") == b'{"notes":[]}'
    branch = record(back, StateReport("chk_xyz", "chk_abc", patch=ops({**one, "value": {"id": 2}})))
    assert branch.request_members() == {"state": msgspec.Raw(b'{"notes":[{"id":2}]}')}
    assert branch.state_at("chk_def") == b'{"notes":[{"id":1}]}'


def test_an_opaque_checkpoint_is_passed_by_its_name() -> None:
    tree = record(CheckpointTree(), StateReport("a"))
    assert tree.request_members() == {"checkpoint": "a"}
    assert CheckpointTree().request_members() == {}
    with pytest.raises(Fault):
        record(tree, StateReport("b", "a", patch=ops({"op": "add", "path": "/x", "value": 1})))


def test_null_is_a_state() -> None:
    report = read_state(b'{"state":{"checkpoint":"a","data":null}}')
    assert report is not None
    assert record(CheckpointTree(), report).request_members() == {"state": msgspec.Raw(b"null")}


def test_an_unknown_checkpoint_is_refused_with_its_code() -> None:
    tree = record(CheckpointTree(), StateReport("a", data={}))
    for attempt in (lambda: roll_back(tree, "x"), lambda: record(tree, StateReport("b", "x", patch=()))):
        with pytest.raises(Fault) as refused:
            attempt()
        assert refused.value.render(ErrorDialect.MCPL).code == -32005
        assert refused.value.data == {"checkpoint": "x"}


def test_an_id_is_used_once() -> None:
    tree = record(CheckpointTree(), StateReport("a", data={}))
    with pytest.raises(Fault):
        record(tree, StateReport("a", data={"other": 1}))


steps = st.lists(
    st.tuples(st.sampled_from(["patch", "data", "opaque", "back"]), st.integers(0, 50), st.integers(0, 9)), max_size=40
)


@given(steps)
def test_the_tree_agrees_with_a_model_that_keeps_every_state(given_steps: list[tuple[str, int, int]]) -> None:
    tree = record(CheckpointTree(), StateReport("0", data={"n": []}))
    model: dict[str, Any] = {"0": {"n": []}}
    head = "0"
    for number, (kind, which, value) in enumerate(given_steps, 1):
        new = str(number)
        if kind == "back":
            head = list(model)[which % len(model)]
            tree = roll_back(tree, head)
            continue
        if kind == "data":
            model[new] = {"n": [value]}
            tree = record(tree, StateReport(new, head, {"n": [value]}))
        elif kind == "opaque" or model[head] is None:
            model[new] = None
            tree = record(tree, StateReport(new, head))
        else:
            model[new] = copy.deepcopy(model[head])
            model[new]["n"].append(value)
            tree = record(tree, StateReport(new, head, patch=ops({"op": "add", "path": "/n/-", "value": value})))
        head = new
    assert tree.head == head
    for known, state in model.items():
        found = tree.state_at(known)
        assert (None if found is None else json.loads(found)) == state


@pytest.mark.parametrize("branching", [False, True])
def test_a_tree_stays_within_its_bounds_and_its_head_stays_known(
    monkeypatch: pytest.MonkeyPatch, branching: bool
) -> None:
    monkeypatch.setattr(checkpoints, "MAX_CHECKPOINTS", 10)
    # The state is larger than a patch, so that patches are kept as patches.
    pad = "x" * 200
    tree = record(CheckpointTree(), StateReport("0", data={"n": 0, "pad": pad}))
    for number in range(1, 60):
        parent = "0" if branching and "0" in tree.checkpoints else tree.head
        patch = ops({"op": "replace", "path": "/n", "value": number})
        tree = record(tree, StateReport(str(number), parent, patch=patch))
        assert len(tree.checkpoints) <= 10
        for known in tree.checkpoints:
            assert json.loads(tree.state_at(known) or b"") == {"n": int(known), "pad": pad}
        assert tree.head == str(number)
        assert tree.request_members() == {"state": msgspec.Raw(tree.state_at(str(number)) or b"")}


def test_the_bytes_of_a_tree_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MAX_BYTES", 1_000)
    tree = CheckpointTree()
    for number in range(30):
        tree = record(tree, StateReport(str(number), tree.head, "x" * 100))
    assert sum(found.size for found in tree.checkpoints.values()) <= 1_000
    assert tree.head == "29"
