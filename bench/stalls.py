"""How long others wait while somebody sends large messages of the worst shapes.

    python bench/stalls.py [--only NAME] [--repeat 3] [--campaign SECONDS] [--json FILE]

A real hub before good servers and two hostile ones, over standard streams and HTTP. A neighbour calls a server of its
own without a pause; told is its longest wait while each attack runs, and the longest without one. The campaign goes on
with random shapes, faces and sizes (`docs/threats.md`, T38).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from interlock.cli.control.hub_link import HubLink
from payloads import VALUES
from process import free_port

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
EVERYWHERE = (
    "text", "three_byte_text", "escaped_letters", "escaped_lines", "objects", "names", "deep", "same_names",
)  # fmt: skip
"""The shapes that are put into every place."""
META_BYTES = json.dumps(META, separators=(",", ":")).encode()


class Neighbour(threading.Thread):
    """Calls a server of its own again and again, and knows how long each call took."""

    def __init__(self, port: int, key: str) -> None:
        super().__init__(daemon=True)
        self._port, self._key = port, key
        self.waits: list[float] = []
        self.stopping = False
        body = call_of(b"calm__echo", b'{"mark":"m"}')
        self._request = request_of(port, key, body, b"calm__echo")

    def run(self) -> None:
        line = socket.create_connection(("127.0.0.1", self._port))
        while not self.stopping:
            began = time.perf_counter()
            line.sendall(self._request)
            answer = line.recv(65536)
            self.waits.append(time.perf_counter() - began)
            if b'"m"' not in answer:
                print(answer[:300], file=sys.stderr)
            time.sleep(0.0005)


def call_of(name: bytes, arguments: bytes, id: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":%b,"_meta":%b}}' % (
        id,
        name,
        arguments,
        META_BYTES,
    )


def request_of(
    port: int, key: str, body: bytes, name: bytes, method: bytes = b"tools/call", path: bytes = b"/mcp"
) -> bytes:
    return (
        b"POST %b HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        b"mcp-protocol-version: 2026-07-28\r\nmcp-method: %b\r\nmcp-name: %b\r\n"
        b"content-length: %d\r\n\r\n%b" % (path, port, key.encode(), method, name, len(body), body)
    )


def answer_to(port: int, request: bytes, seconds: float = 60) -> bytes:
    """The answer to one request, or as much of it as identifies it."""
    line = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    with contextlib.suppress(OSError):
        line.sendall(request)
    answer = b""
    with contextlib.suppress(OSError), line:
        while piece := line.recv(1 << 20):
            answer += piece
            head, found, body = answer.partition(b"\r\n\r\n")
            if not found:
                continue
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if (length and len(body) >= int(length)) or body.endswith(b"0\r\n\r\n"):
                break
    return answer


class Site:
    """A hub, its servers and its faces."""

    def __init__(self, port: int, key: str, home: Path) -> None:
        self.port, self.key, self.home = port, key, home

    def post(self, body: bytes, name: bytes = b"good__echo", method: bytes = b"tools/call") -> bytes:
        return answer_to(self.port, request_of(self.port, self.key, body, name, method))

    def post_to(self, path: bytes, body: bytes) -> bytes:
        return answer_to(self.port, request_of(self.port, self.key, body, b"x", path=path))

    def stdio(self, lines: bytes, answers: int) -> bytes:
        """The answer to a client over standard streams, through the control socket."""
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(60)
        line.connect(str(self.home / "run" / "hub.sock"))
        hello = {"jsonrpc": "2.0", "id": 0, "method": "interlock/hello", "params": {"role": "stdio", "key": self.key}}
        line.sendall(json.dumps(hello).encode() + b"\n")
        line.recv(65536)
        said = b""
        with contextlib.suppress(OSError), line:
            line.sendall(lines)
            while said.count(b"\n") < answers and (piece := line.recv(1 << 20)):
                said += piece
        return said


def attacks(site: Site) -> dict[str, Callable[[], bytes]]:
    found: dict[str, Callable[[], bytes]] = {}
    for name, make in VALUES.items():
        found[f"argument {name}"] = lambda make=make: site.post(call_of(b"good__echo", b'{"mark":%b}' % make()))
        found[f"server result {name}"] = lambda name=name: site.post(
            call_of(b"bad__do", b'{"what":"result","shape":"%b"}' % name.encode()), b"bad__do"
        )
    for name in (
        "text",
        "three_byte_text",
        "escaped_letters",
        "escaped_lines",
        "objects",
        "names",
        "deep",
        "long_integer",
        "same_names",
    ):
        make = VALUES[name]
        found |= {
            f"beside {name}": lambda make=make: site.post(b'{"x":%b,%b' % (make(), call_of(b"good__echo", b"{}")[1:])),
            f"trace_id {name}": lambda make=make: site.post(
                b'{"trace_id":%b,%b' % (make(), call_of(b"good__echo", b"{}")[1:])
            ),
            f"id {name}": lambda make=make: site.post(call_of(b"good__echo", b"{}", make())),
            f"method {name}": lambda make=make: site.post(
                b'{"jsonrpc":"2.0","id":1,"method":%b,"params":{"_meta":%b}}' % (make(), META_BYTES)
            ),
            f"tool name {name}": lambda make=make: site.post(
                b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%b,"_meta":%b}}' % (make(), META_BYTES)
            ),
            f"meta {name}": lambda make=make: site.post(
                call_of(b"good__echo", b"{}").replace(b'"_meta":{', b'"_meta":{"a/b":%b,' % make())
            ),
            f"progress token {name}": lambda make=make: site.post(
                call_of(b"good__echo", b"{}").replace(b'"_meta":{', b'"_meta":{"progressToken":%b,' % make())
            ),
            f"batch {name}": lambda make=make: site.post(b"[%b]" % make()),
            f"stdio {name}": lambda make=make: site.stdio(call_of(b"good__echo", b'{"mark":%b}' % make()) + b"\n", 1),
            f"rest {name}": lambda make=make: site.post_to(b"/tools/good__echo", b'{"mark":%b}' % make()),
            f"admin {name}": lambda make=make: site.post_to(b"/admin/keys", b'{"agent":%b}' % make()),
        }
        for what in ("error", "error_data", "notification", "log", "question", "stray"):
            for server in ("bad", "web"):
                found[f"{server} {what} {name}"] = lambda name=name, what=what, server=server: site.post(
                    call_of(
                        b"%b__do" % server.encode(), b'{"what":"%b","shape":"%b"}' % (what.encode(), name.encode())
                    ),
                    b"%b__do" % server.encode(),
                )
        found[f"web result {name}"] = lambda name=name: site.post(
            call_of(b"web__do", b'{"what":"result","shape":"%b"}' % name.encode()), b"web__do"
        )
        found[f"web event {name}"] = lambda name=name: site.post(
            call_of(b"web__do", b'{"what":"event","shape":"%b"}' % name.encode()), b"web__do"
        )
    tiny = b'{"jsonrpc":"2.0","method":"notifications/x"}\n'
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    found |= {
        "stdio tiny notifications": lambda: site.stdio(tiny * 150_000 + ping, 1),
        "stdio blank lines": lambda: site.stdio(b"\n" * 8_000_000 + ping, 1),
        "stdio bad lines": lambda: site.stdio(b"x\n" * 100_000 + ping, 100_000),
        "stdio pings": lambda: site.stdio(ping * 50_000, 50_000),
        "batch of many": lambda: site.post(b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * 190_000 + b"1]"),
        "long query": lambda: answer_to(site.port, b"GET /mcp?%b HTTP/1.1\r\nhost: x\r\n\r\n" % (b"a=b&" * 15_000)),
        "many headers": lambda: answer_to(site.port, b"GET /mcp HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n"),
    }
    for server in ("bad", "web"):
        for what in ("tiny_lines", "blank_lines", "tiny_notifications", "data_lines"):
            found[f"{server} {what}"] = lambda what=what, server=server: site.post(
                call_of(b"%b__do" % server.encode(), b'{"what":"%b","shape":"text"}' % what.encode()),
                b"%b__do" % server.encode(),
            )
    return found


@contextlib.contextmanager
def running_site() -> Iterator[tuple[Site, str]]:
    with tempfile.TemporaryDirectory(prefix="ils") as folder:
        home, port = Path(folder) / "h", free_port()
        config = Path(folder) / "interlock.toml"
        good = [sys.executable, str(HERE / "stalling.py"), "good"]
        bad = [sys.executable, str(HERE / "stalling.py"), "bad"]
        config.write_text(
            '[hub]\nlisten = "127.0.0.1:0"\nanonymous = false\n'
            f'[servers.good]\ncommand = {json.dumps(good)}\nera = "modern"\n'
            f'[servers.calm]\ncommand = {json.dumps(good)}\nera = "modern"\n'
            f'[servers.bad]\ncommand = {json.dumps(bad)}\nera = "modern"\n'
            f'[servers.web]\nurl = "http://127.0.0.1:{port}/mcp"\nera = "modern"\n'
        )
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(home), "HOME": folder}
        web = subprocess.Popen([sys.executable, str(HERE / "stalling.py"), "web", str(port)])
        time.sleep(0.5)
        hub = subprocess.Popen(
            [sys.executable, "-m", "interlock.cli", "up", "--config", str(config)], env=environment,
            stdout=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        try:
            port, keys = _prepared(home)
            yield Site(port, keys[0], home), keys[1]
        finally:
            for process in (hub, web):
                process.terminate()
                process.wait()


def _prepared(home: Path) -> tuple[int, list[str]]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with HubLink.open(home) as link:
                status = link.ask("hub/status")
                if all(server["state"] == "connected" for server in status["servers"]):
                    keys = [link.ask("hub/keys.create", {"agent": f"agent{n}"})["key"] for n in range(2)]
                    return int(status["listen"].rpartition(":")[2]), keys
        except Exception:
            pass
        time.sleep(0.05)
    raise SystemExit("the hub did not come up")


def worst_wait(neighbour: Neighbour, attack: Callable[[], bytes]) -> tuple[float, bytes]:
    time.sleep(0.05)
    begun = len(neighbour.waits)
    answer = attack()
    count = len(neighbour.waits)
    while len(neighbour.waits) < count + 5:
        time.sleep(0.001)
    return max(neighbour.waits[begun:]) * 1000, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--campaign", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {}
    sys.setswitchinterval(0.0002)
    with running_site() as (site, other):
        neighbour = Neighbour(site.port, other)
        neighbour.start()
        while len(neighbour.waits) < 500:
            time.sleep(0.01)
        quiet = sorted(worst_wait(neighbour, lambda: time.sleep(0.5) or b"")[0] for _ in range(5))[2]
        print(f"{'nothing':40} {quiet:9.1f} ms", flush=True)
        for name, attack in attacks(site).items():
            if options.only not in name:
                continue
            waits = [worst_wait(neighbour, attack) for _ in range(options.repeat)]
            wait, answer = min(waits)
            report[name] = round(wait, 1)
            said = answer[answer.find(b"{") :][:70] if b"{" in answer[:1000] else answer[:70]
            print(f"{name:40} {wait:9.1f} ms  {said!r}", flush=True)
        deadline = time.monotonic() + options.campaign
        chosen = list(attacks(site).items())
        while time.monotonic() < deadline:
            name, attack = random.choice(chosen)
            wait, _ = worst_wait(neighbour, attack)
            if wait > report.get(name, 0):
                report[name] = round(wait, 1)
                print(f"campaign: {name:40} {wait:9.1f} ms", flush=True)
        neighbour.stopping = True
    if options.json:
        options.json.write_text(json.dumps({"quiet": quiet, "waits": report}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
