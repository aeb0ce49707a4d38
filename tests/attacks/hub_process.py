"""A hub as a process of its own, its memory, and raw requests to it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance.subjects import free_port
from waiting import block_until

SOURCE = Path(__file__).parents[2] / "src"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class HubProcess:
    """A running hub."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def head(self, method: str, path: str, length: int | None, *more: str) -> bytes:
        """A request's head; chunked where there is no length."""
        framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        said = ("accept: application/json, text/event-stream", "content-type: application/json", framing, *more)
        lines = (f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{self.port}", *said, "", "")
        return "\r\n".join(lines).encode()

    def answer(self, data: bytes) -> bytes:
        """The beginning of what is answered to these bytes on a connection of their own."""
        with self.connect() as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            with contextlib.suppress(ConnectionError):
                return sock.recv(65_536)
        return b""

    def small_call(self) -> bytes:
        """The answer to a small request that comes in two pieces, as most clients send it."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}).encode()
        with self.connect() as sock:
            modern = ("mcp-protocol-version: 2026-07-28", "mcp-method: tools/list")
            sock.sendall(self.head("POST", "/mcp", len(body), *modern))
            sock.sendall(body)
            return sock.recv(65_536)

    def falls_to(self, most_mb: float, within_s: float = 120.0) -> bool:
        """Whether memory comes down to this. Waits for it: closed connections are noticed a moment later."""
        with contextlib.suppress(AssertionError):
            return block_until(lambda: self.resident_mb <= most_mb, within_s)
        return False


@contextlib.contextmanager
def hub_process(*, anonymous: bool) -> Iterator[HubProcess]:
    """A hub without servers, on a free port."""
    port = free_port()
    home = Path(tempfile.mkdtemp(prefix="il-a-"))  # a socket's path is short
    config = home / "hub.toml"
    config.write_text(f'[hub]\nlisten = "127.0.0.1:{port}"\nanonymous = {str(anonymous).lower()}\n')
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "interlock.cli", "up", "--json", "--config", str(config)],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "INTERLOCK_HOME": str(home), "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home,
    )
    try:
        hub = HubProcess(process.pid, port)
        _wait_for(process, hub)
        yield hub
    finally:
        process.terminate()
        process.wait(120)
        shutil.rmtree(home, ignore_errors=True)


def _wait_for(process: subprocess.Popen[bytes], hub: HubProcess) -> None:
    def ready() -> bool:
        assert process.poll() is None, "the hub did not start"
        with contextlib.suppress(OSError):
            # A hub that listens and is still starting refuses keyless callers already, so only `/readyz` tells.
            return hub.answer(hub.head("GET", "/readyz", 0)).startswith(b"HTTP/1.1 200 ")
        return False

    block_until(ready)
