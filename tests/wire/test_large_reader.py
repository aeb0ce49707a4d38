"""A large message is read in runs with the same meaning and the same refusals as value by value."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import each_case
from interlock.wire import large_reader
from interlock.wire.large import PIECE, Read
from interlock.wire.large_messages import decode_large
from interlock.wire.large_reader import LargeReader, Unreadable
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage, Result

NEVER = 10**9
LIMITS = Limits(depth=6)
MEMBERS = 60

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
]
_ODD_BLANKS = [b" 1", b"\t\n[ 1 ,\r\n 2 ]", b'{ "b" : 1 }']
_ODD_PIECES = [b"9" * 129, b"[" * 9 + b"]" * 9, b"[]", b"{}", b",", b"]", b"}", b":", b'"', b""]
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


def outcome(data: bytes, members: int = MEMBERS) -> Any:
    """The value that was read, without the blanks that either way may leave; or the refusal."""
    reader = LargeReader(data, LIMITS, members)
    try:
        payload = reader.read()
    except Unreadable as bad:
        return bad.name, bad.message, bad.members
    spans = {
        name: [compact(payload[each.start : each.stop]) for each in (span, *span.inner.values())]
        for name, span in reader.spans.items()
    }
    items = {
        names: [compact(payload[at:to]) for at, to in zip(places[::2], places[1::2], strict=True)]
        for names, places in reader.places.items()
    }
    for (outer, inner), found in items.items():
        span = reader.spans[outer].inner[inner]
        assert b"[" + b",".join(found) + b"]" == compact(payload[span.start : span.stop])
    return compact(payload), spans, reader.names, reader._members, items


def compact(payload: bytes) -> bytes:
    return re.sub(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', rb"\1", payload)


def one_by_one(data: bytes, patch: pytest.MonkeyPatch, members: int = MEMBERS) -> Any:
    with patch.context() as patched:
        patched.setattr(large_reader, "RUN_DEPTH", NEVER)
        return outcome(data, members)


@settings(max_examples=200)
@given(st.lists(_texts_of_values(), min_size=1, max_size=8), st.sampled_from([8, 64, PIECE]), st.booleans())
@example([b"1", b'{"a":1,"a":2}'], 64, False)
@example([b"[[[[[[[]]]]]]]", b"1"], PIECE, True)
@example([b"[" + b"0," * 58 + b"0]"], PIECE, True)
@example([b'"\\ud83d"', b'"\\ude00"'], PIECE, False)
def test_runs_mean_what_single_values_mean(texts: list[bytes], window: int, in_object: bool) -> None:
    patch = pytest.MonkeyPatch()
    if in_object:
        # Some names stand twice.
        inside = b"{" + b",".join(b'"n%d" :%b' % (len(text) % 40, text) for text in texts) + b"}"
    else:
        inside = b"[" + b", ".join(texts) + b"]"
    data = b'{"jsonrpc":"2.0","id":1,"result":{"x":' + inside + b',"more":[1 ,2]}}'
    with patch.context() as patched:
        patched.setattr(large_reader, "WINDOW", window)
        assert outcome(data) == one_by_one(data, patch)


@each_case("cut", [0, 1, 5, 40, 1_000, 33_000])
def test_a_message_that_is_cut_off_is_refused_alike(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    item = b'{"name":"caf\xc3\xa9 \\n","n":[1,2.50,-0,null]}'
    data = b'{"result":{"x":[' + b",".join([item] * 2_000) + b"]}}"
    data = data[: len(data) - cut]
    got = outcome(data, NEVER)
    assert got == one_by_one(data, monkeypatch, NEVER)
    assert (got[0] in ("PARSE_ERROR", "INVALID_REQUEST")) is (cut > 0)


@each_case("members", [-1, 0, 1])
def test_the_members_of_runs_are_counted_one_by_one(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    items = b",".join(b'{"a":[%d,"x,y[{"]}' % number for number in range(5_000))
    data = b'{"result":{"x":[' + items + b"]}}"
    # An array and an object have one each, and each comma.
    told = 3 + 5_000 * 3 + 4_999 + members - large_reader.AROUND
    got = outcome(data, told)
    assert got == one_by_one(data, monkeypatch, told)
    assert (got[:2] == ("INVALID_REQUEST", f"more than {told} members")) is (members < 0)


SHAPES = {
    "tools": b",".join(b'{"name":"t%d","inputSchema":{"type":"object"}}' % number for number in range(20_000)),
    "numbers": b",".join([b"1e5"] * 300_000),
    "names that are in doubt": b",".join(b'{"%b":1}' % (b"n" * 200) for _ in range(20_000)),
    "numbers that are in doubt": b",".join([b"1", b'{"' + b"n" * 100 + b'":1}'] * 10_000),
    "values as large as a run": b",".join([b'["' + b"x" * (PIECE - 100) + b'",' + b"[" * 30 + b"]" * 31] * 100),
}


@pytest.mark.parametrize("items", SHAPES.values(), ids=SHAPES.keys())
def test_few_runs_are_tried_in_vain(items: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    read = large_reader.RunReader.read

    def counted(self: Any, window: bytes, *more: Any) -> Any:
        nonlocal tried
        tried += len(window)
        return read(self, window, *more)

    monkeypatch.setattr(large_reader.RunReader, "read", counted)
    data = b'{"jsonrpc":"2.0","id":1,"result":{"x":[' + items + b"]}}"
    assert isinstance(decode_large(data, Limits(), Limits().answer_members), Result)
    assert tried < 8 * len(data)


def test_a_page_of_ten_thousand_tools_is_taken() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "minLength": n} for n in range(10)}}
    tools = [{"name": f"t{n}", "description": "Does\nit.", "inputSchema": schema} for n in range(10_000)]
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}, separators=(",", ":")).encode()
    read = decode_large(data, Limits(), Limits().answer_members)
    assert isinstance(read, Result)
    assert isinstance(read.result, Read)
    assert [json.loads(item) for item in read.result.items("tools") or ()] == tools
    assert json.loads(read.result)["tools"] == tools


def test_a_message_that_is_nested_without_an_end_is_refused_in_a_thread() -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{"x":[' + b"[" * 100_000
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(decode_large(data, Limits(), NEVER)))
    thread.start()
    thread.join()
    assert isinstance(outcomes[0], BadMessage)
    assert outcomes[0].message == "nested deeper than 64 levels"
