"""`interlock stdio` where no hub runs yet: a client's first contact starts it, and it stays for the next."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import anyio
import pytest
from mcp import Client

from .peer_hub import HERE, free_ports, stdio, text_of, variables, write_config

pytestmark = pytest.mark.slow


async def test_two_clients_share_the_hub_that_the_first_of_them_started(tmp_path: Path) -> None:
    warnings.simplefilter("ignore")
    (port,) = free_ports(1)
    home = tmp_path / "home"
    peer = {"command": [sys.executable, str(HERE / "sdk_peer.py")]}
    config = write_config(tmp_path / "interlock.toml", port, {"peer": peer})
    interlock = stdio(home, INTERLOCK_CONFIG=str(config))
    try:
        async with Client(interlock, mode="legacy") as first, Client(interlock, mode="auto") as second:
            with anyio.fail_after(120):
                while not (await first.list_tools(cache_mode="bypass")).tools:
                    await anyio.sleep(0.05)
            assert text_of(await first.call_tool("peer__add", {"a": 1, "b": 2})) == "3"
            assert text_of(await second.call_tool("peer__add", {"a": 2, "b": 2})) == "4"
    finally:
        down = [sys.executable, "-m", "interlock.cli", "down"]
        await anyio.run_process(down, env=variables(home))
    assert not (home / "run" / "hub.json").exists()
