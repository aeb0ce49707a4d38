"""A large message is read in pieces, with the meaning that a plain reader finds, wherever the pieces end."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import isfinite
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import each_case
from example_counts import example_count
from interlock.protocols.mcp.answers import HUB_PREFIX
from interlock.wire import large, large_containers, large_reader, large_texts
from interlock.wire.large import NOTED_PREFIX, PIECE_BYTES, CheckedJson
from interlock.wire.large_messages import CALL, decode_large, decode_large_value
from interlock.wire.large_pieces import MAX_NAME_BYTES, MAX_NUMBER_CHARS, UnreadableMessage
from interlock.wire.large_reader import ENVELOPE_MEMBERS, MAX_REST, LargeReader
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage, Request, Result

NEVER = 10**9
LIMITS = Limits(depth=6)
MEMBERS = 60
LONG_NAME = 300
"""Most bytes of the names here."""
PIECES = [64, 65, 100, 1_000, PIECE_BYTES]

_TEXTS = st.text(max_size=12) | st.sampled_from(
    ["\n", '"', "\\", "  ", "😀", "\x7f", "{", "[,]", "é" * 40, "x" * 86, "\ud83d", "\udc00"]
)
_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, -0.0, 10**17, 10**40])
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(_TEXTS, inner, max_size=6),
    max_leaves=40,
)
_ODD_NUMBERS = [b"NaN", b"-Infinity", b"1e999", b"1e-999", b"-0", b"01", b"1.", b"+1", b"1E+5", b"1.50", b"9" * 20]
_ODD_TEXTS = [
    rb'"\ud800"',
    rb'"\udc00"',
    rb'"\ud83d\ude00"',
    rb'"\u00e9\/"',
    rb'"\x"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\t"',
]
_ODD_OBJECTS = [
    b'{"a":1,"a":2}',
    rb'{"a":1,"\u0061":2}',
    b'{"":1}',
    b'{"%b":1}' % (b"n" * 90),
    b'{"%b":1}' % (b"n" * 1_030),
    rb'{"%b":1}' % (rb"\u00e9" * 180),
    rb'{"\u00e9":1,"x\\":2,"\"":3}',
]
_ODD_BLANKS = [b" 1", b"\t\n[ 1 ,\r\n 2 ]", b'{ "b" : 1 }']
_ODD_PIECES = [
    b"9" * 128,
    b"9" * 129,
    b"x" * 200,
    b" " * 300,
    b"\0",
    b'"' + b"\\n" * 200 + b'"',
    b"[" * 9 + b"]" * 9,
    b"[]",
    b"{}",
    b",",
    b"]",
    b"}",
    b":",
    b'"',
    b"",
]
_ODD = st.sampled_from([*_ODD_NUMBERS, *_ODD_TEXTS, *_ODD_OBJECTS, *_ODD_BLANKS, *_ODD_PIECES])
_STYLES = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}, {"separators": (" ,\t", " : ")}])


@st.composite
def _texts_of_values(draw: st.DrawFn) -> bytes:
    value, style, ascii_only = draw(_VALUES), draw(_STYLES), draw(st.booleans())
    written = json.dumps(value, ensure_ascii=ascii_only, **style).encode("utf-8", "surrogatepass")
    for odd in draw(st.lists(_ODD, max_size=2)):
        # In the place of a number, or anywhere.
        places = [found.span() for found in re.finditer(rb"-?[0-9]+", written)]
        start, stop = draw(st.sampled_from(places)) if places and draw(st.booleans()) else (None, None)
        if start is None:
            start = stop = draw(st.integers(0, len(written)))
        written = written[:start] + odd + written[stop:]
    return written


@contextmanager
def pieces_of(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_reader, "PIECE_BYTES", size)
        patched.setattr(large_texts, "PIECE_BYTES", size)
        patched.setattr(large_reader, "LONG_TEXT", max(size // 2, LONG_NAME))
        yield


class Refused(Exception):
    pass


def refuse(*_: object) -> Any:
    raise Refused


def _number(written: str) -> Any:
    return msgspec.Raw(written.encode()) if isfinite(float(written)) else refuse()


def model(data: bytes, members: int = MEMBERS) -> tuple[Any, set[bytes], int]:
    """What a message means, in one go: its value, with the numbers as they are written, its names and its members."""
    names: set[bytes] = set()

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        names.update(map(msgspec.json.encode, found))
        return found if len(found) == len(pairs) else refuse()

    try:
        value = json.loads(
            data.decode(), object_pairs_hook=read_object, parse_float=_number, parse_int=_number, parse_constant=refuse
        )
        msgspec.json.encode(value)
    except (ValueError, RecursionError):
        raise Refused from None
    count, depth, deepest = 0, 0, 0
    for token in re.findall(rb'"(?:[^"\\]|\\.)*"\s*:?|[][{},]|[-+.0-9eE]+', data, re.DOTALL):
        count += token in (b",", b"[", b"{")
        depth += (token in (b"[", b"{")) - (token in (b"]", b"}"))
        deepest = max(deepest, depth)
        most = MAX_NUMBER_CHARS if token[:1] != b'"' else MAX_NAME_BYTES if token[-1:] == b":" else NEVER
        if len(token.rstrip(b" \t\r\n:")) > most:
            refuse()
    if count > members + ENVELOPE_MEMBERS or deepest > LIMITS.depth + 2:
        refuse()
    return value, names, count


def taken(data: bytes, size: int, members: int = MEMBERS) -> bool:
    """Whether a message is taken. Its text, its places and its names are then those of the model."""
    reader = LargeReader(data, LIMITS, members, CALL)
    try:
        value, names, count = model(data, members)
    except Refused:
        with pieces_of(size), pytest.raises(UnreadableMessage) as caught:
            reader.read()
        assert caught.value.members.get("id") == (1 if b'"id":1,' in data else None)
        return False
    with pieces_of(size), pytest.MonkeyPatch.context() as patched:
        patched.setattr(large, "NOTED", frozenset(names))
        payload = reader.read()
    assert payload == msgspec.json.encode(value)
    assert reader.names == names
    with pieces_of(size):
        # So many members are its own, and not one less.
        LargeReader(data, LIMITS, count - ENVELOPE_MEMBERS, CALL).read()
        with pytest.raises(UnreadableMessage, match="members"):
            LargeReader(data, LIMITS, count - ENVELOPE_MEMBERS - 1, CALL).read()
    assert reader.spans.keys() == value.keys()
    items = {}
    for name, span in reader.spans.items():
        member = value[name]
        assert payload[span.start : span.stop] == msgspec.json.encode(member)
        inner = dict(enumerate(member)) if isinstance(member, list) else member if isinstance(member, dict) else {}
        assert [*span.inner] == [*map(str, inner)]
        for (key, each), place in zip(inner.items(), span.inner.values(), strict=True):
            written = msgspec.json.encode(each)
            assert payload[place.start : place.stop] == written
            if (name, key) == CALL and isinstance(each, dict | list):
                assert place.value == msgspec.json.decode(written)
            if isinstance(each, list) and each:
                items[name, str(key)] = [*map(msgspec.json.encode, each)]
    places = {key: zip(found[::2], found[1::2], strict=True) for key, found in reader.places.items()}
    bases = {name: span.start for name, span in reader.spans.items()}
    assert {
        key: [payload[bases[key[0]] + start : bases[key[0]] + stop] for start, stop in found]
        for key, found in places.items()
    } == items
    return True


ENVELOPES = [
    (b'"result":{"x":', b',"more":[1 ,2]}'),
    (b'"result":{"content":[{"type":"text"}],"x":{"y":', b"}}"),
    (b'"params":{"a":[0,"b"],"arguments":', b',"more":{"a":1}}'),
    (b'"result":[{"x":[1,2]},', b"]"),
    (b'"y":', b',"z":[]'),
]


@settings(max_examples=example_count(120, 1_000))
@given(
    st.lists(_texts_of_values(), min_size=1, max_size=8),
    st.sampled_from(PIECES),
    st.sampled_from(ENVELOPES),
    st.booleans(),
    st.integers(0, 200),
)
@example([b"1", b'{"a":1,"a":2}'], 64, ENVELOPES[0], False, 0)
@example([b"[[[[[[[]]]]]]]", b"1"], PIECE_BYTES, ENVELOPES[0], True, 0)
@example([b"[" + b"0," * 58 + b"0]"], PIECE_BYTES, ENVELOPES[0], True, 0)
@example([b'"\\ud83d"', b'"\\ude00"'], PIECE_BYTES, ENVELOPES[0], False, 0)
@example([b"[", b"]"], 64, ENVELOPES[0], False, 0)
@example([b"[" + b" " * 70, b"]"], 64, ENVELOPES[0], False, 0)
def test_a_message_means_the_same_wherever_its_pieces_end(
    texts: list[bytes], size: int, envelope: tuple[bytes, bytes], in_object: bool, shift: int
) -> None:
    if in_object:
        # Some names stand twice.
        inside = b"{" + b",".join(b'"n%d" :%b' % (len(text) % 40, text) for text in texts) + b"}"
    else:
        inside = b"[" + b", ".join(texts) + b"]"
    data = b'{"jsonrpc":"2.0","id":1,"v":"%b",' % (b"x" * shift) + envelope[0] + inside + envelope[1] + b"}"
    taken(data, size)


@settings(max_examples=example_count(50, 500))
@given(st.integers(1, 20), st.integers(0, 40), st.integers(0, 100), st.sampled_from([64, 100, 333]), st.booleans())
def test_rows_of_any_width_are_read_alike(width: int, rows: int, shift: int, size: int, content_first: bool) -> None:
    row = b"{" + b",".join(b'"c%d":%d' % (column, column**5) for column in range(width)) + b"}"
    content = b'"content":[{"type":"text","text":"%b"}]' % (b"x" * shift)
    table = b'"structuredContent":{"rows":[' + b",".join([row] * rows) + b"]}"
    parts = (content, table) if content_first else (table, content)
    assert taken(b'{"jsonrpc":"2.0","id":1,"result":{' + b",".join(parts) + b"}}", size, NEVER)


WRITTEN = [
    pytest.param(b'"%b"' % (b"\\ud83d\\ude00" * 40), id="pairs of escapes"),
    pytest.param(b'"%b"' % (b"\\ud83d\\ude00\\n" * 40), id="pairs and short escapes"),
    pytest.param(b'"%b"' % (b"\\\\" * 200), id="backslashes"),
    pytest.param(b'"%b"' % (b'\\"' * 200), id="quotes"),
    pytest.param(b'"%b"' % (b'\\\\\\"' * 70), id="backslashes and quotes"),
    pytest.param('"{}"'.format("😀" * 100).encode(), id="characters of four bytes"),
    pytest.param(b'"%b"' % (b"\\u000a\\/" * 40), id="escapes that need not be"),
    pytest.param(b"[" + b" \n" * 200 + b"1 \t" + b"\r" * 200 + b", 2" + b" " * 200 + b"]", id="blanks"),
    pytest.param(b'{"%b":{"%b":"x"}}' % (b"n" * 290, b"m" * 290), id="long names"),
]


@pytest.mark.parametrize("written", WRITTEN)
@each_case("size", [64, 65, 67, PIECE_BYTES])
def test_texts_blanks_and_names_go_over_the_ends_of_pieces(written: bytes, size: int) -> None:
    for shift in range(0, 70, 5):
        for opening, closing in ENVELOPES[:3]:
            data = b'{"jsonrpc":"2.0","id":1,"v":"%b",' % (b"x" * shift) + opening + written + closing + b"}"
            assert taken(data, size), (shift, opening)
            assert not taken(data[: len(data) - shift % 20 - 1], size)


@each_case("cut", [0, 1, 5, 40, 1_000, 33_000])
def test_a_message_that_is_cut_off_is_refused(cut: int) -> None:
    item = b'{"name":"caf\xc3\xa9 \\n","n":[1,2.50,-0,null]}'
    data = b'{"id":1,"result":{"x":[' + b",".join([item] * 2_000) + b"]}}"
    assert taken(data[: len(data) - cut], PIECE_BYTES, NEVER) is (cut == 0)


@each_case("members", [-1, 0, 1])
@each_case("size", [100, PIECE_BYTES])
def test_the_members_of_all_pieces_are_counted(members: int, size: int) -> None:
    items = b",".join(b'{"a":[%d,"x,y[{"]}' % number for number in range(5_000))
    data = b'{"result":{"x":[' + items + b"]}}"
    # An array and an object have one each, and each comma.
    told = 3 + 5_000 * 3 + 4_999 + members - ENVELOPE_MEMBERS
    assert taken(data, size, told) is (members >= 0)
    with pieces_of(size):
        refused = decode_large(data, LIMITS, told)
    if members < 0:
        assert isinstance(refused, BadMessage)
        assert refused.message == f"more than {told} members"


REFUSALS = [
    pytest.param(b'{"a":1,%b"a":2}', "INVALID_REQUEST", "duplicate member 'a'", id="a name twice"),
    pytest.param(b'{"%b":1}', "INVALID_REQUEST", "the name of a member is longer than 1024 bytes", id="a long name"),
    pytest.param(b"[1%b,9" + b"9" * 200 + b"]", "INVALID_REQUEST", "a number is longer than 128", id="a long number"),
    pytest.param(b"[" * 70 + b"1%b" + b"]" * 70, "INVALID_REQUEST", "nested deeper than 64 levels", id="too deep"),
    pytest.param(b"[1%b,x" + b"y" * 200 + b"]", "PARSE_ERROR", "not JSON: a value is none of JSON", id="no value"),
    pytest.param(b'[1%b,"\xff"]', "PARSE_ERROR", "not JSON: 'utf-8' codec", id="no UTF-8"),
    pytest.param(b"[1%b,[,2]]", "PARSE_ERROR", "not JSON", id="a comma too many"),
    pytest.param(b"[1%b,2,]", "PARSE_ERROR", "not JSON", id="a comma at the end"),
    pytest.param(b"[1%b,2}", "PARSE_ERROR", "not JSON", id="another bracket"),
    pytest.param(b'[1%b,"a".5]', "PARSE_ERROR", "not JSON", id="a number behind a text"),
    pytest.param(b'[1%b,"\\ud83d"]', "PARSE_ERROR", "not JSON", id="half a pair"),
    pytest.param(b'[1%b,"\\x"]', "PARSE_ERROR", "not JSON", id="no escape"),
    pytest.param(b'[1%b,"\0"]', "PARSE_ERROR", "not JSON: a control character", id="a control character"),
    pytest.param(b"[1%b,2 3]", "PARSE_ERROR", "not JSON: a comma is missing", id="two numbers"),
    pytest.param(b"[1%b,-\n1]", "PARSE_ERROR", "not JSON: a comma is missing, or a blank", id="a blank in a number"),
    pytest.param(b"[1%b,n" + b" " * 300 + b"ull]", "PARSE_ERROR", "not JSON: a comma is missing", id="blanks in null"),
    pytest.param(b'[1%b,"a" "b"]', "PARSE_ERROR", "not JSON", id="two texts"),
    pytest.param(b"[1%b]]", "PARSE_ERROR", "not JSON: an array or object ends", id="too many ends"),
]


@pytest.mark.parametrize(("written", "name", "message"), REFUSALS)
@each_case("between", [0, 40_000])
def test_a_refusal_says_why_and_whom_to_answer(written: bytes, name: str, message: str, between: int) -> None:
    filler = b"n" * between if b'"%b"' in written else b',"%b"' % (b"x" * between) if between else b""
    if written.startswith(b'{"a"'):
        filler = b'"b":"%b",' % (b"x" * between)
    elif written.startswith(b'{"%b'):
        filler = b"n" * (between + 1_030)
    result = written.replace(b"%b", filler)
    data = b'{"jsonrpc":"2.0","id":7,"result":{"x":%b,"y":"%b"}}' % (result, b"y" * 70_000)
    refused = decode_large(data, Limits(), NEVER)
    assert isinstance(refused, BadMessage)
    assert (refused.name, refused.id) == (name, 7)
    assert refused.message.startswith(message)


def test_the_arguments_of_a_call_are_put_together_from_all_pieces() -> None:
    deep: Any = "x" * 50_000
    for level in range(40):
        deep = {"a": [level, deep], "b": "\n" * level} if level % 2 else [deep, level]
    arguments = {"rows": [{"n": number, "text": "é" * number} for number in range(900)], "deep": deep, "last": [1, []]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": arguments}}
    for size in (100, 1_000, PIECE_BYTES):
        with pieces_of(size):
            read = decode_large(json.dumps(message).encode(), Limits(), NEVER)
        assert isinstance(read, Request)
        assert isinstance(read.params, CheckedJson)
        assert read.params.arguments is not None
        assert read.params.arguments.value == arguments
        assert json.loads(read.params.arguments) == arguments


def _rows(width: int) -> bytes:
    rows = [{f"c{column}": number for column in range(width)} for number in range(60_000 // width)]
    return json.dumps(rows, separators=(",", ":")).encode()


WIDTHS = (1, 2, 3, 4, 5, 6, 14, 16, 400)
CONTENT = b'"content":[{"type":"text","text":"w"}]'


def _rows_after_content(width: int) -> bytes:
    return CONTENT + b',"structuredContent":{"rows":' + _rows(width) + b"}"


def _rows_before_content(width: int) -> bytes:
    return b'"s":{"rows":' + _rows(width) + b"}," + CONTENT


# Functions, since every worker imports this file, and one of them needs the texts.
SHAPES: dict[str, Callable[[], bytes]] = {
    "a text": lambda: b'"content":[{"type":"text","text":"%b"}]' % (b"x" * 600_000),
    "an escaped text": lambda: b'"content":[{"type":"text","text":"%b"}]' % (b'\\n\\"' * 150_000),
    "blocks": lambda: b'"content":[' + b",".join([b'{"type":"text","text":"a text of some words\\n"}'] * 12_000) + b"]",
    "tools": lambda: (
        b'"tools":['
        + b",".join(b'{"name":"t%d","inputSchema":{"type":"object"}}' % number for number in range(12_000))
        + b"]"
    ),
    "numbers": lambda: b'"x":[' + b",".join([b"1e5"] * 150_000) + b"]",
    "long names": lambda: b'"x":[' + b",".join(b'{"%b":1}' % (b"n" * 200) for _ in range(3_000)) + b"]",
    "texts nearly as large as a piece": lambda: (
        b'"x":[' + b",".join([b'["' + b"x" * (PIECE_BYTES - 100) + b'",' + b"[" * 30 + b"]" * 31] * 20) + b"]"
    ),
    "deep": lambda: CONTENT + b',"x":[' + b",".join([b"[" * 50 + b"]" * 50] * 6_000) + b"]",
    "blanks": lambda: b'"x":[' + b",".join([b" " * 40_000 + b"1"] * 20) + b"]",
    "a text in many lines": lambda: (
        CONTENT + b',"structuredContent":' + json.dumps(json.loads(_rows(4)), indent=2).encode()
    ),
    **{f"rows of {width}": partial(_rows_after_content, width) for width in WIDTHS},
    **{f"rows of {width}, content last": partial(_rows_before_content, width) for width in WIDTHS},
}


@pytest.mark.parametrize("members", SHAPES.values(), ids=SHAPES.keys())
def test_no_shape_takes_more_than_a_few_calls_for_each_piece(members: Callable[[], bytes]) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{' + members() + b"}}"
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        read = decode_large(data, Limits(), Limits().answer_members)
    finally:
        sys.setprofile(None)
    assert isinstance(read, Result)
    assert calls < 300 * (len(data) // PIECE_BYTES + 1) + 8 * data.count(b"[]")


def test_the_steps_of_a_message_without_commas_do_not_grow_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    split = large_reader.split

    def counted(text: bytes) -> list[bytes]:
        nonlocal seen
        seen += len(text)
        return split(text)

    monkeypatch.setattr(large_reader, "split", counted)
    for inside in (b"[" * 300_000, b"1" * 300_000, b" " * 300_000, b'"a":' * 80_000, b"]" * 300_000, b'{"a"' * 80_000):
        seen, data = 0, b'{"jsonrpc":"2.0","id":1,"result":{"x":' + inside + b"}}"
        assert isinstance(decode_large(data, Limits(), NEVER), BadMessage)
        assert seen < 8 * len(data)


def test_a_page_of_ten_thousand_tools_is_taken() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "minLength": n} for n in range(10)}}
    tools = [{"name": f"t{n}", "description": "Does\nit.", "inputSchema": schema} for n in range(10_000)]
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}, separators=(",", ":")).encode()
    read = decode_large(data, Limits(), Limits().answer_members)
    assert isinstance(read, Result)
    assert isinstance(read.result, CheckedJson)
    assert [json.loads(item) for item in read.result.items("tools") or ()] == tools
    assert json.loads(read.result)["tools"] == tools


@each_case(
    ("written",),
    [(b"[%b]" % b",".join([b"[]"] * 30_000),), (b"{%b}" % b",".join(b'"%d":[]' % n for n in range(30_000)),)],
)
def test_a_member_of_the_envelope_has_a_bound_of_its_own(written: bytes) -> None:
    # Each is noted by itself: a million of them would keep the one thread that reads for many seconds.
    for member in (b"result", b"params"):
        bad = decode_large(b'{"jsonrpc":"2.0","id":7,"method":"x","%b":%b}' % (member, written), Limits(), 1_000_000)
        assert isinstance(bad, BadMessage)
        assert (bad.id, bad.message) == (7, "more than 10000 members in the envelope or a member of it")
    inside = b'{"jsonrpc":"2.0","id":7,"result":{"x":%b}}' % written
    assert isinstance(decode_large(inside, Limits(), 1_000_000), Result)


def test_a_servers_own_requests_have_the_bound_of_clients_and_its_answers_more() -> None:
    many = b'{"x":[%b]}' % b",".join([b"[]"] * 30_000)
    for written in (b'"id":7,"method":"x","params"', b'"method":"x","params"'):
        bad = decode_large(b'{"jsonrpc":"2.0",%b:%b}' % (written, many), Limits(), 1_000_000)
        assert isinstance(bad, BadMessage)
        assert (bad.id, bad.asks, bad.message) == (7 if b"id" in written else None, True, "more than 10000 members")
    assert isinstance(decode_large(b'{"jsonrpc":"2.0","id":7,"result":%b}' % many, Limits(), 1_000_000), Result)


def test_a_message_that_is_nested_without_an_end_is_refused_in_a_thread() -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{"x":[' + b"[" * 100_000
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(decode_large(data, Limits(), NEVER)))
    thread.start()
    thread.join()
    assert isinstance(outcomes[0], BadMessage)
    assert outcomes[0].message == "nested deeper than 64 levels"


@pytest.mark.parametrize("behind", [b',"b":2', b'},"z":{"q":1', b"}}", b" 1"])
def test_nothing_follows_a_value_that_is_no_message(behind: bytes) -> None:
    value = b'{"a":"%b"}' % (b"x" * 70_000)
    assert decode_large_value(value, Limits(), NEVER) == value
    with pytest.raises(UnreadableMessage):
        decode_large_value(value + behind, Limits(), NEVER)


@pytest.mark.parametrize("form", [b'{"%b":1}', b'[{"%b":1}]'])
def test_very_many_names_are_checked_and_not_kept(form: bytes) -> None:
    count = 100_000
    names = b'":1,"'.join(b"name%06d" % number for number in range(count))
    if form[:1] == b"[":
        names = names.replace(b",", b"},{")
    body = b'{"id":1,"result":{"structuredContent":%b}}' % (form % names)
    reader = LargeReader(body, LIMITS, 2 * count)
    sizes: list[int] = []

    class Watched(large_containers.ObjectNames):
        def clear(self) -> None:
            sizes.extend(map(len, self._sets))
            super().clear()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_containers, "ObjectNames", Watched)
        reader.read()
    assert reader.names == {b'"structuredContent"'}
    assert max(sizes) <= large_containers.MAX_NAMES_TOGETHER + large.PIECE_BYTES
    if form[:1] == b"{":
        assert sum(sizes) > count * 9 // 10, "all but those of the last piece"
        twice = body.replace(b'"name099999"', b'"name000000"')
        with pytest.raises(UnreadableMessage, match="name000000"):
            LargeReader(twice, LIMITS, 2 * count).read()


def test_the_prefix_of_the_hub_is_noted() -> None:
    assert NOTED_PREFIX == b'"' + HUB_PREFIX
    reader = LargeReader(b'{"id":1,"result":{"_meta":{"dev.interlock/x":1}}}', LIMITS, 100)
    reader.read()
    assert reader.names == {NOTED_PREFIX}


@each_case("written", [b"[" * (2 * MAX_REST), b"{" * (2 * MAX_REST), b'{"a":' * MAX_REST, b"[ " * (2 * MAX_REST)])
def test_bytes_without_a_comma_have_a_bound(written: bytes) -> None:
    refused = decode_large(b'{"jsonrpc":"2.0","id":7,"result":' + written, Limits(), NEVER)
    assert isinstance(refused, BadMessage)
    assert (refused.id, refused.message) == (7, "not JSON: a value does not end")
