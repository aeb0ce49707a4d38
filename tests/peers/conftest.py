"""One hub with every peer behind it, as a process of its own, for all tests that a worker runs here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

import forking
from conformance.packages import command, install
from conformance.subjects import is_ready, running, wait_until

from .peer_hub import HERE, PeerHub, free_ports, write_config


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def peer_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerHub]:
    """The hub, with the official SDK's server in both eras over both transports, and npm's servers."""
    install()
    folder = tmp_path_factory.mktemp("peers")
    files = folder / "files"
    files.mkdir()
    hub_port, sdk_port = free_ports(2)
    sdk = forking.command(str(HERE / "sdk_peer.py"))
    servers: dict[str, dict[str, object]] = {
        "everything": {"command": command("server-everything")},
        "filesystem": {"command": command("server-filesystem", str(files))},
        "memory": {"command": command("server-memory"), "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}},
    }
    for era in ("legacy", "modern"):
        servers[f"sdk-stdio-{era}"] = {"command": sdk, "era": era}
        servers[f"sdk-http-{era}"] = {"url": f"http://127.0.0.1:{sdk_port}/mcp", "era": era}
    config = write_config(folder / "interlock.toml", hub_port, servers)
    peer_hub = PeerHub(f"http://127.0.0.1:{hub_port}", folder / "home", files, folder / "memory.jsonl")
    hub = [sys.executable, "-m", "interlock.cli", "up", "--config", str(config), "--json"]
    with running([*sdk, "--port", str(sdk_port)], {}) as process:
        wait_until(lambda: peer_hub.listens(sdk_port), process, "the SDK's server")
        with running(hub, {"INTERLOCK_HOME": str(peer_hub.home), "PATH": os.environ["PATH"]}) as process:
            wait_until(lambda: is_ready(hub_port), process, "the hub")
            wait_until(peer_hub.all_connected, process, "every server behind the hub")
            yield peer_hub
