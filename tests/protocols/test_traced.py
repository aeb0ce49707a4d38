"""A trace goes on with a request, whatever its `_meta` looks like, and a progress token never does."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.meta import with_trace
from interlock.protocols.traces import new_trace_id, read_traceparent

KEYS = st.text(max_size=8).filter(lambda key: key not in ("traceparent", "progressToken", "trace_id"))
METAS = st.dictionaries(KEYS, st.integers() | st.text(max_size=8), max_size=4)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def read(raw: bytes) -> tuple[object, dict[str, object]]:
    """The progress token of a `_meta`, and the members that go on to the next hop."""
    meta = preview(b'{"_meta":%b}' % raw).meta
    assert meta is not None
    return meta.progress_token, json.loads(b'{"first":1' + meta.tail)


@given(meta=METAS, indent=st.sampled_from([None, 1]))
def test_what_came_without_a_trace_goes_on_with_one_and_all_else_it_had(meta: dict[str, object], indent: int) -> None:
    trace, raw = new_trace_id(), json.dumps(meta, indent=indent).encode()
    sent = json.loads(with_trace(raw, trace))
    parent = read_traceparent(sent.pop("traceparent"))
    assert parent is not None
    assert (parent.trace, parent.sampled) == (trace, True)
    assert sent == meta


@each_case("raw", [b"", b"{}", b"{ }", b"{\n}", b'{"traceparent":null}', b'{"tracep\\u0061rent":null}'])
def test_an_empty_meta_and_a_trace_of_null_are_no_obstacle(raw: bytes) -> None:
    trace = new_trace_id()
    pairs = json.loads(with_trace(raw, trace), object_pairs_hook=list)
    assert [name for name, _ in pairs] == ["traceparent"]
    assert trace in pairs[0][1]


@given(meta=METAS, token=st.integers(0, 2**53) | st.text(max_size=8), first=st.booleans())
def test_all_but_the_progress_token_goes_on(meta: dict[str, object], token: object, first: bool) -> None:
    said = {"progressToken": token, **meta} if first else {**meta, "progressToken": token}
    assert read(json.dumps(said).encode()) == (token, {"first": 1, **meta})


@each_case("key", [b"progressToken", b"progressTok\\u0065n"])
def test_a_progress_token_stays_behind_however_it_is_spelled_and_how_often(key: bytes) -> None:
    assert read(b'{"%b":7,"a":{"progressToken":1},"progressToken":8}' % key) == (
        8,
        {"first": 1, "a": {"progressToken": 1}},
    )


def test_a_trace_that_came_goes_on_as_it_came_and_one_of_null_does_not() -> None:
    assert read(json.dumps({"traceparent": PARENT}).encode()) == (None, {"first": 1, "traceparent": PARENT})
    assert read(b'{"traceparent":null,"a":1}') == (None, {"first": 1, "a": 1})


def test_a_meta_is_read_alike_the_second_time() -> None:
    for raw in (b'{"a":1}', b'{"a":1,"progressToken":5}', b'{"a":1,"traceparent":"%b"}' % PARENT.encode()):
        assert read(raw) == read(raw)
