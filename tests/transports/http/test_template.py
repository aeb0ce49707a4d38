"""A head read by likeness is the head that the parser reads, or none."""

from __future__ import annotations

import httptools
from http_peer import modern
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.transports.http.lengths import cut_length
from interlock.transports.http.server.http_request import RequestHead
from interlock.transports.http.server.template import HeadTemplate

HOST = "127.0.0.1:7420"


class Reader:
    """The parser's findings."""

    def __init__(self, data: bytes) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.target = b""
        self.body = b""
        self.messages = 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.messages += 1


def parsed(data: bytes) -> RequestHead:
    reader = Reader(data)
    length = int(reader.headers.get(b"content-length", b"0"))
    return RequestHead(reader.parser.get_method(), "/mcp", reader.headers, keep_alive=True, chunked=True, length=length)


def template(data: bytes) -> HeadTemplate:
    found = HeadTemplate.of(data, parsed(data))
    assert found is not None
    return found


FIRST = modern(HOST, Mcp_Param_Region="eu", traceparent="00-aa-bb-01")


def test_an_equal_head_is_taken() -> None:
    assert template(FIRST).match(FIRST) == parsed(FIRST)


@given(
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20),
    st.integers(0, 10**9),
    st.integers(0, 3),
)
def test_values_that_differ_are_taken_as_the_parser_takes_them(name: str, id: int, region: int) -> None:
    head = template(FIRST)
    data = modern(HOST, name.strip() or "x", id=id, Mcp_Param_Region=str(region), traceparent="00-cc-dd-00")
    match = head.match(data)
    assert match == parsed(data)
    assert match is not None
    assert len(data.partition(b"\r\n\r\n")[2]) == match.length


@given(st.integers(0, len(FIRST) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_whatever_is_taken_the_parser_takes_alike(place: int, put: bytes, cut: int) -> None:
    changed = FIRST[:place] + put + FIRST[place + cut :]
    match = template(FIRST).match(changed)
    body = changed.partition(b"\r\n\r\n")[2]
    if match is None or len(body) != match.length:
        return
    reader = Reader(changed)
    assert reader.messages == 1
    assert reader.headers == match.headers
    assert reader.target == b"/mcp"
    assert reader.body == body


@given(st.integers(0, len(FIRST) - 1), st.binary(max_size=3) | st.sampled_from([b"7", b"00"]), st.integers(0, 3))
def test_a_head_that_differs_in_its_length_alone_is_read_as_by_the_parser(place: int, put: bytes, cut: int) -> None:
    changed = FIRST[:place] + put + FIRST[place + cut :]
    start, _, body = changed.partition(b"\r\n\r\n")
    first, found = cut_length(FIRST.partition(b"\r\n\r\n")[0]), cut_length(start)
    if first is None or found is None or first[0] != found[0] or len(body) != found[1]:
        return
    reader = Reader(changed)
    assert reader.messages == 1
    assert {**reader.headers, b"content-length": b""} == {**parsed(FIRST).headers, b"content-length": b""}
    assert int(reader.headers[b"content-length"]) == found[1]
    assert reader.body == body


@each_case("digits", [b"", b"-1", b"+1", b"1 ", b" 1", b"0x1", b"1e3", b"1234567890", b"1, 1", b"\xb2"])
def test_a_length_that_is_not_plainly_a_number_is_left_to_the_parser(digits: bytes) -> None:
    assert cut_length(b"POST /mcp HTTP/1.1\r\nContent-Length: %b\r\nHost: h" % digits) is None
    assert cut_length(b"POST /mcp HTTP/1.1\r\nHost: h\r\ncontent-length: %b" % digits) is None


@each_case(
    ("old", "new"),
    [
        (b"Mcp-Name: echo", b"Mcp-Name: ec\nho"),
        (b"Mcp-Name: echo", b"Mcp-Name: ec\rho"),
        (b"Mcp-Name: echo", b"Mcp-Name: ec\x00ho"),
        (b"Mcp-Name: echo", b"Mcp-Name: "),
        (b"Mcp-Name: echo", b"Mcp-Name:  echo"),
        (b"Mcp-Name: echo", b"Mcp-Name: \xc3\xa9"),
        (b"Mcp-Name: echo", b"Mcp-Name: echo\r\nMcp-Name: echo"),
        (b"Mcp-Name: echo", b"Mcp-Name: echo\r\n folded"),
        (b"Mcp-Name: echo", b"mcp-name: echo"),
        (b"Content-Length: ", b"Content-Length: +"),
        (b"Content-Length: ", b"Content-Length: 0x"),
        (b"Content-Length: ", b"Content-Length: 99999999999"),
        (b"Content-Length: ", b"Transfer-Encoding: chunked\r\nContent-Length: "),
        (b"Host: 127", b"Host: 128"),
        (b"POST /mcp", b"POST /mcq"),
        (b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_anything_else_is_left_to_the_parser(old: bytes, new: bytes) -> None:
    assert old in FIRST
    assert template(FIRST).match(FIRST.replace(old, new)) is None


@each_case(
    "data",
    [
        b"\r\n" + FIRST,
        b"\r\n\r\n" + FIRST,
        modern(HOST, Mcp_Name="=?base64?" + "a" * 5000 + "?="),
        modern(HOST).replace(b"Mcp-Name: echo", b"Mcp-Name:"),
    ],
)
def test_odd_heads_make_no_template(data: bytes) -> None:
    assert HeadTemplate.of(data, parsed(data)) is None


@given(st.integers(0, FIRST.index(b"\r\n\r\n") + 3))
def test_half_a_head_makes_no_template(cut: int) -> None:
    assert HeadTemplate.of(FIRST[:cut], parsed(FIRST)) is None
