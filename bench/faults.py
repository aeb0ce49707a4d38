"""Faults of servers, clients and configurations, and what must hold after each of them.

    python bench/faults.py [--rounds 2] [--cycles 10] [--only F3] [--strict]

A real hub with a good server and bad ones. Each fault happens while a neighbour calls the good server; then the
invariants are checked: every request was answered in time (I9) by the right answer (I5), the audit log verifies and
every call in it has an outcome (I1, I3), and processes, descriptors and memory are where they were (I8). The script
prints a line for each fault and ends with 1 if an invariant broke. `--cycles` kills a server that often. On a quiet
machine `--strict` also holds the neighbour's p99 to twice its quiet value (I7).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from confidentiality import META, SOURCE, UPSTREAM
from interlock.cli.control.hub_link import HubLink
from process import Process, memory_mb

HOSTILE = SOURCE.parent / "tests" / "hub" / "hostile_server.py"
DEADLINE_S = 60.0
BACK_S = 60.0
"""Everything is back at its baseline within this time (I8)."""
GROWTH_MB = 40.0
"""Memory that the hub may keep of a first fault: buffers, compiled checks, the audit log's cache."""
TOOL_S = 3
SLOW_TOOLS = ("half_line", "huge_line", "no_newline", "wrong_ids", "twice", "rubbish", "flood_changes", "flood_stderr")
MODES = ("exit_at_once", "exit_after_hello", "silent", "stubborn")


class Broken(Exception):
    """An invariant does not hold."""


