"""The relay of `interlock stdio`: lines that come together travel together, and every request has one answer."""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, cast

import pytest

from interlock.cli.clients import stdio_relay
from interlock.cli.clients.relayed_lines import MAX_LINE_BYTES
from interlock.cli.clients.stdio_relay import HubDialer, Relay
from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import CommandFailure, NoHub

MANY = 2_000


class OneHub:
    """A hub that is there once."""

    hello: ClassVar[dict[str, object]] = {}
    """The hub's answer to the relay's first message."""

    def __init__(self, sock: socket.socket | None) -> None:
        self._sock = sock

    def connect(self, *, start: bool) -> HubLink:
        if self._sock is None:
            raise CommandFailure("no hub can be started") if start else NoHub("no hub runs")
        return cast(HubLink, self)

    def detach(self) -> tuple[socket.socket, bytes]:
        assert self._sock is not None
        sock, self._sock = self._sock, None
        return sock, b""


class NextHub(OneHub):
    """A hub after which the operator starts another, slowly."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.started: list[bool] = []
        """Whether the relay was ready to start a hub, for each time that it looked for one."""
        self.looked_again = threading.Event()
        self.next, self._next = socket.socketpair()

    def connect(self, *, start: bool) -> HubLink:
        self.started.append(start)
        if len(self.started) > 1:
            self.looked_again.set()
        if self._sock is None and len(self.started) == 5:
            self._sock = self._next
        return super().connect(start=start)


class Client:
    """A client that runs the relay."""

    def __init__(self, dialer: type[OneHub] = OneHub) -> None:
        relay_end, self.hub = socket.socketpair()
        # The hub goes while part of what came together is sent.
        relay_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        source, self._input = os.pipe()
        self._output, sink = os.pipe()
        self.dialer = dialer(relay_end)
        relay = Relay(cast(HubDialer, self.dialer), source, sink)
        self._source = source
        self._descriptors = [source, self._output, sink]
        self._thread = threading.Thread(target=relay.run)
        self._thread.start()

    def send(self, data: bytes, *, leave: bool = True) -> None:
        """Send from a thread, since the hub may not read all of it."""

        def write() -> None:
            view = memoryview(data)
            while view:
                view = view[os.write(self._input, view) :]
            if leave:
                os.close(self._input)

        threading.Thread(target=write).start()

    def send_slowly(self, data: bytes) -> None:
        """Send byte by byte, each when the relay has read the one before."""
        for place in range(len(data)):
            os.write(self._input, data[place : place + 1])
            while select.select([self._source], [], [], 0)[0]:
                pass

    def leave(self) -> None:
        os.close(self._input)

    def answers(self, count: int) -> list[dict[str, object]]:
        """So many lines of the relay."""
        read, lines = bytearray(), 0
        while lines < count:
            chunk = os.read(self._output, 65_536)
            assert chunk, "the relay ended"
            read += chunk
            lines += chunk.count(b"\n")
        return [json.loads(line) for line in read.splitlines()]

    def end(self) -> None:
        self.hub.close()
        self._thread.join()
        for descriptor in self._descriptors:
            os.close(descriptor)


@contextmanager
def client(dialer: type[OneHub] = OneHub) -> Iterator[Client]:
    made = Client(dialer)
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


def test_the_operator_may_start_the_next_hub_before_the_relay_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_relay, "OPERATOR_FIRST_S", 10**6)
    monkeypatch.setattr(stdio_relay, "LOOK_EVERY_S", 0.001)
    with client(NextHub) as made:
        dialer = cast(NextHub, made.dialer)
        made.hub.close()
        # A message that comes before the relay knows of the loss is answered with an error.
        dialer.looked_again.wait()
        made.send(_call(1))
        with dialer.next.makefile("rb") as read:
            assert read.readline() == _call(1)
        assert dialer.started == [True, False, False, False, False]
        dialer.next.close()


def test_requests_in_long_lines_and_in_batches_are_answered_when_the_hub_goes() -> None:
    request = json.loads(_call(1))
    long = {**request, "params": {**request["params"], "arguments": {"text": "x" * 3_000}}}
    batch = [{**request, "id": 2}, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {**request, "id": 3}]
    with client() as peer:
        # A read for each byte: a line is long by its bytes, and not by the reads it came in.
        peer.send_slowly(json.dumps(long).encode() + b"\n" + json.dumps(batch).encode() + b"\n")
        with peer.hub.makefile("rb") as read:
            assert json.loads(read.readline()) == long
            assert json.loads(read.readline()) == batch
        peer.hub.sendall(b'[{"jsonrpc":"2.0","id":3,"result":{}}]\n')
        peer.hub.shutdown(socket.SHUT_RDWR)
        answered, *failed = peer.answers(3)
        peer.leave()
    assert [cast(dict[str, object], each)["id"] for each in cast(list[object], answered)] == [3]
    names = {each["id"]: cast(dict[str, dict[str, object]], each["error"])["data"]["name"] for each in failed}
    assert names == {1: "OUTCOME_UNKNOWN", 2: "OUTCOME_UNKNOWN"}


class HubOfLongMessages(OneHub):
    """A hub whose limit is above the length from which the relay passes lines on unread."""

    hello: ClassVar[dict[str, object]] = {"message_bytes": MAX_LINE_BYTES}


def test_a_line_that_the_hub_takes_is_read_however_long_it_is() -> None:
    request = json.loads(_call(1))
    long = {**request, "params": {**request["params"], "arguments": {"text": "x" * MAX_LINE_BYTES}}}
    with client(HubOfLongMessages) as peer:
        peer.send(json.dumps(long).encode() + b"\n" + _call(2), leave=False)
        with peer.hub.makefile("rb") as read:
            assert len(read.readline()) > MAX_LINE_BYTES
            assert read.readline() == _call(2)
        result = json.dumps({"jsonrpc": "2.0", "id": 2, "result": "y" * MAX_LINE_BYTES}).encode() + b"\n"

        def answer_and_go() -> None:
            peer.hub.sendall(result)
            peer.hub.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=answer_and_go).start()
        answered, failed = peer.answers(2)
        peer.leave()
    assert answered["id"] == 2
    assert failed["id"] == 1, "neither is left unanswered, and none is answered twice"
    assert cast(dict[str, dict[str, object]], failed["error"])["data"]["name"] == "OUTCOME_UNKNOWN"


class ClosingHub(OneHub):
    """A hub that is gone after its first connection. Started, it closes the next at once; started again, it runs."""

    def __init__(self, first: socket.socket, third: socket.socket) -> None:
        super().__init__(first)
        second, other = socket.socketpair()
        other.close()
        self._started = [second, third]

    def connect(self, *, start: bool) -> HubLink:
        if self._sock is None:
            if not start:
                raise NoHub("no hub runs")
            self._sock = self._started.pop(0)
        return cast(HubLink, self)


def test_a_hub_that_closes_at_once_does_not_keep_the_next_from_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.cli.clients.stdio_relay.OPERATOR_FIRST_S", 0.0)
    (first, hub), (third, started) = socket.socketpair(), socket.socketpair()
    source, client_input = os.pipe()
    output, sink = os.pipe()
    relay = Relay(cast(HubDialer, ClosingHub(first, third)), source, sink)
    thread = threading.Thread(target=relay.run)
    thread.start()
    os.write(client_input, b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    assert hub.recv(65_536)
    hub.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    assert os.read(output, 65_536)
    hub.close()
    # The relay may not have seen the end: then it answers, and the client asks again, until it has.
    for number in itertools.count(2):
        os.write(client_input, b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % number)
        if select.select([output, started], [], [], 60)[0] == [started]:
            break
        assert b"SERVER_DISCONNECTED" in os.read(output, 65_536)
    received = b""
    while b"tools/list" not in received:
        chunk = started.recv(65_536)
        assert chunk
        received += chunk
    os.close(client_input)
    started.close()
    thread.join()
    for descriptor in (source, output, sink):
        os.close(descriptor)
