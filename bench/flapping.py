"""Servers that exit as soon as they run: how much longer calls to the other servers take meanwhile.

    python bench/flapping.py [--flapping 200] [--good 20] [--seconds 10] [--kind silent] [--backoff-ms 1000] [--strict]

A real hub. Calls go to good servers in turn at an even pace: first while nothing else happens, then while the flapping
servers are added and restart again and again, then quietly once more. The script prints the p50 and p99 of each phase,
the ratio of the p99s, and how many processes the hub started. With `--strict` it ends with 1 if a p99 doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confidentiality import META, SOURCE, UPSTREAM
from interlock.cli.control.hub_link import HubLink
from process import Process, cores, cpu_seconds, free_port

PACE_S = 0.01
"""Between two calls of one caller."""
CALLERS = 4
OVER_STREAMS = 10
"""So many of the good servers are processes of the hub; the others are addresses of one process."""
FLAP_S = 0.2

KINDS = {
    "silent": ["/bin/sh", "-c", f"echo x >> $STARTS; exec sleep {FLAP_S}"],
    "connecting": [sys.executable, "-S", "-E", "{folder}/connecting.py"],
    "missing": ["/nonexistent/program"],
}
CONNECTING = f"""
import os, threading
open(os.environ["STARTS"], "a").write("x\\n")
threading.Timer({FLAP_S}, os._exit, (1,)).start()
"""


def configuration(options: argparse.Namespace, folder: Path, port: int, *, flapping: bool) -> str:
    """The hub's configuration with the good servers, and the flapping ones where they are wanted."""
    lines = ['[hub]\nlisten = "127.0.0.1:0"\n']
    good = [sys.executable, "-S", str(folder / "upstream.py")]
    for number in range(options.good):
        reached = f"command = {json.dumps(good)}" if number < OVER_STREAMS else f'url = "http://127.0.0.1:{port}/mcp"'
        lines.append(f'[servers.g{number}]\n{reached}\nera = "modern"\n')
    command = json.dumps([part.format(folder=folder) for part in KINDS[options.kind]])
    lines += [
        f"[servers.f{number}]\ncommand = {command}\n"
        f"env = {{ STARTS = {json.dumps(str(folder / 'starts'))} }}\n"
        f"[servers.f{number}.restart]\nbackoff_base_ms = {options.backoff_ms}\nmax_restarts = 1000\n"
        for number in range(options.flapping if flapping else 0)
    ]
    return "".join(lines)


