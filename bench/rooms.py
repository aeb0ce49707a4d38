"""The cost of a room: deliveries per second and core, and memory per idle participant, beside a plain broadcast.

    python bench/rooms.py [--listeners 100 1000] [--idle 10000] [--reconnect 1000] [--picows] [--json FILE] [--strict]

One sender, many listeners, an envelope of 230 bytes. The hub checks capabilities, ids and proposals; the floor
(`rooms_floor.py`) checks nothing. Both run at once and take turns, and the figures are medians over the turns:
deliveries by the processor time of the server. For memory, `--idle` participants join topics of a hundred each, and
stay silent. Then `--reconnect` participants, in topics of a hundred too, lose their connections and connect at once:
how long until the last of them has its welcome. The same in one topic has no bar: everyone there is told of everyone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import selectors
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from process import Process, cores, cpu_seconds, free_port, memory_mb, pin

HERE = Path(__file__).parent
TURNS = 5
DELIVERIES = 60_000
AHEAD = 8
"""Envelopes that are under way at a time."""
PONG = b"\x8a\x80\0\0\0\0"
"""A listener that says so much before each turn is not asked whether it is there: pings would be counted."""
BAR_RATIO = 0.6
BAR_KB = 24.0
BAR_RECONNECT_S = 5.0
HUB = """
[hub]
listen = "127.0.0.1:{port}"
"""
BUSY = """
[rooms.topics.busy{number}]
visibility = "public"
profile = "full-access"
participants = 10000
[rooms.topics.busy{number}.rate]
per_hour = 1000000000
"""
IDLE = """
[rooms.topics.idle{number}]
visibility = "public"
[rooms.topics.idle{number}.rate]
per_hour = 1000000000
"""
IN_TOPIC = 100
BUSY_TOPICS = range(8)


class Server:
    """The measured process, which broadcasts."""

    def __init__(self, name: str, folder: Path, core: int | None) -> None:
        self.name = name
        self.port = free_port()
        command = [sys.executable, str(HERE / "rooms_floor.py"), name, str(self.port)]
        env = {}
        if name == "interlock":
            config = folder / "rooms.toml"
            topics = [*(BUSY.format(number=number) for number in BUSY_TOPICS), *map(_idle_topic, range(200))]
            config.write_text(HUB.format(port=self.port) + "".join(topics))
            command = [sys.executable, "-m", "interlock.cli", "up", "--json", "--config", str(config)]
            env = {"INTERLOCK_HOME": str(folder / "hub"), "PYTHONPATH": str(HERE.parent / "src")}
        self.process = Process(command, core=core, log=folder / f"{name}.log", env=env, cwd=folder)
        self.process.wait_port(self.port)

    @property
    def pids(self) -> list[int]:
        return [self.process.pid]

    def handshake(self, topic: str) -> bytes:
        """The request that opens a participant's connection."""
        return (
            b"GET /ws?topic=%b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            % (topic.encode(), self.port)
        )

    def connect(self, topic: str) -> tuple[socket.socket, bytes]:
        """A participant, and what came behind its handshake."""
        for _ in range(200):
            peer = socket.create_connection(("127.0.0.1", self.port))
            peer.sendall(self.handshake(topic))
            data = b""
            with contextlib.suppress(ConnectionResetError):
                while b"\r\n\r\n" not in data and (piece := peer.recv(65_536)):
                    data += piece
            if b" 101 " in data[:20]:
                return peer, data.partition(b"\r\n\r\n")[2]
            peer.close()
            time.sleep(0.05)  # it listens before it has started
        raise SystemExit(f"{self.name} takes no participants: {data[:200]!r} {self.process.last_words()}")


