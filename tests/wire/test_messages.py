"""Messages: the envelope is read, payloads stay raw, and nothing ambiguous passes."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import (
    BadMessage,
    Failure,
    Notification,
    Request,
    Result,
    decode,
    decode_batch,
    encode,
    encode_failure,
    one_line,
)
from interlock.wire.payload_checks import check_shape, strict

TOO_DEEP = b"[" * 5_000 + b"]" * 5_000

ids = st.one_of(st.integers(), st.text(min_size=1, max_size=40))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=5).map(lambda value: json.dumps(value).encode())
messages = st.one_of(
    st.builds(Request, ids, st.text(), objects),
    st.builds(Notification, st.text(), objects),
    st.builds(Result, ids, objects),
)


@given(messages)
def test_what_is_encoded_is_read_back(message: Request | Notification | Result) -> None:
    assert decode(encode(message)) == message


@given(messages, st.sampled_from([" ", "\t", "  "]))
def test_spaces_between_members_change_nothing(message: Request | Notification | Result, space: str) -> None:
    parsed = json.loads(encode(message))
    spaced = json.dumps(parsed, separators=("," + space, ":" + space)).encode()
    again = decode(spaced)
    assert type(again) is type(message)
    assert getattr(again, "id", None) == getattr(message, "id", None)
    assert getattr(again, "method", None) == getattr(message, "method", None)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_a_bad_message(data: bytes) -> None:
    try:
        decode(data)
    except BadMessage as bad:
        assert bad.name in ("PARSE_ERROR", "INVALID_REQUEST")


def test_payload_bytes_are_not_touched() -> None:
    raw = b'{"b": 1.0,  "a":"\\u00e9"}'
    message = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + raw + b"}")
    assert message == Request(1, "m", raw)


@each_case(
    ("data", "name", "id_"),
    [
        (b"", "PARSE_ERROR", None),
        (b"{", "PARSE_ERROR", None),
        (b"\xff\xfe", "PARSE_ERROR", None),
        (b'{"jsonrpc":"2.0","id":1,"method":"a"}x', "PARSE_ERROR", None),
        (b"[]", "INVALID_REQUEST", None),
        (b'"x"', "INVALID_REQUEST", None),
        (b'{"jsonrpc":"1.0","id":7,"method":"a"}', "INVALID_REQUEST", 7),
        (b'{"id":7,"method":"a"}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"a"}', "INVALID_REQUEST", None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"a"}', "INVALID_REQUEST", None),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', "INVALID_REQUEST", None),
        (b'{"jsonrpc":"2.0","id":"","method":"a"}', "INVALID_REQUEST", None),
        (b'{"jsonrpc":"2.0","id":7,"method":"a","params":[1]}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"a","result":{}}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":7}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":7,"error":"no"}', "INVALID_REQUEST", 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"x":"\xff"}}', "PARSE_ERROR", 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"a\xff"}', "PARSE_ERROR", 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"a","\xff":1}', "PARSE_ERROR", 7),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"a"}', "PARSE_ERROR", None),
        (b'{"jsonrpc":2,"id":"\xff"}', "INVALID_REQUEST", None),
        (b'{"jsonrpc":2,"id":7,"x":%b}' % TOO_DEEP, "INVALID_REQUEST", None),
        (b'{"jsonrpc":"2.0","id":7,"method":"\xff","x":%b}' % TOO_DEEP, "PARSE_ERROR", None),
        (b"\xef\xbb\xbf" * 5_000, "PARSE_ERROR", None),
        (b'{"jsonrpc":"2.0","method":"a","params":{"x":"\xed\xa0\x80"}}', "PARSE_ERROR", None),
    ],
)
def test_what_is_no_message_is_refused_with_the_id_it_had(data: bytes, name: str, id_: int | None) -> None:
    with pytest.raises(BadMessage) as caught:
        decode(data)
    assert (caught.value.name, caught.value.id) == (name, id_)


def test_byte_order_marks_before_a_message_are_ignored() -> None:
    assert decode(b"\xef\xbb\xbf" * 5_000 + b'{"jsonrpc":"2.0","id":7,"method":"a"}') == Request(7, "a")


def test_an_error_is_read_and_written_in_utf8_whatever_bytes_it_has() -> None:
    answer = decode(b'{"jsonrpc":"2.0","id":7,"error":{"code":1.5,"message":"a\xff","data":{"b":"\xe4",\n"c":1}}}')
    assert isinstance(answer, Failure)
    assert answer.error.message == "a\ufffd"
    replaced = {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32603, "message": "a\ufffd", "data": {"b": "\ufffd", "c": 1}},
    }
    assert encode(answer) == msgspec.json.encode(replaced)
    assert encode(Failure(7, ErrorObject(1, "a\udcff", msgspec.Raw(b'"\xff"')))) == (
        '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"a?","data":"\ufffd"}}'.encode()
    )


@each_case(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{"x":1}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","PARAMS":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","\\u006dethod":"b"}',
    ],
)
def test_an_envelope_that_two_readers_could_read_differently_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(data)


def test_members_of_other_protocols_are_allowed_in_an_envelope() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"a","trace_id":"t","auth":{"k":1}}') == Request(
        1, "a", trace_id="t", auth=b'{"k":1}'
    )


def test_a_message_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(BadMessage, match=r"limit of 100 bytes \(`message_bytes`\)") as caught:
        decode(b"x" * 101, Limits(message_bytes=100))
    assert caught.value.name == "TOO_LARGE"


def test_bottomless_nesting_is_refused() -> None:
    with pytest.raises(BadMessage):
        decode(b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 200_000 + b"]" * 200_000 + b"}")


@each_case(("depth", "fine"), [(64, True), (65, False)])
def test_nesting_is_counted_exactly_at_the_limit(depth: int, fine: bool) -> None:
    payload = b"[" * depth + b'"[[[["' + b"]" * depth
    if fine:
        check_shape(payload, Limits())
    else:
        with pytest.raises(Fault, match="nested deeper"):
            check_shape(payload, Limits())


def test_members_are_bounded_but_commas_in_text_do_not_count() -> None:
    check_shape(json.dumps(["," * 20_000]).encode(), Limits())
    with pytest.raises(Fault, match="members"):
        check_shape(json.dumps(list(range(10_002))).encode(), Limits())


@each_case("payload", [b'{"a":1,"a":2}', b'{"x":[{"a":1,"\\u0061":2}]}', b'{"a":1e999,"a":' + b"9" * 400 + b"}"])
def test_duplicate_names_are_found_at_any_depth(payload: bytes) -> None:
    with pytest.raises(Fault, match="duplicate member"):
        strict(payload)


@given(objects)
def test_unambiguous_objects_pass_the_strict_look(payload: bytes) -> None:
    strict(payload)
    assert json.loads(one_line(payload)) == json.loads(payload)


def test_a_payload_over_several_lines_becomes_one() -> None:
    assert one_line(b'{\n "a": "x\\ny"\r\n}') == b'{"a":"x\\ny"}'


def test_a_batch_keeps_good_and_bad_apart() -> None:
    good, bad, note = decode_batch(b'[{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"jsonrpc":"2.0","method":"n"}]')
    assert good == Request(1, "a")
    assert isinstance(bad, BadMessage)
    assert note == Notification("n")


@each_case("data", [b"[]", b"{}", b"[" + b"1," * 64 + b"1]"])
def test_a_batch_has_one_to_sixty_four_messages(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_batch(data)


def test_an_error_without_a_known_id_has_none() -> None:
    line = encode_failure(None, ErrorObject(-32700, "no"))
    assert json.loads(line) == {"jsonrpc": "2.0", "error": {"code": -32700, "message": "no"}}
    assert decode(line) == Failure(None, ErrorObject(-32700, "no"))


def test_a_fault_says_its_name_and_its_hint_in_every_dialect() -> None:
    fault = Fault("RESOURCE_EXHAUSTED", "full", hint="wait", retry_after_ms=5)
    for error_dialect, code in (
        (ErrorDialect.OLD_MCP, -32603),
        (ErrorDialect.NEW_MCP, -32603),
        (ErrorDialect.MGP, 3001),
    ):
        error = fault.render(error_dialect)
        data = json.loads(bytes(error.data))
        assert error.code == code
        assert data["domain"] == "resource"
        assert data["name"] == "RESOURCE_EXHAUSTED"
        assert data["hint"] == "wait"
        assert ("_mgp" in data) is (error_dialect is ErrorDialect.MGP)
