"""Faults of the machine: its clock, its size, and what it runs out of.

    python bench/machine_faults.py [--rounds 1] [--connections 1000] [--tools 2000] [--stopped 3] [--only F9]

The hub, the neighbour and the invariants are those of `faults.py`. F9 moves the clock of the hub by an hour in both
directions, where there is a C compiler, and stops the process. F10 opens idle connections and adds a server with very
many tools. F11 takes descriptors, memory, processes and threads from the hub, and the processor from everyone. Limits
of processes do not bind the superuser, who becomes another user for it. It needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confidentiality import UPSTREAM
from faults import Broken, Faults, Scene, campaign, neighbour, wait_for

HOUR_S = 3600
SPARE_DESCRIPTORS = 4
SPARE_BYTES = 48 << 20
NOBODY = 65534
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *shift;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    void *seen = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (seen != MAP_FAILED) shift = seen;
    close(file);
}
int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *shift;
    return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec, at->tv_usec = now.tv_nsec / 1000;
    return failed;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class MachineScene(Scene):
    """A hub with a clock that can be moved, where this machine can build one."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        super().__init__(folder)
        self.options = options
        self.shift: mmap.mmap | None = None
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            return
        (folder / "clock.c").write_text(CLOCK)
        (folder / "shift").write_bytes(bytes(mmap.PAGESIZE))
        command = [compiler, "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c")]
        if subprocess.run(command, check=False).returncode == 0:
            with open(folder / "shift", "r+b") as file:
                self.shift = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def start(self, wrap: Sequence[str] = (), **more: str) -> None:
        if self.shift is not None:
            more |= {"LD_PRELOAD": str(self.folder / "clock.so"), "CLOCK_SHIFT": str(self.folder / "shift")}
        super().start(wrap, **more)

    def move_clock(self, seconds: int) -> None:
        """Set the hub's clock so far from the true time."""
        assert self.shift is not None
        self.shift[:8] = struct.pack("l", seconds)


def was_called(answer: dict[str, Any]) -> bool:
    return "result" in answer and not answer["result"].get("isError")


async def f9(scene: Scene, rounds: int) -> None:
    """The clock an hour forward and back; the process stopped for a while."""
    assert isinstance(scene, MachineScene)
    for number in range(rounds):
        if scene.shift is not None:
            await clock(scene, number)
        pids = {server["id"]: server.get("pid") for server in scene.ask("status")["servers"]}
        os.kill(scene.hub.pid, signal.SIGSTOP)
        calls = [asyncio.create_task(scene.call("good__echo", mark="stopped")) for _ in range(20)]
        await asyncio.sleep(scene.options.stopped)
        os.kill(scene.hub.pid, signal.SIGCONT)
        if not all(map(was_called, await asyncio.gather(*calls))):
            raise Broken("I9: calls failed because the process was stopped")
        if pids != {server["id"]: server.get("pid") for server in scene.ask("status")["servers"]}:
            raise Broken("I7: servers were restarted because the process was stopped")


async def clock(scene: MachineScene, number: int) -> None:
    """A key that expires in half an hour, and one that was revoked, at four times."""
    soon = (datetime.now(UTC) + timedelta(seconds=HOUR_S / 2)).isoformat()
    short = scene.ask("keys.create", agent=f"short-{number}", expires_at=soon)["key"]
    gone = scene.ask("keys.create", agent=f"gone-{number}")["key"]
    scene.ask("keys.revoke", agent=f"gone-{number}")
    for shift, valid in ((0, True), (HOUR_S, False), (0, True), (-HOUR_S, True), (0, True)):
        scene.move_clock(shift)
        if was_called(await scene.call("good__echo", bearer=short, mark="short")) != valid:
            raise Broken(f"I4: at {shift:+} s a key that expires in half an hour is {'refused' if valid else 'good'}")
        if was_called(await scene.call("good__echo", bearer=gone, mark="gone")):
            raise Broken(f"I4: at {shift:+} s a revoked key is good")
        await scene.echo(f"at {shift:+} s")
    scene.ask("keys.revoke", agent=f"short-{number}")


