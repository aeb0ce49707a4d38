"""Everything that is measured, each in the setup it supports: how it is started, reached and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import installed
from figures import REAL
from load import Round, WrongAnswer, http_round, list_tools, open_session, pipe_round
from process import NotRunning, Process, cpu_seconds, free_port, memory_mb
from workload import BARE, LEGACY, MIX, Era, Shot, View, lines, picks, shots, upstream_path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PICKS = 1024
"""Different calls in one round's rotation."""
REST_S = 3.0
"""How long a hub is left alone before its idle memory is read."""
SESSIONS = 4
"""Sessions that the callers of the handshake era share, at most."""


class Ground:
    """The base of all targets: the cores, a folder for their files, and the upstream."""

    def __init__(self, folder: Path, cores: tuple[int, int] | None) -> None:
        self.folder = folder
        self.hub_core: int | None = None if cores is None else cores[0]
        self.load_core: int | None = None if cores is None else cores[1]
        self.upstream_port = free_port()
        self.upstream = self.start(
            [sys.executable, str(HERE / "upstream.py"), "--port", str(self.upstream_port)], "upstream", self.load_core
        )
        self.upstream.wait_port(self.upstream_port)

    def start(self, command: Sequence[str], name: str, core: int | None, env: dict[str, str] | None = None) -> Process:
        return Process(command, core=core, log=self.folder / f"{name}.log", env=env, cwd=self.folder)

    def stdio_command(self, era: Era, tools: int, server: int = 0) -> list[str]:
        """The upstream as a program that a proxy starts: it leaves the proxy's core by itself."""
        core = [] if self.load_core is None else ["--core", str(self.load_core)]
        place = ["--era", era, "--tools", str(tools), "--server", str(server)]
        return [sys.executable, str(HERE / "upstream.py"), "--stdio", *core, *place]


class Target:
    """Something that calls go through. Made not running; `begin` starts it."""

    def __init__(self, name: str, kind: str, era: Era, view: View, setup: str, servers: int, tools: int) -> None:
        self.name = name
        self.kind = kind
        self.era: Era = era
        self.view: View = view
        self.setup = setup
        self.servers = servers
        self.tools = tools
        self.port = 0
        self.process: Process | None = None
        self.idle_mb: float | None = None
        self.problem = ""
        """Why it is not measured."""
        self.key = ""
        """The credential for a target that asks for one."""
        self._shots: list[list[Shot]] = []

    @property
    def pids(self) -> list[int]:
        """The processes whose cost counts."""
        return [] if self.process is None else [self.process.pid]

    async def begin(self, foundation: Ground) -> None:
        """Start it, and wait until it is ready for calls."""
        self.port = free_port()
        self.process = self.launch(foundation)
        await asyncio.to_thread(self.process.wait_port, self.port)
        await self.settle(foundation)

    def launch(self, foundation: Ground) -> Process:
        raise NotImplementedError

    async def settle(self, foundation: Ground) -> None:
        """Prepare the target for the first call."""
        await self.prepare_shots()
        self.note_idle()

    async def prepare_shots(self) -> None:
        chosen = picks(self.servers, self.tools, PICKS)
        if self.era == "modern":
            self._shots = [shots(chosen, BARE[self.era], self.view, self.tools, self.port, key=self.key)]
            return
        path = upstream_path("legacy", self.tools, 0) if self.view == "direct" else "/mcp"
        sessions = [await open_session(self.port, path) for _ in range(SESSIONS)]
        shape = BARE[self.era]
        self._shots = [shots(chosen, shape, self.view, self.tools, self.port, session) for session in sessions]

    def note_idle(self) -> None:
        if self.pids:
            self.idle_mb = memory_mb(self.pids)

    async def round(self, concurrency: int, seconds: float) -> Round:
        """Measure once."""
        return await http_round(self.port, self._shots, concurrency, seconds, lambda: cpu_seconds(self.pids))

    async def end(self) -> None:
        if self.process is not None:
            await asyncio.to_thread(self.process.end)


class Upstream(Target):
    """Nothing in between."""

    def __init__(self, era: Era, servers: int, tools: int) -> None:
        super().__init__("upstream alone", "floor", era, "direct", "the load speaks with the upstream", servers, tools)

    async def begin(self, foundation: Ground) -> None:
        self.port, self.process = foundation.upstream_port, foundation.upstream
        await self.prepare_shots()

    async def end(self) -> None:
        pass  # the ground's own


class Relay(Target):
    """The floor of anything written in Python."""

    def __init__(self, era: Era, servers: int, tools: int, kept: int = 0) -> None:
        super().__init__("byte relay", "floor", era, "direct", "copies bytes, looks at nothing", servers, tools)
        self.kept = kept

    def launch(self, foundation: Ground) -> Process:
        script = [sys.executable, str(HERE / "relay.py"), "--port", str(self.port), "--kept", str(self.kept)]
        return foundation.start([*script, "--upstream", str(foundation.upstream_port)], "relay", foundation.hub_core)


