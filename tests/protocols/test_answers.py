"""A server's good answer, read in one look, is what the long way reads, or is left to it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.protocols.mcp.answers import plain_answer, read_answer, read_members
from interlock.protocols.mcp.reserved_names import error_of_server
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Result, decode, encode_result

MEMBERS = [
    "content", "structuredContent", "isError", "resultType", "_meta", "ttlMs", "cacheScope", "contents", "messages",
    "completion", "toolResult",
]  # fmt: skip
results = st.dictionaries(st.sampled_from(MEMBERS), st.integers() | st.text(max_size=5) | st.booleans(), max_size=5)
PUT = [b"", b"}", b"{", b",", b'"', b" ", b',"result":{}', b',"error":{}', b"7", b"0", b"_", b"-", b"+", b"\\u0061"]


@each_case(
    ("result", "clean"),
    [
        (b'{"content":[{"type":"text","text":"a \\"b\\" \\n"}]}', True),
        (b'{"content":[],"_meta":{"com.example/x":1}}', True),
        (b'{"content":[],"_meta":{"dev.interlock/error":1}}', False),
        (b'{"content":[],"_meta":{"dev.interloc\\u006b/error":1}}', False),
        (b'{"content":[],"_meta":{"dev.interlock\\/error":1}}', False),
        (b'{"content":[{"type":"resource_link","uri":"file:///a"}]}', False),
        (b'{"content":[{"type":"resource","resource":{}}]}', False),
        (b'{"contents":[]}', False),
        ('{"content":[{"type":"text","text":"ü"}]}'.encode(), False),
        (b'{"content":[\n]}', False),
    ],
)
def test_only_a_result_that_needs_no_closer_look_is_clean(result: bytes, clean: bool) -> None:
    answer = plain_answer(encode_result(1, result))
    assert answer is not None
    assert answer.clean is clean


@given(results)
def test_a_result_of_known_members_is_known_to_have_each_once(result: dict[str, object]) -> None:
    payload = msgspec.json.encode(result)
    members = read_members(payload)
    assert members.length() == len(payload)
    assert (members.failed is True) == (result.get("isError") is True)
    assert (members.content is msgspec.UNSET) == ("content" not in result)


@given(st.integers(0, 2**53), results, st.booleans(), st.data(), st.sampled_from(PUT))
def test_a_plain_answer_is_what_the_parser_reads_or_left_to_it(
    id_: int, result: dict[str, object], id_last: bool, data: st.DataObject, put: bytes
) -> None:
    payload = msgspec.json.encode(result)
    whole = b'{"result":%b,"jsonrpc":"2.0","id":%d}' % (payload, id_) if id_last else encode_result(id_, payload)
    found = plain_answer(whole)
    assert found is not None
    assert (found.id, found.result) == (id_, payload)
    at = data.draw(st.integers(0, len(whole)))
    changed = whole[:at] + put + whole[at + data.draw(st.integers(0, 2)) :]
    found = plain_answer(changed)
    if found is not None:
        assert decode(changed) == Result(found.id, found.result)
        read_members(found.result)
        text = changed.decode("latin-1")  # that a text is UTF-8 is looked at before it leaves
        result_text = found.result.decode("latin-1")
        assert json.loads(text) == {"jsonrpc": "2.0", "id": found.id, "result": json.loads(result_text)}


def test_a_result_of_other_members_is_read_the_long_way() -> None:
    whole = b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"more":1}}'
    assert plain_answer(whole) is None
    answer = decode(whole)
    assert isinstance(answer, Result)
    assert bytes(read_answer(answer).members.content) == b"[]"


@each_case("kind", ['"input_required"', '"input_requ\\u0069red"'])
def test_a_kind_is_read_without_its_escapes(kind: str) -> None:
    assert read_members(b'{"resultType":%b}' % kind.encode()).kind == "input_required"


@each_case("kind", ["5", "null", "[]", '"' + "x" * 2_000 + '"'])
def test_what_is_no_kind_is_refused(kind: str) -> None:
    with pytest.raises(Fault, match="resultType"):
        read_members(b'{"resultType":%b}' % kind.encode()).kind  # noqa: B018


@each_case(
    "result", [b"[]", b"1", b"{", b'{"a":1,"a":2}', b'{"isError":true,"isErr\\u006fr":false}', b"{}x", b'{"a":\xff}']
)
def test_what_is_no_object_or_means_two_things_is_refused(result: bytes) -> None:
    with pytest.raises(Fault):
        read_members(result)


@pytest.mark.parametrize("start", [b"{", b'{"DEV.interlock/error":1,', b'{"d\\u0065v.interlock/error":1,'])
@pytest.mark.parametrize("inner", [b'{"a":' * 600 + b"1" + b"}" * 600, b'"' + b"x" * 100_000 + b'"'])
def test_an_error_of_a_server_keeps_no_name_of_the_hub_however_large_or_deep_its_data(
    start: bytes, inner: bytes
) -> None:
    error = ErrorObject(-32000, "It failed", msgspec.Raw(start + b'"own":' + inner + b"}"))
    passed = error_of_server(error)
    assert (passed.code, passed.message) == (-32000, "It failed")
    assert bytes(passed.data) == (bytes(error.data) if start == b"{" else b"")