async def f10(scene: Scene, rounds: int) -> None:
    """Very many idle connections, and a server with very many tools."""
    assert isinstance(scene, MachineScene)
    count, tools = scene.options.connections, scene.options.tools
    many = f'tools": [{{"name": "tool_" + str(n), "inputSchema": SCHEMA}} for n in range({tools})]'
    (scene.folder / "many.py").write_text(UPSTREAM.replace('tools": [{"name": "echo", "inputSchema": SCHEMA}]', many))
    command = json.dumps([sys.executable, "-S", str(scene.folder / "many.py")])
    for _ in range(rounds):
        idle = [await asyncio.open_connection("127.0.0.1", scene.port) for _ in range(count)]
        scene.configure("bad", broken=f'[servers.many]\ncommand = {command}\nera = "modern"\n')
        await asyncio.to_thread(scene.ask, "reload")
        await scene.connected("many")
        listed = await asyncio.to_thread(scene.ask, "tools", server="many")
        if len(listed["tools"]) != tools:
            raise Broken(f"{len(listed['tools'])} of {tools} tools are listed")
        if not was_called(await scene.call(f"many__tool_{tools - 1}", mark="last")):
            raise Broken("the last of very many tools cannot be called")
        for _, writer in idle:
            writer.transport.abort()
        scene.configure("bad")
        await asyncio.to_thread(scene.ask, "reload")


async def f11(scene: Scene, rounds: int) -> None:
    """Out of descriptors, memory or processes, and a program beside it that takes the processor."""
    for _ in range(rounds):
        used = len(os.listdir(f"/proc/{scene.hub.pid}/fd"))
        async with limited(scene, resource.RLIMIT_NOFILE, used + SPARE_DESCRIPTORS):
            await asyncio.gather(*(scene.call("good__echo", mark="few") for _ in range(20)))
            # Its server cannot be started again without descriptors.
            await asyncio.gather(*(scene.call("bad__die") for _ in range(3)))
        await works_again(scene)
        async with limited(scene, resource.RLIMIT_AS, mapped(scene) + SPARE_BYTES):
            await asyncio.gather(*(scene.call("good__echo", mark="x" * (8 << 20)) for _ in range(12)))
        await works_again(scene)
        if os.getuid():
            await without_processes(scene)
        busy = [sys.executable, "-c", "while True: pass"]
        hogs = [await asyncio.create_subprocess_exec(*busy) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            async with neighbour(scene, []):
                await asyncio.sleep(2)
        finally:
            for hog in hogs:
                hog.kill()
                await hog.wait()


async def without_processes(scene: Scene) -> None:
    """Neither a process nor a thread can be started: the limit counts both, and those that run already."""
    async with limited(scene, resource.RLIMIT_NPROC, 1):
        await asyncio.gather(*(scene.call("good__echo", mark="x" * (1 << 20)) for _ in range(20)))
        await asyncio.gather(*(scene.call("bad__die") for _ in range(3)))
        told = await scene.call("bad__ok")
        if was_called(told) or "processes" not in json.dumps(told):
            raise Broken(f"the call of a server that cannot be started for want of processes is answered {told}")
        await scene.echo("beside it")
    await works_again(scene)


def become_user() -> None:
    """Run this program again as a user whom limits of processes bind, and who may read it wherever it is."""
    if shutil.which("setpriv") is None:
        print("F11: limits of processes are left out: there is no setpriv", flush=True)
        return
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    os.execvp("setpriv", [*user, *reads, sys.executable, *sys.argv])


def mapped(scene: Scene) -> int:
    """The bytes that the hub has mapped."""
    return int(Path(f"/proc/{scene.hub.pid}/statm").read_text().split()[0]) * mmap.PAGESIZE


@contextlib.asynccontextmanager
async def limited(scene: Scene, which: int, most: int) -> Any:
    """Take something from the hub, and give it back."""
    before = resource.prlimit(scene.hub.pid, which)
    resource.prlimit(scene.hub.pid, which, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(scene.hub.pid, which, before)


async def works_again(scene: Scene) -> None:
    """The hub lives, and every server is called again."""
    if scene.hub.popen.poll() is not None:
        raise Broken(f"the hub ended: {scene.hub.last_words()}")
    await scene.echo("again")
    await wait_for(lambda: scene.states()["bad"] != "error", "the server is not given up")
    await scene.call("bad__ok")
    await scene.connected("good", "bad")


FAULTS: Faults = {"F9": f9, "F10": f10, "F11": f11}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--connections", type=int, default=1000, help="idle connections of F10")
    parser.add_argument("--tools", type=int, default=2000, help="tools of the large server of F10")
    parser.add_argument("--stopped", type=float, default=3, help="seconds for which F9 stops the process")
    parser.add_argument("--strict", action="store_true", help="neighbours' p99 must stay under twice its quiet value")
    parser.add_argument("--only", nargs="*", choices=sorted(FAULTS), default=[])
    options = parser.parse_args()
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (own[1], own[1]))
    if os.getuid() == 0:
        become_user()
    with tempfile.TemporaryDirectory(prefix="ilx") as folder:
        sys.exit(0 if asyncio.run(campaign(options, MachineScene(Path(folder), options), FAULTS)) else 1)


if __name__ == "__main__":
    main()