class Nginx(Target):
    """The yardstick of CPU per call."""

    def __init__(self, era: Era, servers: int, tools: int) -> None:
        super().__init__("nginx", "yardstick", era, "direct", "plain proxy with kept connections", servers, tools)

    def launch(self, foundation: Ground) -> Process:
        program = installed.nginx()
        folder = foundation.folder / f"nginx-{self.era}"
        folder.mkdir()
        conf = folder / "nginx.conf"
        conf.write_text(_NGINX.format(folder=folder, port=self.port, upstream=foundation.upstream_port))
        command = [program, "-p", str(folder), "-c", str(conf), "-e", "stderr"]
        return foundation.start(command, f"nginx-{self.era}", foundation.hub_core)


class Interlock(Target):
    """The hub: with HTTP servers behind it, or with programs that it starts."""

    def __init__(self, era: Era, servers: int, tools: int, behind: Literal["http", "stdio"] = "http") -> None:
        setup = f"{servers} servers behind it over {'HTTP' if behind == 'http' else 'standard streams'}"
        super().__init__(f"Interlock over {behind}", "ours", era, "hub", setup, servers, tools)
        self.behind = behind
        self.home = Path()
        self.ready_s = 0.0

    def launch(self, foundation: Ground) -> Process:
        self.home = foundation.folder / f"hub-{self.port}"
        self.home.mkdir()
        return self._run(foundation)

    def _run(self, foundation: Ground) -> Process:
        config = self.home / "bench.toml"
        config.write_text(self._config(foundation))
        command = [sys.executable, "-m", "interlock.cli", "up", "--json", "--config", str(config)]
        return foundation.start(command, f"interlock-{self.port}", foundation.hub_core, self.env)

    @property
    def env(self) -> dict[str, str]:
        return {"INTERLOCK_HOME": str(self.home), "PYTHONPATH": str(ROOT / "src")}

    async def settle(self, foundation: Ground) -> None:
        began = time.monotonic()
        session = await open_session(self.port) if self.era == "legacy" else ""
        listed = -1
        while listed < self.servers * self.tools:
            if time.monotonic() - began > 120:
                raise NotRunning(f"{listed} of {self.servers * self.tools} tools were listed after 120 s")
            with contextlib.suppress(WrongAnswer):  # it listens before its keys are there
                listed = await list_tools(self.port, self.era, session, self.key)
            await asyncio.sleep(0.05)
        self.ready_s = time.monotonic() - began
        await self.prepare_shots()
        await asyncio.sleep(REST_S)
        self.note_idle()

    def _config(self, foundation: Ground) -> str:
        parts = [f'[hub]\nbudget = 100_000_000\nlisten = "127.0.0.1:{self.port}"\n']
        for server in range(self.servers):
            parts.append(f'[servers.s{server}]\nera = "{self.era}"\n')
            if self.behind == "http":
                path = upstream_path(self.era, self.tools, server)
                parts.append(f'url = "http://127.0.0.1:{foundation.upstream_port}{path}"\n')
            else:
                command = foundation.stdio_command(self.era, self.tools, server)
                parts.append(f"command = [{', '.join(map(_quoted, command))}]\n")
        return "".join(parts)


class Single(Interlock):
    """The hub before one server over standard streams, in sessions: just as the other proxies stand."""

    def __init__(self, tools: int) -> None:
        super().__init__("legacy", 1, tools, "stdio")
        self.name = "Interlock, one server"


class Governed(Interlock):
    """The hub as a platform runs it: no call without a key and a grant, each recorded; `strict` before it is sent."""

    def __init__(self, servers: int, tools: int, audit: Literal["batched", "strict"], others: int = 0) -> None:
        super().__init__("modern", servers, tools)
        self.name = f"governed, {audit}" + (f", {others:,} others" if others else "")
        self.setup = f"a key and {servers} grants are asked for, and the record is {audit}"
        self.audit = audit
        self.others = others

    def launch(self, foundation: Ground) -> Process:
        self.home = foundation.folder / f"hub-{self.port}"
        self.home.mkdir()
        prepare = [sys.executable, str(HERE / "governed.py"), str(self.home), "--servers", str(self.servers)]
        env = {**os.environ, **self.env}
        made = subprocess.run([*prepare, "--others", str(self.others)], env=env, capture_output=True, text=True)
        if made.returncode:
            raise NotRunning(made.stderr[-500:])
        self.key = made.stdout.strip()
        return self._run(foundation)

    def _config(self, foundation: Ground) -> str:
        more = f'[hub]\nanonymous = false\naccess = "opt-in"\naudit = "{self.audit}"\n'
        return super()._config(foundation).replace("[hub]\n", more, 1)