class Round:
    """One sender and its listeners at one server."""

    def __init__(self, server: Server, listeners: int, topic: str) -> None:
        self.server = server
        self.sender, rest = server.connect(topic)
        self.name = self._name(rest)
        self.peers = []
        self.selector = selectors.DefaultSelector()
        for _ in range(listeners):
            peer, _rest = server.connect(topic)
            peer.setblocking(False)
            self.peers.append(peer)
            self.selector.register(peer, selectors.EVENT_READ)
        self.sender.setblocking(False)
        self.number = 0
        self.quiet()

    def _name(self, rest: bytes) -> str:
        """The id that the hub gave the sender, from its welcome."""
        if self.server.name != "interlock":
            return "guest-0123456789abcdef"
        while b'"you":{"id":"' not in rest or len(rest) < 200:
            rest += self.sender.recv(65_536)
        return rest.partition(b'"you":{"id":"')[2].partition(b'"')[0].decode()

    def quiet(self) -> None:
        """Read until nothing more comes: welcomes and presence."""
        while True:
            ready = self.selector.select(1.0)
            if not ready:
                break
            for key, _ in ready:
                _read(key.fileobj)
        while _read(self.sender):
            pass

    def turn(self, deliveries: int) -> float:
        """Deliveries per second of the server's processor time."""
        count = max(20, deliveries // len(self.peers))
        size = len(self.frame()) - 4  # without the mask
        wanted, got, sent = count * len(self.peers) * size, 0, 0
        for peer in self.peers:
            peer.send(PONG)
        self.quiet()
        began = cpu_seconds(self.server.pids)
        self.sender.setblocking(True)
        while got < wanted:
            while sent < count and sent * len(self.peers) * size - got < AHEAD * len(self.peers) * size:
                self.sender.sendall(self.frame())
                sent += 1
            for key, _ in self.selector.select(10):
                got += _read(key.fileobj)
        self.sender.setblocking(False)
        assert got <= wanted * 1.01, "every listener gets every envelope, and hardly anything else"
        return count * len(self.peers) / (cpu_seconds(self.server.pids) - began)

    def frame(self) -> bytes:
        self.number += 1
        envelope = {
            "protocol": "mcpx/v0.1",
            "id": f"{self.number:036}",
            "from": self.name,
            "kind": "chat",
            "payload": {"text": "x" * 80, "format": "plain"},
        }
        data = json.dumps(envelope).encode()
        return b"\x81" + bytes([0x80 | 126]) + struct.pack("!H", len(data)) + b"\0\0\0\0" + data

    def close(self) -> None:
        for peer in (self.sender, *self.peers):
            peer.close()


def _read(peer: object) -> int:
    assert isinstance(peer, socket.socket)
    try:
        return len(peer.recv(1 << 18))
    except BlockingIOError:
        return 0


def measure(servers: list[Server], listeners: int, topic: str) -> dict[str, float]:
    rounds = [Round(server, listeners, topic) for server in servers]
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    for round_ in rounds:
        round_.turn(DELIVERIES // 4)  # not counted
    for _ in range(TURNS):
        for round_ in rounds:
            found[round_.server.name].append(round_.turn(DELIVERIES))
    for round_ in rounds:
        round_.close()
    return {name: median(all_) for name, all_ in found.items()}


def idle_kb(server: Server, count: int) -> float:
    """Memory of one silent participant, in KB."""
    kept = [_joined(server, number) for number in range(200)]  # not counted: everything is made once
    time.sleep(2)
    before = memory_mb(server.pids)
    more = [_joined(server, 200 + number) for number in range(count)]
    time.sleep(2)
    grown = memory_mb(server.pids) - before
    for peer in (*kept, *more):
        peer.close()
    return grown * 1e3 / count


def reconnect_s(server: Server, topics: list[str]) -> float:
    """How long it takes until a participant of each of these topics, whose connection just ended, is welcome again."""
    for peer in [server.connect(topic)[0] for topic in topics]:
        peer.close()
    began = time.monotonic()
    selector, waiting = selectors.DefaultSelector(), {}
    for topic in topics:
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(("127.0.0.1", server.port))
        selector.register(peer, selectors.EVENT_WRITE, server.handshake(topic))
        waiting[peer] = b""
    joined: list[socket.socket] = []
    while waiting:
        for key, event in selector.select(60):
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            if event & selectors.EVENT_WRITE:
                peer.sendall(key.data)
                selector.modify(peer, selectors.EVENT_READ)
                continue
            try:
                data = peer.recv(1 << 18)
            except BlockingIOError:
                continue
            if not data:
                raise SystemExit(f"a participant was refused: {waiting.get(peer, b'')[:300]!r}")
            if peer in waiting:
                waiting[peer] += data
                if b"system/welcome" in waiting[peer]:
                    del waiting[peer]
                    joined.append(peer)
    took = time.monotonic() - began
    for peer in joined:
        peer.close()
    return took


def _idle_topic(number: int) -> str:
    return IDLE.format(number=number)


def _joined(server: Server, number: int) -> socket.socket:
    return server.connect(f"idle{number // IN_TOPIC}")[0]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listeners", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--reconnect", type=int, default=1000)
    parser.add_argument("--picows", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    pair = cores()
    pin(None if pair is None else pair[1])
    names = ["websockets", "interlock", *(["picows"] if given.picows else [])]
    results: dict[str, object] = {"cores": os.cpu_count()}
    good = True
    with tempfile.TemporaryDirectory() as folder:
        servers = [Server(name, Path(folder), None if pair is None else pair[0]) for name in names]
        try:
            for number, listeners in zip(BUSY_TOPICS, given.listeners, strict=False):
                found = measure(servers, listeners, f"busy{number}")
                floor = max(figure for name, figure in found.items() if name != "interlock")
                ratio = found["interlock"] / floor
                good = good and ratio >= BAR_RATIO
                results[str(listeners)] = {**found, "ratio": ratio}
                for name, figure in found.items():
                    print(f"{listeners:>6} listeners {name:<12}{figure:>12,.0f} deliveries per core and second")
                print(f"{listeners:>6} listeners {_verdict(ratio >= BAR_RATIO)} {ratio:.2f} of the floor", flush=True)
            for server in servers:
                kb = idle_kb(server, given.idle)
                results[f"{server.name}_kb"] = kb
                print(f"{given.idle:>6} idle      {server.name:<12}{kb:>12.1f} KB each", flush=True)
                if server.name == "interlock":
                    good = good and kb <= BAR_KB
                    print(f"{given.idle:>6} idle      {_verdict(kb <= BAR_KB)} at most {BAR_KB:.0f} KB", flush=True)
                    spread = [f"idle{number // IN_TOPIC}" for number in range(given.reconnect)]
                    began = cpu_seconds(server.pids)
                    took = results["reconnect_s"] = reconnect_s(server, spread)
                    spent = results["reconnect_cpu_s"] = cpu_seconds(server.pids) - began
                    good = good and took <= BAR_RECONNECT_S
                    verdict = _verdict(took <= BAR_RECONNECT_S)
                    print(f"{given.reconnect:>6} reconnect {verdict} within {took:.2f} s", flush=True)
                    print(f"{given.reconnect:>6} join twice and leave once in {spent:.2f} s of a core", flush=True)
                    took = results["reconnect_in_one_topic_s"] = reconnect_s(
                        server, [f"busy{BUSY_TOPICS[-1]}"] * given.reconnect
                    )
                    print(f"{given.reconnect:>6} reconnect in one topic within {took:.2f} s", flush=True)
        finally:
            for server in servers:
                server.process.end()
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    return 0 if good or not given.strict else 1


def _verdict(good: bool) -> str:
    return "PASS" if good else "FAIL"


if __name__ == "__main__":
    sys.exit(main())