class Line:
    """One keep-alive connection of one caller, who calls the good servers in turn."""

    def __init__(self, port: int, servers: int, first: int) -> None:
        self._port, self._servers, self._turn = port, servers, first

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def call(self) -> None:
        self._turn += 1
        name = f"g{self._turn % self._servers}__echo"
        mark = str(self._turn)
        params = {"name": name, "arguments": {"mark": mark}, "_meta": META}
        request = {"jsonrpc": "2.0", "id": self._turn, "method": "tools/call", "params": params}
        body = json.dumps(request, separators=(",", ":")).encode()
        self._writer.write(
            b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
            b"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
            b"mcp-method: tools/call\r\nmcp-name: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (self._port, name.encode(), len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = json.loads(await self._reader.readexactly(length))
        if "result" not in answer:
            raise RuntimeError(f"a call to {name} was refused: {answer['error']}")
        assert answer["result"]["content"][0]["text"] == mark, answer

    async def paced(self, until: float, took: list[float]) -> None:
        """Note how long each call took, in milliseconds."""
        while time.perf_counter() < until:
            began = time.perf_counter()
            await self.call()
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(PACE_S)


class Phase:
    """How calls fared for some seconds."""

    def __init__(self, took: list[float], hub_cpu: float, seconds: float) -> None:
        self.p99 = statistics.quantiles(took, n=100)[98]
        self.p50 = statistics.median(took)
        self.report = {
            "calls": len(took),
            "p50_ms": round(self.p50, 2),
            "p99_ms": round(self.p99, 2),
            "most_ms": round(max(took), 2),
            "hub_cpu": round(hub_cpu / seconds, 2),
        }


async def phase(lines: list[Line], hub: int, seconds: float) -> Phase:
    """Call for so long."""
    took: list[float] = []
    cpu, began = cpu_seconds([hub]), time.perf_counter()
    await asyncio.gather(*(line.paced(began + seconds, took) for line in lines))
    return Phase(took, cpu_seconds([hub]) - cpu, time.perf_counter() - began)


def connected(home: Path, servers: int) -> int:
    """Wait until the good servers are connected. Gives the hub's port."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception), HubLink.open(home) as link:
            status = link.ask("hub/status")
            if sum(server["state"] == "connected" for server in status["servers"]) >= servers:
                return int(status["listen"].rpartition(":")[2])
        time.sleep(0.2)
    raise SystemExit("the hub did not come up")


def ask(home: Path, method: str) -> object:
    with HubLink.open(home) as link:
        return link.ask(method)


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    home, config, starts = folder / "h", folder / "interlock.toml", folder / "starts"
    (folder / "upstream.py").write_text(UPSTREAM)
    (folder / "connecting.py").write_text(CONNECTING + UPSTREAM)
    starts.touch()
    pair = cores()
    web_port = free_port()
    config.write_text(configuration(options, folder, web_port, flapping=False))
    environment = {"INTERLOCK_HOME": str(home), "HOME": str(folder), "PYTHONPATH": str(SOURCE)}
    web = Process(
        [sys.executable, "-S", str(folder / "upstream.py"), str(web_port)],
        core=None, log=folder / "web.log", cwd=folder,
    )  # fmt: skip
    web.wait_port(web_port)
    hub = Process(
        [sys.executable, *options.run, "up", "--config", str(config)],
        core=None, log=folder / "hub.log", env=environment, cwd=folder,
    )  # fmt: skip
    try:
        port = await asyncio.to_thread(connected, home, options.good)
        lines = [Line(port, options.good, first * 7) for first in range(CALLERS)]
        for line in lines:
            await line.open()
        await phase(lines, hub.pid, 1 + options.good / 200)
        quiet = await phase(lines, hub.pid, options.seconds)
        config.write_text(configuration(options, folder, web_port, flapping=True))
        reloading = asyncio.create_task(asyncio.to_thread(ask, home, "hub/reload"))
        flapping = await phase(lines, hub.pid, options.seconds)
        began = len(starts.read_text().split())
        await reloading
        later = await phase(lines, hub.pid, options.seconds)
        started = len(starts.read_text().split())
        config.write_text(configuration(options, folder, web_port, flapping=False))
        await asyncio.to_thread(ask, home, "hub/reload")
        again = await phase(lines, hub.pid, options.seconds)
    finally:
        hub.end()
        web.end()
        if options.log:
            print((folder / "hub.log").read_text(), file=sys.stderr)
    floor = max(quiet.p99, again.p99)
    return {
        "good": options.good,
        "flapping": options.flapping,
        "kind": options.kind,
        "cores": None if pair is None else len(os.sched_getaffinity(0)),
        "quiet": quiet.report,
        "starting": flapping.report | {"starts_per_s": round(began / options.seconds, 1)},
        "restarting": later.report | {"starts_per_s": round((started - began) / options.seconds, 1)},
        "quiet_again": again.report,
        "p99_ratio_starting": round(flapping.p99 / floor, 2),
        "p99_ratio_restarting": round(later.p99 / floor, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flapping", type=int, default=200)
    parser.add_argument("--good", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kind", choices=sorted(KINDS), default="silent")
    parser.add_argument("--backoff-ms", type=int, default=1000)
    parser.add_argument("--strict", action="store_true", help="the p99 must stay under twice its quiet value")
    parser.add_argument("--log", action="store_true", help="print what the hub wrote")
    parser.add_argument("--run", nargs="+", default=["-m", "interlock.cli"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ilf") as folder:
        found = asyncio.run(measure(options, Path(folder)))
    print(json.dumps(found, indent=1))
    if options.strict and not all(found[name] < 2 for name in ("p99_ratio_starting", "p99_ratio_restarting")):
        sys.exit(1)


if __name__ == "__main__":
    main()
