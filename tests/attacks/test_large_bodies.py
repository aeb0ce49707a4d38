"""Ten megabytes at a time, from whoever may call and whoever may not: the hub's memory stays what it was."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from .hub_process import META, HubProcess, hub_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

SIZE = 10_000_000
TIMES = 36
MAX_MB = 20.0
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
LARGE = json.dumps({**CALL, "params": {"name": "x", "arguments": {"text": "x" * SIZE}, "_meta": META}}).encode()
MODERN = ("mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: x")
CHUNKED = b"".join(
    b"%x\r\n%b\r\n" % (len(LARGE[at : at + 65_536]), LARGE[at : at + 65_536]) for at in range(0, SIZE, 65_536)
)


@pytest.fixture(scope="module")
def open_hub() -> Iterator[HubProcess]:
    """Callers without a key are admitted."""
    with hub_process(anonymous=True) as hub:
        yield hub


@pytest.fixture(scope="module")
def closed_hub() -> Iterator[HubProcess]:
    """A key is needed."""
    with hub_process(anonymous=False) as hub:
        yield hub


def valid(hub: HubProcess) -> bytes:
    return hub.answer(hub.head("POST", "/mcp", len(LARGE), *MODERN) + LARGE)


def wrong_json(hub: HubProcess) -> bytes:
    return hub.answer(hub.head("POST", "/mcp", SIZE) + b"x" * SIZE)


def chunked(hub: HubProcess) -> bytes:
    return hub.answer(hub.head("POST", "/mcp", None, *MODERN) + CHUNKED + b"0\r\n\r\n")


def cut(hub: HubProcess) -> bytes:
    with hub.connect() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(hub.head("POST", "/mcp", len(LARGE), *MODERN) + LARGE[: SIZE // 2])
    return b""


def rest(hub: HubProcess) -> bytes:
    return hub.answer(hub.head("POST", "/tools/x", SIZE) + b'{"text":"' + b"x" * (SIZE - 11) + b'"}')


def rest_cut(hub: HubProcess) -> bytes:
    with hub.connect() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(hub.head("POST", "/tools/x", SIZE) + b"x" * (SIZE // 2))
    return b""


WAYS: list[Callable[[HubProcess], bytes]] = [valid, wrong_json, chunked, cut, rest, rest_cut]


@pytest.mark.parametrize("way", WAYS)
def test_t37_large_requests_leave_nothing_in_a_hub_that_admits_anyone(
    open_hub: HubProcess, way: Callable[[HubProcess], bytes]
) -> None:
    open_hub.answer(open_hub.head("POST", "/tools/x", 2) + b"{}")  # imports what only REST needs
    way(open_hub)  # starts the threads that read large bodies
    before = open_hub.resident_mb
    for _ in range(TIMES // 3 if way in (cut, rest_cut, wrong_json) else TIMES // 6):
        way(open_hub)
    assert open_hub.falls_to(before + MAX_MB), (before, open_hub.resident_mb)


@pytest.mark.parametrize("path", ["/mcp", "/servers/x/mcp", "/messages/x", "/tools/x", "/admin/why"])
@pytest.mark.parametrize("key", ["", "authorization: Bearer ilk_wrong", "authorization: Basic eDp5"])
def test_t37_whoever_brings_no_good_key_is_refused_before_the_body_is_read(
    closed_hub: HubProcess, path: str, key: str
) -> None:
    said = (key,) if key else ()
    for length in (SIZE, None, 30):
        with closed_hub.connect() as sock:
            # Not a byte of the body is sent: the answer does not wait for it.
            sock.sendall(closed_hub.head("POST", path, length, *said))
            assert sock.recv(65_536).startswith(b"HTTP/1.1 401 "), (path, length)


def test_t37_memory_stays_while_keyless_callers_send_what_nobody_reads(closed_hub: HubProcess) -> None:
    valid(closed_hub), rest(closed_hub)
    before = most = closed_hub.resident_mb
    for way in (valid, chunked, cut, rest, rest_cut):
        for _ in range(TIMES // 5):
            way(closed_hub)
            most = max(most, closed_hub.resident_mb)
    assert most < before + MAX_MB
    assert closed_hub.small_call().startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("method", "path", "line", "status"),
    [
        ("POST", "/mcp", "host: evil.example", 400),
        ("POST", "/mcp", "origin: https://evil.example", 403),
        ("POST", "/nothing/mcp/", "", 404),
        ("GET", "/mcp", "", 413),
        ("DELETE", "/mcp", "", 413),
    ],
)
def test_t37_what_the_head_tells_is_refused_by_the_head(
    open_hub: HubProcess, method: str, path: str, line: str, status: int
) -> None:
    with open_hub.connect() as sock:
        sock.sendall(open_hub.head(method, path, SIZE, *((line,) if line else ())))
        assert sock.recv(65_536).startswith(b"HTTP/1.1 %d " % status)


def test_t37_a_type_that_is_not_read_is_refused_by_the_head(open_hub: HubProcess) -> None:
    head = open_hub.head("POST", "/mcp", SIZE).replace(b"application/json\r\ncontent-l", b"text/plain\r\ncontent-l")
    with open_hub.connect() as sock:
        sock.sendall(head)
        assert sock.recv(65_536).startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize("path", ["/mcp", "/tools/x"])
def test_t37_large_bodies_on_their_way_are_bounded_and_small_ones_are_served_meanwhile(
    open_hub: HubProcess, path: str
) -> None:
    before = open_hub.resident_mb
    with contextlib.ExitStack() as stack:
        senders = [stack.enter_context(open_hub.connect()) for _ in range(12)]
        for sock in senders:
            with contextlib.suppress(ConnectionError):
                sock.sendall(open_hub.head("POST", path, SIZE) + b"x" * (SIZE - 1))
        refused = 0
        for sock in senders:
            sock.setblocking(False)
        deadline = time.monotonic() + 120
        while not refused and time.monotonic() < deadline:
            for sock in senders:
                with contextlib.suppress(OSError):
                    answer = sock.recv(65_536)
                    refused += answer.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in answer
        assert refused
        assert open_hub.small_call().startswith(b"HTTP/1.1 200 ")
        assert open_hub.resident_mb - before < 160
    assert open_hub.falls_to(before + MAX_MB)
    assert valid(open_hub).startswith(b"HTTP/1.1 ")


def test_t37_slow_small_bodies_give_way_to_those_that_come_at_once(open_hub: HubProcess) -> None:
    before = open_hub.resident_mb
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            sock = stack.enter_context(open_hub.connect())
            sock.sendall(open_hub.head("POST", "/mcp", 65_000) + b"x" * 64_000)
        first_answers = open_hub.small_call()
        assert first_answers.startswith(b"HTTP/1.1 200 ")
        assert open_hub.resident_mb - before < 48


def test_t37_large_messages_that_wait_on_a_stream_of_the_older_transport_are_bounded(open_hub: HubProcess) -> None:
    valid(open_hub)  # starts the threads that read large bodies
    before = most = open_hub.resident_mb
    statuses: list[bytes] = []
    with open_hub.connect() as stream, contextlib.ExitStack() as stack:
        stream.sendall(open_hub.head("GET", "/sse", 0))
        said = b""
        while b"data: /messages/" not in said or not said.endswith(b"\n\r\n"):
            said += stream.recv(65_536)
        path = said.partition(b"data: ")[2].split()[0].decode()
        senders = [stack.enter_context(open_hub.connect()) for _ in range(40)]
        for sock in senders:
            with contextlib.suppress(ConnectionError):
                sock.sendall(open_hub.head("POST", path, len(LARGE)) + LARGE)
            most = max(most, open_hub.resident_mb)
        for sock in senders:
            with contextlib.suppress(ConnectionError):
                statuses.append(sock.recv(65_536)[9:12])
            most = max(most, open_hub.resident_mb)
        assert b"202" in statuses
        # A refused client that does not read the refusal in time is cut off.
        assert set(statuses) <= {b"202", b"503", b""}
        assert most - before < 200, (before, most)
    assert open_hub.falls_to(before + MAX_MB), (before, open_hub.resident_mb)
    assert open_hub.small_call().startswith(b"HTTP/1.1 200 ")
