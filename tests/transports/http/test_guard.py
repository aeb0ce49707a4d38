"""Refusals that come before the request is read."""

from __future__ import annotations

import pytest
from http_peer import RunningEndpoint, modern
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.guard import (
    AllowedHosts,
    allowed_hosts_for,
    check_head,
    check_size,
    check_target,
    combine,
)
from interlock.transports.http.server.listener import mcp_paths

ALLOWED = allowed_hosts_for("127.0.0.1", 7420, names=["hub.example"], origins=["https://console.example"])
HOST = {b"host": b"127.0.0.1:7420"}


def status(
    headers: dict[bytes, bytes], version: str = "1.1", allowed: AllowedHosts = ALLOWED, method: bytes = b"POST"
) -> int:
    refusal = check_head(method, headers, version, allowed, 1000)
    return 200 if refusal is None else refusal.status


@each_case("host", [b"127.0.0.1:7420", b"localhost:7420", b"LOCALHOST:7420", b"[::1]:7420", b"hub.example"])
def test_the_names_of_this_server_are_allowed(host: bytes) -> None:
    assert status({b"host": host}) == 200


@each_case("host", [b"evil.example", b"127.0.0.1", b"127.0.0.1:80", b"hub.example:7420", b"10.0.0.1:7420"])
def test_a_page_that_rebinds_its_name_to_this_address_is_refused(host: bytes) -> None:
    assert status({b"host": host}) == 403


@each_case(
    "host",
    [b"", b"127.0.0.1:7420/#", b"127.0.0.1:7420/?", b"a@127.0.0.1:7420", b"127.0.0.1:7420, x", b"a b", b"h:999999"],
)
def test_a_host_that_is_no_host_is_a_bad_request(host: bytes) -> None:
    assert status({b"host": host}) == 400


def test_a_request_without_host_is_a_bad_request() -> None:
    assert status({}) == 400


@each_case("origin", [b"http://127.0.0.1:7420", b"http://localhost:7420", b"https://console.example"])
def test_pages_of_this_server_and_of_the_operators_choice_may_call(origin: bytes) -> None:
    assert status(HOST | {b"origin": origin}) == 200


@each_case(
    "origin",
    [b"null", b"", b"http://evil.example", b"http://evil127.0.0.1:7420", b"http://127.0.0.1:7420.evil", b"file://"],
)
def test_other_pages_may_not(origin: bytes) -> None:
    assert status(HOST | {b"origin": origin}) == 403


@each_case(
    ("headers", "version", "expected"),
    [
        ({b"content-length": b"1000"}, "1.1", 200),
        ({b"content-length": b"1001"}, "1.1", 413),
        ({b"content-length": b"9" * 4000}, "1.1", 413),
        ({b"transfer-encoding": b"chunked"}, "1.1", 200),
        ({b"transfer-encoding": b"chunked"}, "1.0", 400),
        ({b"transfer-encoding": b"gzip, chunked"}, "1.1", 400),
        ({b"transfer-encoding": b"chunked", b"content-length": b"1"}, "1.1", 400),
        ({b"content-encoding": b"gzip"}, "1.1", 415),
        ({b"content-encoding": b"identity"}, "1.1", 200),
        ({}, "1.0", 200),
        ({}, "2.0", 400),
        ({}, "0.9", 400),
    ],
)
def test_a_body_is_plain_and_bounded(headers: dict[bytes, bytes], version: str, expected: int) -> None:
    assert status(HOST | headers, version) == expected


@each_case("method", [b"TRACE", b"CONNECT"])
def test_methods_that_only_proxies_and_attackers_need_are_refused(method: bytes) -> None:
    assert status(HOST, method=method) == 405


@each_case(
    "target",
    [
        b"http://evil/mcp",
        b"*",
        b"evil:443",
        b"//evil/mcp",
        b"/mcp#x",
        b"/mcp?a#x",
        b"/mcp/../admin",
        b"/mcp/%2e%2e/admin",
        b"/mcp/.%2E/admin",
        b"/./mcp",
        b"/mcp%00",
        b"/mcp%0d%0a",
        b"/mcp\\admin",
        b"/mcp%5cadmin",
    ],
)
def test_only_plain_paths_are_served(target: bytes) -> None:
    refusal = check_target(target)
    assert refusal is not None
    assert refusal.status == 400


@each_case("target", [b"/", b"/mcp", b"/mcp?a=/../b", b"/tools/a.b", b"/tools/a%20b", b"/.well-known/x"])
def test_plain_paths_are_served(target: bytes) -> None:
    assert check_target(target) is None