class Scene:
    """One running hub, its home, and how it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "h"
        self.config = folder / "interlock.toml"
        self.port = 0
        self.hub: Process
        self.asked = self.answered = 0
        (folder / "upstream.py").write_text(UPSTREAM)

    def configure(self, *bad: str, broken: str = "") -> None:
        """Write the configuration with bad servers of some modes, and `broken` behind them."""
        good = json.dumps([sys.executable, "-S", str(self.folder / "upstream.py")])
        text = f'[hub]\nlisten = "127.0.0.1:0"\n[hub.timeouts]\ntool_s = {TOOL_S}\nstart_s = 5\n'
        text += f'[servers.good]\ncommand = {good}\nera = "modern"\n'
        for mode in bad:
            command = json.dumps([sys.executable, str(HOSTILE), *([] if mode == "bad" else [mode])])
            started = json.dumps(str(self.folder / "started"))
            text += f'[servers.{mode}]\ncommand = {command}\nera = "legacy"\nenv = {{ STARTED = {started} }}\n'
            text += f"[servers.{mode}.restart]\nbackoff_base_ms = 100\nbackoff_max_ms = 100\n"
            text += "max_restarts = 1000\nwindow_s = 60\n"
        draft = self.config.with_suffix(".draft")
        draft.write_text(text + broken)
        # The hub reads the file when it changes: a file that is still empty would be a hub without servers.
        draft.replace(self.config)

    def start(self, wrap: Sequence[str] = (), **more: str) -> None:
        """Start the hub, inside another command and with more variables."""
        environment = {"INTERLOCK_HOME": str(self.home), "HOME": str(self.folder), "PYTHONPATH": str(SOURCE), **more}
        command = [*wrap, sys.executable, "-m", "interlock.cli", "up", "--config", str(self.config)]
        self.hub = Process(command, core=None, log=self.folder / "hub.log", env=environment, cwd=self.folder)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        with HubLink.open(self.home, own=True) as link:
            return link.ask(f"hub/{method}", params, timeout=DEADLINE_S)

    def states(self) -> dict[str, str]:
        return {server["id"]: server["state"] for server in self.ask("status")["servers"]}

    async def connected(self, *servers: str) -> None:
        """Wait until some servers are connected."""

        def are() -> bool:
            with contextlib.suppress(Exception):
                status = self.ask("status")
                self.port = int(status["listen"].rpartition(":")[2])
                states = {server["id"]: server["state"] for server in status["servers"]}
                return all(states.get(server) == "connected" for server in servers)
            return False

        await wait_for(are, "servers are connected")

    async def call(self, name: str, /, *, bearer: str = "", **arguments: object) -> dict[str, Any]:
        """A call on a connection of its own. An answer that does not come breaks I9."""
        params = {"name": name, "arguments": arguments, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        self.asked += 1
        try:
            async with asyncio.timeout(DEADLINE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(head(self.port, name, len(body), bearer) + body)
                response = await reader.read()
                writer.close()
        except TimeoutError:
            raise Broken(f"I9: no answer to {name} within {DEADLINE_S:g} s") from None
        except OSError as refused:
            response = repr(refused).encode()
        self.answered += 1
        for line in response.partition(b"\r\n\r\n")[2].splitlines():
            found = line.removeprefix(b"data:").strip()
            if found.startswith(b"{"):
                message: dict[str, Any] = json.loads(found)
                if message.get("id") == 1:
                    return message
        return {"error": {"message": response[:200].decode("latin-1")}}

    async def echo(self, mark: str) -> float:
        """Call the good server. Gives the milliseconds that it took."""
        began = time.perf_counter()
        answer = await self.call("good__echo", mark=mark)
        if "result" not in answer or answer["result"]["content"][0]["text"] != mark:
            raise Broken(f"I5: {mark} was answered with {str(answer)[:200]}")
        return (time.perf_counter() - began) * 1000

    def descendants(self) -> set[int]:
        """All processes below the hub that run."""
        parents: dict[int, int] = {}
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                fields = Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents[int(name)] = int(fields[1])
        below = {self.hub.pid}
        while more := {pid for pid, parent in parents.items() if parent in below} - below:
            below |= more
        return below - {self.hub.pid}

    def footprint(self) -> tuple[int, int, float]:
        """Processes, descriptors and megabytes of the hub."""
        descriptors = len(os.listdir(f"/proc/{self.hub.pid}/fd"))
        return len(self.descendants()), descriptors, memory_mb([self.hub.pid])


def shown(footprint: tuple[int, int, float]) -> str:
    processes, descriptors, memory = footprint
    return f"{processes} processes, {descriptors} descriptors, {memory:.0f} MB"


def head(port: int, name: str, length: int, bearer: str = "") -> bytes:
    authorization = f"authorization: Bearer {bearer}\r\n" if bearer else ""
    return (
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\nconnection: close\r\n"
        b"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
        b"mcp-method: tools/call\r\nmcp-name: %b\r\n%bcontent-length: %d\r\n\r\n"
        % (port, name.encode(), authorization.encode(), length)
    )


async def wait_for(condition: Callable[[], bool], what: str, within: float = 120.0) -> None:
    deadline = time.monotonic() + within
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise Broken(f"not within {within:g} s: {what}")
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def neighbour(scene: Scene, took: list[float]) -> AsyncIterator[None]:
    """Somebody calls the good server all the time."""

    over = False

    async def calls() -> None:
        number = 0
        while not over:
            number += 1
            took.append(await scene.echo(f"neighbour {number}"))
            await asyncio.sleep(0.02)

    task = asyncio.create_task(calls())
    try:
        yield
    finally:
        over = True
        await task


async def check(scene: Scene, before: tuple[int, int, float]) -> None:
    """I1, I3, I8 and I9."""
    if scene.asked != scene.answered:
        raise Broken(f"I9: {scene.asked - scene.answered} requests have no answer")

    def is_back() -> bool:
        now = scene.footprint()
        return now[0] <= before[0] and now[1] <= before[1] + 8 and now[2] <= before[2] + GROWTH_MB

    try:
        await wait_for(is_back, "", BACK_S)
    except Broken:
        raise Broken(f"I8: processes, descriptors, MB were {before} and are {scene.footprint()}") from None
    verified = scene.ask("audit.verify")
    if not verified["sound"]:
        raise Broken(f"I3: {verified['findings'][:3]}")
    unknown = scene.ask("audit.search", result="UNKNOWN")["entries"]
    if unknown:
        raise Broken(f"I1: {len(unknown)} calls have no outcome")


async def f2(scene: Scene, rounds: int) -> None:
    """SIGTERM with calls in flight and a hung server."""
    for _ in range(rounds):
        hung = [asyncio.create_task(scene.call("bad__hang")) for _ in range(5)]
        await wait_for(lambda: scene.ask("status")["calls"] >= 5, "calls are under way")
        below = scene.descendants()
        os.kill(scene.hub.pid, signal.SIGTERM)
        answers = await asyncio.gather(*hung)
        if not all("error" in answer for answer in answers):
            raise Broken(f"I9: {answers}")
        code = await asyncio.to_thread(scene.hub.popen.wait, 60)
        left = [pid for pid in below if not has_ended(pid)]
        if code or left:
            raise Broken(f"I8: exit code {code}, processes left: {left}")
        scene.start()
        await scene.connected("good", "bad")


def has_ended(pid: int) -> bool:
    """Whether a process has ended, though perhaps nobody waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def f3(scene: Scene, rounds: int) -> None:
    """Servers that exit at once, after the handshake and in mid-reply, that hang, and that will not go."""
    for _ in range(rounds):
        scene.configure("bad", *MODES)
        await asyncio.to_thread(scene.ask, "reload")
        for name in ("bad__half_line", "bad__die", "bad__hang"):
            await scene.call(name)
        await wait_for(lambda: scene.states()["exit_at_once"] in ("error", "restarting"), "it exits at once")
        for mode in MODES:
            await scene.call(f"{mode}__ok")
        scene.configure("bad")
        await asyncio.to_thread(scene.ask, "reload")
        await scene.connected("bad")


