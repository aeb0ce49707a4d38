"""Framing: bytes in any pieces give the same lines and events, and nothing grows without bound."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.wire.ndjson import LineReader, OversizeLine
from interlock.wire.sse import KEEP_ALIVE, EventReader, EventTooLarge, SseEvent, encode_event


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


lines = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8)


@given(lines, st.lists(st.integers(0, 400), max_size=10), st.sampled_from([b"\n", b"\r\n"]))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(whole: list[bytes], cuts: list[int], end: bytes) -> None:
    reader = LineReader(1000)
    data = b"".join(line + end for line in whole)
    got = [line for piece in pieces(data, cuts) for line in reader.feed(piece)]
    assert got == [line.strip() for line in whole if line.strip()]


@given(st.lists(st.sampled_from([b"", b" ", b"\t\r", b"a", b" b ", b"c\r"]), max_size=30), st.lists(st.integers(0, 90)))
def test_blank_lines_are_left_out_and_counted(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    reader = LineReader(1000)
    found = [line for piece in pieces(stream, cuts) for line in reader.feed(piece)]
    assert found == [line.strip() for line in lines if line.strip()]
    whole = LineReader(1000)
    whole.feed(b"x\n" + stream)
    assert (whole.blank_bytes > 0) == any(not line.strip() for line in lines)


@given(st.lists(st.integers(0, 400), max_size=10))
def test_a_line_over_the_limit_is_dropped_and_the_next_one_read(cuts: list[int]) -> None:
    reader = LineReader(10)
    data = b"short\n" + b"x" * 50 + b"\nnext\n"
    got = [line for piece in pieces(data, cuts) for line in reader.feed(piece)]
    assert [b"" if isinstance(line, OversizeLine) else line for line in got] == [b"short", b"", b"next"]


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"%b"}}', 7),
        (b'{"id": "seven", "method":"m","params":{"a":"%b"}}', "seven"),
        (b'{"method":"m","params":{"id":1,"a":"%b"},"jsonrpc":"2.0","id":7}', 7),
        (b'{"method":"m","params":{"a":"%b"}, "id" : "seven" }', "seven"),
        (b'{"method":"m","params":{"a":"%b","id":7}}', None),
        (b'{"params":{"id":7,"a":"%b"},"method":"m"}', None),
        (b'{"params":"%b,\\"id\\":7}"}', None),
        (b'{"id":1.5,"params":"%b"}', None),
        (b'{"id":"\xff","params":"%b"}', None),
        (b"%b", None),
    ],
)
@given(cuts=st.lists(st.integers(0, 1000), max_size=10))
def test_the_ends_of_a_line_over_the_limit_tell_its_id(line: bytes, id: int | str | None, cuts: list[int]) -> None:
    reader = LineReader(400)
    data = line.replace(b"%b", b"x" * 800) + b"\n"
    (got,) = [line for piece in pieces(data, cuts) for line in reader.feed(piece)]
    assert isinstance(got, OversizeLine)
    assert got.id == id


def test_a_line_without_end_holds_no_more_than_the_limit() -> None:
    reader = LineReader(1000)
    for _ in range(100):
        assert reader.feed(b"x" * 100) == []
        assert reader.buffered_bytes <= 1000


one_line = st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])
payloads = st.text(alphabet=one_line, max_size=40).map(str.encode)
event_ids = st.none() | st.text(alphabet="abc-0123456789", min_size=1, max_size=8)


@given(st.lists(st.tuples(payloads, event_ids), max_size=6), st.lists(st.integers(0, 600), max_size=10))
def test_events_do_not_depend_on_how_the_bytes_were_cut(
    events: list[tuple[bytes, str | None]], cuts: list[int]
) -> None:
    data = KEEP_ALIVE + b"".join(encode_event(payload, id_) + KEEP_ALIVE for payload, id_ in events)
    reader = EventReader(10_000)
    got = [event for piece in pieces(data, cuts) for event in reader.feed(piece)]
    assert got == [SseEvent(payload, id=id_) for payload, id_ in events]


@each_case("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_is_understood(end: bytes) -> None:
    stream = end.join(
        [b"event: endpoint", b"data: /a", b"data:b", b"id: 7", b"retry: 250", b"", b":x", b"data: 2", b"", b""]
    )
    for size in (1, 2, 3, len(stream)):
        reader = EventReader(1000)
        got = [event for at in range(0, len(stream), size) for event in reader.feed(stream[at : at + size])]
        assert got == [SseEvent(b"/a\nb", "endpoint", "7", 250), SseEvent(b"2")]


def test_a_byte_order_mark_at_the_start_is_passed_over() -> None:
    assert EventReader(100).feed(b"\xef\xbb\xbfdata: a\n\n") == [SseEvent(b"a")]


@each_case("stream", [b"data: " + b"x" * 200, b"data: xxxxxxxxxx\n" * 20])
def test_an_event_over_the_limit_ends_the_stream(stream: bytes) -> None:
    reader = EventReader(100)
    with pytest.raises(EventTooLarge):
        reader.feed(stream)


def test_an_event_that_ends_makes_room_for_the_next() -> None:
    reader = EventReader(100)
    assert reader.feed(b"data: " + b"a" * 70) == []
    assert reader.feed(b"\n\ndata: " + b"b" * 70) == [SseEvent(b"a" * 70)]
    assert reader.feed(b"\n\n") == [SseEvent(b"b" * 70)]
