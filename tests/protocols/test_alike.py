"""A call that is known by its likeness to one before is read as it would be from its bytes alone."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocols.mcp.alike import AlikeCall
from interlock.protocols.mcp.meta import RequestPreview, preview
from interlock.wire.errors import Fault
from interlock.wire.messages import Request, plain_request

META = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","n":{"id":7,"arguments":{}}}'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=6), VALUES, max_size=4).map(msgspec.json.encode)
ORDERS = st.permutations(("jsonrpc", "id", "method", "params"))
PARAMS_ORDERS = st.permutations(("name", "arguments", "_meta"))


def written(
    order: list[str], params_order: list[str], id_: bytes, arguments: bytes, name: bytes = b"t", meta: bytes = META
) -> bytes:
    inner = {"name": b'"%b"' % name, "arguments": arguments, "_meta": meta}
    params = b"{%b}" % b",".join(b'"%b":%b' % (each.encode(), inner[each]) for each in params_order)
    outer = {"jsonrpc": b'"2.0"', "id": id_, "method": b'"tools/call"', "params": params}
    return b"{%b}" % b",".join(b'"%b":%b' % (each.encode(), outer[each]) for each in order)


def parsed(body: bytes) -> tuple[Request, RequestPreview] | None:
    """The simple model: what is plain is plain by its parser, whatever came before it."""
    request = plain_request(body)
    if request is None:
        return None
    try:
        return request, preview(request.params)
    except Fault:
        return None


def learned(body: bytes) -> AlikeCall | None:
    read = parsed(body)
    return None if read is None else AlikeCall.of(body, *read)


def read(alike: AlikeCall, body: bytes) -> tuple[Request, RequestPreview] | None:
    parts = alike.parts(body)
    return None if parts is None else alike.read(body, parts)


def agrees(found: tuple[Request, RequestPreview] | None, body: bytes) -> None:
    if found is None:
        return
    model = parsed(body)
    assert model is not None
    assert found[0] == model[0]
    seen = found[1]
    assert (seen.name, seen.meta, seen.meta_raw, seen.arguments) == (
        model[1].name,
        model[1].meta,
        model[1].meta_raw,
        model[1].arguments,
    )
    assert seen.value == msgspec.json.decode(model[1].arguments or b"")


@given(ORDERS, PARAMS_ORDERS, st.integers(0, 2**53), ARGUMENTS, st.integers(0, 2**53), ARGUMENTS)
def test_another_id_and_other_arguments_are_read_as_by_the_parser(
    order: list[str], inner: list[str], first: int, given_first: bytes, second: int, given_second: bytes
) -> None:
    alike = learned(written(order, inner, b"%d" % first, given_first))
    body = written(order, inner, b"%d" % second, given_second)
    if alike is not None:
        assert read(alike, body) is not None
        agrees(read(alike, body), body)


@pytest.mark.parametrize("order", list(itertools.permutations(("jsonrpc", "id", "method", "params"))))
@pytest.mark.parametrize("inner", list(itertools.permutations(("name", "arguments", "_meta"))))
def test_every_order_of_members_can_be_learned(order: tuple[str, ...], inner: tuple[str, ...]) -> None:
    assert learned(written(list(order), list(inner), b"12345", b'{"text":"hello"}')) is not None


@given(
    ORDERS, PARAMS_ORDERS, ARGUMENTS, st.data(), st.sampled_from([b"", b"0", b'"', b"}", b",", b" ", b'"id":1', b"\\"])
)
def test_what_was_tampered_with_is_read_as_by_the_parser_or_left_to_it(
    order: list[str], inner: list[str], arguments: bytes, data: st.DataObject, put: bytes
) -> None:
    body = written(order, inner, b"17", arguments)
    alike = learned(body)
    start = data.draw(st.integers(0, len(body)))
    stop = data.draw(st.integers(start, min(start + 3, len(body))))
    changed = body[:start] + put + body[stop:]
    if alike is not None:
        agrees(read(alike, changed), changed)


@pytest.mark.parametrize(
    "given_",
    [
        b'{"a":1},"name":"other","x":{}',
        b'{"a":1}}}{"x":{',
        b'[1]',
        b'"text"',
        b'null',
        b'{"a":1} ',
        b'\n{"a":1}',
        b'{"a":1,}',
        b'{"a":"\xff"}',
        b'{' * 4000 + b'}' * 4000,
        b"",
    ],
)  # fmt: skip
def test_what_is_not_one_object_is_never_taken_for_arguments(given_: bytes) -> None:
    order, inner = ["jsonrpc", "id", "method", "params"], ["name", "arguments", "_meta"]
    alike = learned(written(order, inner, b"1", b"{}"))
    assert alike is not None
    assert alike.parts(written(order, inner, b"2", given_)) is None


@pytest.mark.parametrize("id_", [b"01", b"-1", b"1.5", b"1e3", b'"1"', b"null", b"9" * 30, b"", b"1,"])
def test_what_is_not_a_plain_number_is_never_taken_for_an_id(id_: bytes) -> None:
    for order in (["jsonrpc", "id", "method", "params"], ["method", "params", "jsonrpc", "id"]):
        alike = learned(written(order, ["name", "arguments", "_meta"], b"1", b"{}"))
        assert alike is not None
        assert alike.parts(written(order, ["name", "arguments", "_meta"], id_, b"{}")) is None


def test_another_name_or_meta_is_not_alike() -> None:
    order, inner = ["jsonrpc", "id", "method", "params"], ["name", "arguments", "_meta"]
    alike = learned(written(order, inner, b"1", b"{}"))
    assert alike is not None
    assert alike.parts(written(order, inner, b"2", b"{}", name=b"u")) is None
    assert alike.parts(written(order, inner, b"2", b"{}", meta=META.replace(b"7", b"8"))) is None


@pytest.mark.parametrize("key", ["progressToken", "traceparent", "trace_id"])
def test_a_call_whose_meta_never_comes_again_is_not_learned(key: str) -> None:
    order, inner = ["jsonrpc", "id", "method", "params"], ["name", "arguments", "_meta"]
    meta = b'{"%b":"x",%b' % (key.encode(), META[1:])
    assert learned(written(order, inner, b"1", b"{}", meta=meta)) is None