async def f4(scene: Scene, rounds: int) -> None:
    """A server that sends rubbish, half a line, 50 MB, wrong and double ids, and floods."""
    for _ in range(rounds):
        for name in SLOW_TOOLS:
            await scene.call(f"bad__{name}")
            await scene.connected("bad")


async def f5(scene: Scene, rounds: int) -> None:
    """Clients that send slowly, never read, or vanish."""
    hang = json.dumps({"name": "bad__hang", "arguments": {}, "_meta": META})
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{hang}}}'.encode()
    whole = head(scene.port, "bad__hang", len(body)) + body
    for _ in range(rounds):
        lines = [await asyncio.open_connection("127.0.0.1", scene.port) for _ in range(30)]
        for number, (_, writer) in enumerate(lines):
            writer.write((whole, whole[:40], whole[:-10])[number % 3])
        deaf = [await asyncio.open_connection("127.0.0.1", scene.port, limit=1) for _ in range(5)]
        mark = json.dumps({"name": "good__echo", "arguments": {"mark": "x" * 50_000}, "_meta": META})
        large = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{mark}}}'.encode()
        asking = head(scene.port, "good__echo", len(large)).replace(b"connection: close\r\n", b"") + large
        for _, writer in deaf:
            writer.write(asking * 40)
        await asyncio.sleep(1.0)
        for _, writer in [*lines, *deaf]:
            writer.transport.abort()


async def f13(scene: Scene, rounds: int) -> None:
    """A configuration that is bad, half written, or read by several at once; keys that are rotated meanwhile."""
    for number in range(rounds):
        scene.configure("bad", broken="\n[servers.half\ncommand = [")
        refused = await asyncio.to_thread(scene.ask, "reload")
        if refused["applied"]:
            raise Broken("I4: a configuration that cannot be read was applied")
        scene.configure("bad")
        await asyncio.gather(*(asyncio.to_thread(scene.ask, "reload") for _ in range(5)))
        agent = f"agent-{number}-{os.getpid()}"
        await asyncio.to_thread(scene.ask, "keys.create", agent=agent)
        rotated = await asyncio.gather(
            *(asyncio.to_thread(scene.ask, "keys.rotate", agent=agent) for _ in range(3)), return_exceptions=True
        )
        if not any(isinstance(each, dict) for each in rotated):
            raise Broken(f"I2: no rotation of several went through: {rotated}")
        await asyncio.to_thread(scene.ask, "keys.revoke", agent=agent)
        await scene.connected("good", "bad")