@given(st.binary(max_size=40))
def test_any_target_is_judged_and_none_that_passes_climbs(target: bytes) -> None:
    if check_target(target) is None:
        assert target.startswith(b"/")
        assert b".." not in target.partition(b"?")[0].split(b"/")


@each_case("name", [b"authorization", b"content-length", b"content-type", b"mcp-name", b"mcp-param-x"])
def test_what_decides_may_stand_only_once(name: bytes) -> None:
    assert combine(name, b"a", b"a") is None


def test_what_lists_may_stand_twice() -> None:
    assert combine(b"accept", b"a", b"b") == b"a, b"
    assert combine(b"cookie", b"a", b"b") == b"a; b"


def test_headers_are_bounded_in_number_and_size() -> None:
    bounds = HttpBounds(header_bytes=100, header_count=3)
    assert check_size({b"a": b"b"}, 0, bounds) is None
    assert check_size({b"a": b"b"}, 3, bounds) is not None
    assert check_size({b"a": b"b" * 100}, 0, bounds) is not None


@each_case(
    ("path", "expected"),
    [
        ("/mcp", True),
        ("/servers/git/mcp", True),
        ("/profiles/work/mcp", True),
        ("/mcp/", False),
        ("/servers//mcp", False),
        ("/servers/a/b/mcp", False),
        ("/tools/a/mcp", False),
        ("/", False),
    ],
)
def test_mcp_paths(path: str, expected: bool) -> None:
    assert mcp_paths(path) is expected


RAW = {
    "two hosts": (b"POST /mcp HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n", 400),
    "two credentials": (b"GET / HTTP/1.1\r\nHost: HOST\r\nAuthorization: a\r\nauthorization: b\r\n\r\n", 400),
    "folded header": (b"GET / HTTP/1.1\r\nHost: HOST\r\nA: b\r\n c\r\n\r\n", 400),
    "bare line feeds": (b"GET / HTTP/1.1\nHost: HOST\n\n", 400),
    "bare carriage return": (b"GET / HTTP/1.1\r\nHost: HOST\r\nA: b\rc\r\n\r\n", 400),
    "both lengths": (b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", 400),
    "trailers": (
        b"POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nHost: evil\r\n\r\n",
        400,
    ),
    "smuggled request": (
        b"POST /mcp HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        400,
    ),
    "absolute target": (b"GET http://HOST/mcp HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "101 headers": (
        b"GET / HTTP/1.1\r\nHost: HOST\r\n" + b"".join(b"a%d: b\r\n" % i for i in range(100)) + b"\r\n",
        431,
    ),
    "101 times one header": (b"GET / HTTP/1.1\r\nHost: HOST\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
    "a huge target in one piece": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n", 414),
    "one huge header": (b"GET / HTTP/1.1\r\nHost: HOST\r\nA: " + b"a" * 1_000_000, 431),
    "a huge header block in one piece": (b"GET / HTTP/1.1\r\nHost: HOST\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "unknown expectation": (b"POST /mcp HTTP/1.1\r\nHost: HOST\r\nExpect: cake\r\nContent-Length: 1\r\n\r\n", 417),
    "rebound host on an ASGI route": (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    "foreign page on an ASGI route": (b"GET / HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil\r\n\r\n", 403),
}


@pytest.mark.parametrize("name", RAW)
async def test_a_bad_request_gets_one_refusal_and_the_connection_closes(place: RunningEndpoint, name: str) -> None:
    raw, expected = RAW[name]
    async with place.peer() as peer:
        peer.send(raw.replace(b"HOST", place.host.encode()))
        everything = await peer.rest()
    assert everything.startswith(b"HTTP/1.1 %d " % expected)
    assert everything.count(b"HTTP/1.1 ") == 1
    assert place.service.served == 0


async def test_nothing_sent_behind_a_refusal_is_heard(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(b"GET /mcp/../x HTTP/1.1\r\nHost: %b\r\n\r\n" % place.host.encode() + modern(place.host))
        assert (await peer.rest()).count(b"HTTP/1.1 ") == 1
    assert place.service.paths == []


async def test_a_refusal_is_a_json_rpc_error_without_id(place: RunningEndpoint) -> None:
    async with place.peer() as peer:
        peer.send(b"GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        answer = await peer.answer()
    assert answer.json["error"]["data"]["name"] == "ORIGIN_REFUSED"
    assert "id" not in answer.json
