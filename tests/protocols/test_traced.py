"""A trace goes on with a request, whatever its `_meta` looks like."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocols.mcp.meta import preview
from interlock.protocols.mcp.trace_meta import traced
from interlock.protocols.traces import new_trace_id, read_traceparent

KEYS = st.text(max_size=8).filter(lambda key: key not in ("traceparent", "progressToken"))


@given(meta=st.dictionaries(KEYS, st.integers() | st.text(max_size=8), max_size=4), indent=st.sampled_from([None, 1]))
def test_what_came_without_a_trace_goes_on_with_one_and_all_else_it_had(meta: dict[str, object], indent: int) -> None:
    trace, raw = new_trace_id(), json.dumps(meta, indent=indent).encode()
    said = json.loads(traced(preview(b'{"_meta":%b}' % raw).meta, raw, trace))
    parent = read_traceparent(said.pop("traceparent"))
    assert parent is not None
    assert (parent.trace, parent.sampled) == (trace, True)
    assert said == meta


@pytest.mark.parametrize("raw", [b"", b"{}", b"{ }", b"{\n}"])
def test_an_empty_meta_is_no_obstacle(raw: bytes) -> None:
    trace = new_trace_id()
    said = json.loads(traced(None, raw, trace))
    assert list(said) == ["traceparent"]
    assert trace in said["traceparent"]


def test_a_trace_that_came_goes_on_as_it_came() -> None:
    raw = b'{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
    assert traced(preview(b'{"_meta":%b}' % raw).meta, raw, "0" * 31 + "1") == raw
