"""The relay of `interlock stdio`: lines that come together travel together, and every request has one answer."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from interlock.cli.clients.stdio_relay import HubDialer, Relay
from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import Failure, NoHub

MANY = 2_000


class OneHub:
    """A hub that is there once."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock: socket.socket | None = sock

    def connect(self, *, start: bool) -> HubLink:
        if self._sock is None:
            raise Failure("no hub can be started") if start else NoHub("no hub runs")
        return cast(HubLink, self)

    def detach(self) -> tuple[socket.socket, bytes]:
        assert self._sock is not None
        sock, self._sock = self._sock, None
        return sock, b""


class Client:
    """A client that runs the relay."""

    def __init__(self) -> None:
        relay_end, self.hub = socket.socketpair()
        # The hub goes while part of what came together is sent.
        relay_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        source, self._input = os.pipe()
        self._output, sink = os.pipe()
        relay = Relay(cast(HubDialer, OneHub(relay_end)), source, sink)
        self._descriptors = [source, self._output, sink]
        self._thread = threading.Thread(target=relay.run)
        self._thread.start()

    def send(self, data: bytes) -> None:
        """Send from a thread, since the hub may not read all of it."""

        def write() -> None:
            view = memoryview(data)
            while view:
                view = view[os.write(self._input, view) :]
            os.close(self._input)

        threading.Thread(target=write).start()

    def answers(self, count: int) -> list[dict[str, object]]:
        """So many lines of the relay."""
        read = b""
        while read.count(b"\n") < count:
            chunk = os.read(self._output, 65_536)
            assert chunk, "the relay ended"
            read += chunk
        return [json.loads(line) for line in read.splitlines()]

    def end(self) -> None:
        self.hub.close()
        self._thread.join()
        for descriptor in self._descriptors:
            os.close(descriptor)


@contextmanager
def client() -> Iterator[Client]:
    made = Client()
    try:
        yield made
    finally:
        made.end()


def _call(id: int) -> bytes:
    request = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "pay", "arguments": {}}}
    return json.dumps(request).encode() + b"\n"


def test_lines_that_come_together_reach_the_hub_and_the_client_in_their_order() -> None:
    with client() as peer:
        peer.send(b"".join(map(_call, range(MANY))))
        lines, rest, pieces = [], b"", 0
        while len(lines) < MANY:
            *complete, rest = (rest + peer.hub.recv(1 << 20)).split(b"\n")
            lines += complete
            pieces += 1
        assert [json.loads(line)["id"] for line in lines] == list(range(MANY))
        # A write for each line would wake the hub 2,000 times.
        assert pieces < MANY // 5
        peer.hub.sendall(b"".join(b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % id_ for id_ in range(MANY)))
        assert [answer["id"] for answer in peer.answers(MANY)] == list(range(MANY))


def test_a_hub_that_goes_amid_many_lines_leaves_no_request_unanswered_and_none_twice() -> None:
    with client() as peer:
        peer.send(b"".join(map(_call, range(MANY))))
        received = b""
        while received.count(b"\n") < 50:
            received += peer.hub.recv(4_096)
        reached = received.count(b"\n")
        peer.hub.close()
        answers = peer.answers(MANY)
    assert sorted(cast(int, answer["id"]) for answer in answers) == list(range(MANY))
    for answer in answers:
        error = cast(dict[str, dict[str, object]], answer["error"])
        # The hub may have carried out what reached it: the client must not be told to repeat it.
        if cast(int, answer["id"]) < reached:
            assert error["data"]["name"] == "OUTCOME_UNKNOWN", answer
    names = {cast(dict[str, dict[str, object]], answer["error"])["data"]["name"] for answer in answers}
    assert names <= {"OUTCOME_UNKNOWN", "SERVER_DISCONNECTED"}
