"""A response that is known again is the one the parser would have read, and nothing else is."""

from __future__ import annotations

import httptools
from hypothesis import given
from hypothesis import strategies as st

from interlock.transports.http.client.channel import KNOWN_BYTES, KnownHeads

HEAD = b"HTTP/1.1 200 OK\r\ndate: now\r\nContent-Length: %d\r\ncontent-type: application/json\r\n\r\n"
HEADERS = {b"content-type": b"application/json"}


def response(body: bytes) -> bytes:
    return HEAD % len(body) + body


def test_an_answer_of_another_length_is_known_by_its_head() -> None:
    heads = KnownHeads()
    heads.remember(response(b"{}"), HEADERS)
    assert heads.find(response(b'{"a":1}')) == (HEADERS, b'{"a":1}')
    assert heads.find(response(b'{"b":2}')) == (HEADERS, b'{"b":2}')


def test_a_head_that_was_never_read_is_not_known() -> None:
    heads = KnownHeads()
    assert heads.find(response(b"{}")) is None
    heads.remember(response(b"{}"), HEADERS)
    assert heads.find(response(b"{}").replace(b"200 OK", b"404 No")) is None
    assert heads.find(response(b"{}").replace(b"date: now", b"date: then")) is None


def test_a_body_that_is_cut_or_followed_by_more_is_left_to_the_parser() -> None:
    heads = KnownHeads()
    heads.remember(response(b"{}"), HEADERS)
    for _ in range(2):
        assert heads.find(response(b"{}")[:-1]) is None
        assert heads.find(response(b"{}") + b"HTTP/1.1 200 OK") is None
        assert heads.find(response(b"{}")) is not None


def test_a_length_in_the_body_is_no_length() -> None:
    heads = KnownHeads()
    heads.remember(response(b"{}"), HEADERS)
    headless = (HEAD % 2).replace(b"\r\nContent-Length: 2", b"")
    for tail in (b"", b"\r\n", b"\r\n\r\n", b"\r\nx: y\r\n\r\n"):
        for length in range(200):
            assert heads.find(headless + b"\r\nContent-Length: %d" % length + tail) is None


def test_a_second_length_makes_a_head_unknown() -> None:
    heads = KnownHeads()
    heads.remember(response(b"{}"), HEADERS)
    for name in (b"Content-Length", b"content-length", b"CONTENT-LENGTH"):
        doubled = response(b"{}").replace(b"date: now", name + b": 7\r\ndate: now")
        assert heads.find(doubled) is None


def test_what_is_no_number_is_no_length() -> None:
    heads = KnownHeads()
    heads.remember(response(b"{}"), HEADERS)
    for said in (b"+2", b" 2", b"2 ", b"0x2", b"", b"2_0", "٢".encode(), b"2" * 20):
        assert heads.find((HEAD % 2).replace(b"Content-Length: 2", b"Content-Length: " + said) + b"{}") is None


def test_long_heads_are_not_kept() -> None:
    heads = KnownHeads()
    long = response(b"{}").replace(b"now", b"x" * KNOWN_BYTES)
    heads.remember(long, HEADERS)
    assert heads.find(long) is None


@given(
    st.lists(st.sampled_from([b"a", b"Content-Length: 1", b"\r\n", b"\r\n\r\n", b"HTTP/1.1 200 OK", b"{}", b"x: y"]))
)
def test_whatever_is_known_the_parser_reads_the_same_way(pieces: list[bytes]) -> None:
    heads = KnownHeads()
    start = b"HTTP/1.1 200 OK\r\nx: y\r\nContent-Length: 2\r\n\r\n{}"
    heads.remember(start, HEADERS)
    data = b"HTTP/1.1 200 OK\r\n" + b"".join(pieces)
    found = heads.find(data)
    if found is not None:
        assert found[1] == _Parsed(data).body


class _Parsed:
    """A response as httptools parses it."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        self.complete = 0
        httptools.HttpResponseParser(self).feed_data(data)
        assert self.complete == 1

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1
