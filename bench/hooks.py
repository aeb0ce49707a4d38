"""How much later a turn ends because of ten servers with hooks, besides the time of the slowest hook.

    python bench/hooks.py [--turns 60] [--strict]

A hub with a scripted model has one core; ten servers over HTTP, in one process, share the other. Turns of three agents
take turns in the same hub: `ten` has all hooks on, `one` that of the slowest server, `none` has none. Each hook says
how long it took, by its own clock, and the prompt has that, so a hook that did not count would be seen. *Added* is
the time of a turn, less its slowest hook, less the median of the turns without hooks; the handling of the messages in
the servers is in it. `spread`: the hooks take 5 to 50 ms. `together`: all take 20 ms, and all answers arrive at once.
Beside the time on the wall stands the processor time of the hub and of the servers, since neighbours on the machine
count in the first. `--strict` ends with 1 if ten servers add 5 ms or more at p50.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from interlock.config.model_settings import ModelSettings
from interlock.config.settings import AgentSettings, Config
from interlock.config.settings import ServerSettings as Settings
from interlock.host import Host
from interlock.hub.admin.agents import principal_of
from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.process.garbage_collection import hold_collector_back
from interlock.server import BeforeInference, Server
from process import cores, pin

SERVERS = 10
BAR_MS = 5.0
HOOK_S = {"spread": lambda number: 0.005 * (number + 1), "together": lambda number: 0.020}
"""How long the hook of each server takes."""
AGENTS = {"ten": SERVERS, "one": 1, "none": 0}
"""How many servers take part in the turns of each agent."""
TOOK = re.compile(r"took ([0-9.]+) ms")


def hooked(number: int) -> Server:
    """A server with one hook, which says how long it took."""
    server = Server(f"s{number}")
    server.feature("bench.recall", "Recalls", uses=["contextHooks.beforeInference"])

    @server.before_inference("bench.recall")
    async def recall(turn: BeforeInference) -> list[str]:
        began = time.perf_counter()
        await asyncio.sleep(HOOK_S[turn.user_message or ""](number))
        return [f"took {(time.perf_counter() - began) * 1000:.3f} ms"]

    return server


async def serve() -> None:
    """Run the servers until standard input ends, and print their addresses."""
    async with contextlib.AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(hooked(number).http())).url for number in range(SERVERS)]
        print(json.dumps(urls), flush=True)
        await asyncio.to_thread(sys.stdin.read)


@contextlib.asynccontextmanager
async def running(folder: Path, urls: list[str]) -> AsyncIterator[tuple[HubApp, Host]]:
    """A hub in which each agent has the hooks of so many servers on, the slowest first."""
    script = folder / "script.json"
    script.write_text(json.dumps([{"text": "Done."}]))
    config = Config(
        servers={f"s{number}": Settings(url=url) for number, url in enumerate(urls)},
        agents={agent: AgentSettings() for agent in AGENTS},
        models={"toy": ModelSettings(kind="scripted", script=str(script))},
    )
    async with contextlib.AsyncExitStack() as stack:
        hub = HubApp(config, folder)
        await hub.start()
        hold_collector_back()  # as `interlock up` does
        stack.push_async_callback(hub.stop)
        host = Host(hub)
        await host.start()
        stack.push_async_callback(host.close)
        operations = Operations(hub, lambda: None, host=host)
        async with asyncio.timeout(60):
            for number, name in enumerate(config.servers):
                while hub.live.connections.shared(name) is None:
                    await asyncio.sleep(0.01)
                for agent in (agent for agent, count in AGENTS.items() if number >= SERVERS - count):
                    wanted = {"server": name, "features": ["bench.*"], "agent": agent, "terminal": True}
                    await operations.perform(operations.hub_user, "features.enable", msgspec.json.encode(wanted))
        yield hub, host


class Turns:
    """Turns of one kind: the time of each on the wall, of its slowest hook and of the processor, in milliseconds."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.slowest: list[float] = []
        self.processor: list[float] = []

    async def run(self, hub: HubApp, host: Host, agent: str, text: str) -> None:
        """Run one turn, in a conversation of its own."""
        conversation = await host.create(principal_of(hub, agent))
        used, began = time.process_time(), time.perf_counter()
        await (await host.send(conversation, text)).answer()
        self.wall.append((time.perf_counter() - began) * 1000)
        self.processor.append((time.process_time() - used) * 1000)
        (turn,) = (await host.show(conversation.id)).turns
        took = [float(found) for said in turn.said for found in TOOK.findall(said.text)]
        assert len(took) == AGENTS[agent], turn
        self.slowest.append(max(took, default=0.0))


async def measure(urls: list[str], pid: int, turns: int) -> list[float]:
    """Print a row for each kind of hooks and each agent. Returns the medians of the time that ten servers add."""
    print(f"{turns} turns of each kind; milliseconds at p50, added also at p10 and p95")
    print("hooks    servers  slowest hook   turn   added    p10    p95   processor time: hub, servers of all agents")
    added = []
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), urls) as (hub, host):
            for kind in HOOK_S:
                await Turns().run(hub, host, "ten", kind)
                kinds = {agent: Turns() for agent in AGENTS}
                used = processor_ms(pid)
                for _ in range(turns):
                    for agent, found in kinds.items():
                        await found.run(hub, host, agent, kind)
                theirs = (processor_ms(pid) - used) / turns
                plain = statistics.median(kinds["none"].wall)
                added += [row(kind, agent, found, plain, theirs) for agent, found in kinds.items()][:1]
    return added


def row(kind: str, agent: str, turns: Turns, plain: float, theirs: float) -> float:
    """Print one row, and return the median of the added time."""
    added = [wall - slowest - plain for wall, slowest in zip(turns.wall, turns.slowest, strict=True)]
    middle, cuts = statistics.median(added), statistics.quantiles(added, n=20)
    early, late = cuts[1], cuts[-1]
    print(
        f"{kind:9} {agent:6} {statistics.median(turns.slowest):13.1f} {statistics.median(turns.wall):6.1f}"
        f" {middle:7.1f} {early:6.1f} {late:6.1f} {statistics.median(turns.processor):20.1f} {theirs:8.1f}"
    )
    return middle


def processor_ms(pid: int) -> float:
    """The processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1000


def main() -> None:
    """Start the servers, and measure a hub before them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    mine, theirs = cores() or (None, None)
    command = [sys.executable, str(Path(__file__).resolve()), "--server", str(theirs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
        assert servers.stdin is not None
        assert servers.stdout is not None
        try:
            pin(mine)
            added = asyncio.run(measure(json.loads(servers.stdout.readline()), servers.pid, arguments.turns))
        finally:
            servers.stdin.close()
    print(f"load {os.getloadavg()[0]:.1f}; the bar is {BAR_MS:g} ms at p50")
    if arguments.strict and max(added) >= BAR_MS:
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--server"]:
        pin(None if sys.argv[2] == "None" else int(sys.argv[2]))
        asyncio.run(serve())
    else:
        main()