async def cycles(scene: Scene, count: int) -> None:
    """A server that is killed again and again."""
    for _ in range(count):
        await scene.connected("bad")
        status = await asyncio.to_thread(scene.ask, "status")
        [pid] = [server["pid"] for server in status["servers"] if server["id"] == "bad"]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await wait_for(lambda pid=pid: has_ended(pid), "it died")  # type: ignore[misc]
        await scene.call("bad__ok")


Faults = dict[str, Callable[[Scene, int], Awaitable[None]]]
ALONE = ("F2", "F11")
"""Faults in which a neighbour is refused, too."""
FAULTS: Faults = {"F2": f2, "F3": f3, "F4": f4, "F5": f5, "F13": f13, "cycles": cycles}


async def campaign(options: argparse.Namespace, scene: Scene, faults: Faults = FAULTS) -> bool:
    """Run the faults one after the other on one hub, and print what holds."""
    scene.configure("bad")
    (scene.folder / "started").touch()
    scene.start()
    good = True
    try:
        await scene.connected("good", "bad")
        quiet = [await scene.echo(f"quiet {number}") for number in range(200)]
        quiet_p99 = statistics.quantiles(quiet, n=100, method="inclusive")[98]
        print(f"quiet: p99 {quiet_p99:.1f} ms; {shown(scene.footprint())}", flush=True)
        for name, fault in faults.items():
            if options.only and name not in options.only:
                continue
            before, took = scene.footprint(), list[float]()
            rounds = options.cycles if name == "cycles" else options.rounds
            try:
                if name in ALONE:
                    await fault(scene, rounds)
                    before = scene.footprint() if name == "F2" else before  # that is another process
                else:
                    async with neighbour(scene, took):
                        await fault(scene, rounds)
                await check(scene, before)
                p99 = statistics.quantiles(took, n=100, method="inclusive")[98] if len(took) > 1 else 0.0
                if options.strict and p99 > 2 * quiet_p99:
                    raise Broken(f"I7: neighbours' p99 is {p99:.1f} ms, quiet it was {quiet_p99:.1f} ms")
            except Broken as broken:
                good = False
                print(f"{name}: BROKEN {broken}", flush=True)
                continue
            beside = f", neighbours' p99 {p99:.1f} ms" if p99 else ""
            print(f"{name}: holds; {shown(scene.footprint())}{beside}", flush=True)
    finally:
        scene.hub.end()
    return good


def run_faults(about: str, faults: Mapping[str, Callable[[Path, int], Awaitable[str]]], rounds: int) -> NoReturn:
    """The program of a script whose faults each make a scene of their own. Ends with 1 if an invariant broke."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", nargs="*", choices=sorted(faults), default=[])
    options = parser.parse_args()
    good = True
    for name, fault in faults.items():
        if options.only and name not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="ilx") as folder:
            try:
                print(f"{name}: {_run(fault, Path(folder), options.rounds)}", flush=True)
            except Broken as broken:
                good = False
                print(f"{name}: BROKEN {broken}", flush=True)
    sys.exit(0 if good else 1)


def _run(fault: Callable[[Path, int], Awaitable[str]], folder: Path, rounds: int) -> str:
    async def play() -> str:
        return await fault(folder, rounds)

    return asyncio.run(play())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--strict", action="store_true", help="neighbours' p99 must stay under twice its quiet value")
    parser.add_argument("--only", nargs="*", choices=sorted(FAULTS), default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ilx") as folder:
        sys.exit(0 if asyncio.run(campaign(options, Scene(Path(folder)))) else 1)


if __name__ == "__main__":
    main()