class InterlockClient(Target):
    """`interlock stdio` as a client starts it, in front of a hub that runs already."""

    def __init__(self, hub: Interlock) -> None:
        setup = "one `interlock stdio` in front of the hub, many calls under way on it"
        super().__init__("interlock stdio", "ours", hub.era, "hub", setup, hub.servers, hub.tools)
        self.hub = hub
        self.client: asyncio.subprocess.Process | None = None
        self._lines: list[Shot] = []

    @property
    def pids(self) -> list[int]:
        return [*self.hub.pids, *([] if self.client is None else [self.client.pid])]

    async def begin(self, foundation: Ground) -> None:
        from process import pin

        if self.hub.problem or not self.hub.pids:
            raise NotRunning("its hub is not running")
        self.client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "interlock.cli", "stdio"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self.hub.env},
            cwd=foundation.folder,
            preexec_fn=lambda: pin(foundation.hub_core),
        )
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        if self.era == "legacy":
            hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%b",' % LEGACY.encode()
            self.client.stdin.write(hello + b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n')
            greeted = await asyncio.wait_for(self.client.stdout.readline(), 30)
            if b'"result"' not in greeted:
                raise NotRunning(f"initialize was answered {greeted[:300]!r}")
            self.client.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self._lines = lines(picks(self.servers, self.tools, PICKS), BARE[self.era])
        self.idle_mb = memory_mb([self.client.pid])

    async def round(self, concurrency: int, seconds: float) -> Round:
        assert self.client is not None
        return await pipe_round(self.client, self._lines, concurrency, seconds, lambda: cpu_seconds(self.pids))

    async def end(self) -> None:
        if self.client is not None and self.client.stdin is not None:
            self.client.stdin.close()
            await self.client.wait()


class RealClients(Target):
    """Another target, called as coding agents and agent libraries call: each caller writes in one of their ways."""

    def __init__(self, of: Target) -> None:
        super().__init__(of.name + REAL, of.kind, of.era, of.view, "called as real clients do", of.servers, of.tools)
        self.of = of

    @property
    def pids(self) -> list[int]:
        return self.of.pids

    async def begin(self, foundation: Ground) -> None:
        if self.of.problem or not self.of.pids:
            raise NotRunning("what it calls is not running")
        self.port = self.of.port
        path = upstream_path("legacy", self.tools, 0) if self.view == "direct" else "/mcp"
        chosen = picks(self.servers, self.tools, PICKS)
        for shape in MIX[self.era]:
            session = await open_session(self.port, path, shape) if self.era == "legacy" else ""
            self._shots.append(shots(chosen, shape, self.view, self.tools, self.port, session))

    async def end(self) -> None:
        pass  # the other's own


class Rival(Target):
    """Another proxy, in an environment of its own."""

    def __init__(
        self, name: str, kind: str, setup: str, tools: int, command: Callable[[Ground, int, int], list[str]]
    ) -> None:
        super().__init__(name, kind, "legacy", "single", setup, 1, tools)
        self._command = command

    def launch(self, foundation: Ground) -> Process:
        name = self.name.replace(" ", "-").replace("'", "")
        return foundation.start(self._command(foundation, self.port, self.tools), name, foundation.hub_core)

    async def settle(self, foundation: Ground) -> None:
        session = await open_session(self.port)
        listed = await list_tools(self.port, "legacy", session)
        if listed != self.tools:
            raise WrongAnswer(f"{listed} tools were listed, not {self.tools}")
        await super().settle(foundation)


def rivals(tools: int) -> list[Target]:
    """The other proxies. Each stands before one server: that is what it is for."""

    def mcp_proxy(foundation: Ground, port: int, tools: int) -> list[str]:
        program = installed.program("mcp-proxy", "bin/mcp-proxy")
        return [program, "--port", str(port), "--log-level", "ERROR", "--", *foundation.stdio_command("legacy", tools)]

    def fastmcp_stdio(foundation: Ground, port: int, tools: int) -> list[str]:
        python = installed.program("fastmcp", "bin/python")
        return [python, str(HERE / "fastmcp_proxy.py"), str(port), *foundation.stdio_command("legacy", tools)]

    def fastmcp_http(foundation: Ground, port: int, tools: int) -> list[str]:
        python = installed.program("fastmcp", "bin/python")
        url = f"http://127.0.0.1:{foundation.upstream_port}{upstream_path('legacy', tools, 0)}"
        return [python, str(HERE / "fastmcp_proxy.py"), str(port), url]

    def npm_mcp_proxy(foundation: Ground, port: int, tools: int) -> list[str]:
        script = installed.program("npm-mcp-proxy", "node_modules/.bin/mcp-proxy")
        start = [installed.node(), script, "--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--"]
        return [*start, *foundation.stdio_command("legacy", tools)]

    def supergateway(foundation: Ground, port: int, tools: int) -> list[str]:
        script = installed.program("npm-supergateway", "node_modules/.bin/supergateway")
        start = [installed.node(), script, "--port", str(port), "--outputTransport", "streamableHttp", "--stateful"]
        return [*start, "--logLevel", "none", "--stdio", " ".join(foundation.stdio_command("legacy", tools))]

    one = "one server over standard streams, sessions"
    return [
        Rival("PyPI mcp-proxy", "python", one, tools, mcp_proxy),
        Rival("FastMCP proxy (stdio)", "python", one, tools, fastmcp_stdio),
        Rival("FastMCP proxy (HTTP)", "python", "one server over HTTP, sessions", tools, fastmcp_http),
        Rival("npm mcp-proxy", "node", one, tools, npm_mcp_proxy),
        Rival("supergateway", "node", one + ", a process for each", tools, supergateway),
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_NGINX = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 100000000;
  upstream bench {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }}
  }}
}}
"""
