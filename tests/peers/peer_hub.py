"""Where the peers meet: the hub's address, and how the official SDK's client reaches it."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
from mcp import Client, StdioServerParameters, types

import forking
from conformance.subjects import SOURCE, free_port, listens
from interlock.cli.control.hub_link import HubLink
from interlock.cli.terminal.failures import CommandFailure

HERE = Path(__file__).resolve().parent
Mode = Literal["legacy", "auto"]
Transport = Literal["http", "stdio"]


class PeerHub(msgspec.Struct, frozen=True):
    """A hub that runs, and the folders its servers write to."""

    url: str
    home: Path
    files: Path
    memory: Path

    listens = staticmethod(listens)

    @contextlib.asynccontextmanager
    async def client(
        self, transport: Transport, mode: Mode, server: str | None = None, **callbacks: Any
    ) -> AsyncIterator[Client]:
        """The official client, on one server's view or on everything."""
        # The SDK calls what 2026-07-28 deprecates deprecated, and half of these tests are about that.
        warnings.simplefilter("ignore")
        view = f"/servers/{server}/mcp" if server else "/mcp"
        peer: str | StdioServerParameters = self.url + view
        if transport == "stdio":
            peer = stdio(self.home, *(("--server", server) if server else ()))
        async with Client(peer, mode=mode, read_timeout_seconds=120, **callbacks) as client:
            yield client

    def all_connected(self) -> bool:
        """Whether every server is there. One that failed at first is tried again by the hub."""
        with contextlib.suppress(CommandFailure), HubLink.open(self.home) as link:
            return all(server["state"] == "connected" for server in link.ask("hub/status")["servers"])
        return False

    async def interlock(self, *arguments: str) -> str:
        """The output of a command."""
        command = forking.command("-m", "interlock.cli", *arguments)
        said = await anyio.run_process(command, env=variables(self.home))
        return said.stdout.decode()


def stdio(home: Path, *arguments: str, **environment: str) -> StdioServerParameters:
    """`interlock stdio`, as a client's configuration would start it."""
    program, *words = forking.command("-m", "interlock.cli", "stdio", *arguments)
    return StdioServerParameters(command=program, args=words, env={**variables(home), **environment})


def variables(home: Path) -> dict[str, str]:
    """The environment of a process that belongs to this hub."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(home)}


def write_config(path: Path, port: int, servers: Mapping[str, Mapping[str, object]]) -> Path:
    """An `interlock.toml`. JSON's strings and lists are TOML's too."""
    lines = [f'[hub]\nlisten = "127.0.0.1:{port}"']
    for name, settings in servers.items():
        lines.append(f"[servers.{name}]")
        for key, value in settings.items():
            if isinstance(value, dict):
                inner = ", ".join(f"{name} = {json.dumps(said)}" for name, said in value.items())
                lines.append(f"{key} = {{ {inner} }}")
            else:
                lines.append(f"{key} = {json.dumps(value)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    return [free_port() for _ in range(count)]


def text_of(answer: types.CallToolResult) -> str:
    """A result's first text."""
    assert not answer.is_error, answer
    assert isinstance(answer.content[0], types.TextContent)
    return answer.content[0].text
