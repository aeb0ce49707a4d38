"""A server whose tools reach for this machine: files, addresses, programs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from interlock import Server

server = Server("peeking")


@server.tool
def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@server.tool
def connect(port: int) -> str:
    """Connect to a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), 5):
        return "connected"


@server.tool
def home() -> str:
    """The home folder."""
    return os.environ["HOME"]


if __name__ == "__main__":
    server.run()
