"""Servers that exit as soon as they run: they start few at once and few per second, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.running_hub import HERE, SOURCE, RawClient, RunningHub, running_hub, text_of, until
from interlock.config.settings import RestartSettings, ServerSettings
from interlock.hub.upstreams.starts import PROCESSES, Urgency
from interlock.transports.stdio import child as starting

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the flapping servers are shell scripts")

FLAPPING = 60
ECHO: dict[str, Any] = {"name": "good__echo", "arguments": {"text": "still here"}}
MAX_PAUSE_S = 0.05
"""Ten times what anything may take on the loop, since a busy machine counts its own doings in."""


class FlappingHub:
    """A hub with many servers that flap, and one that does not."""

    def __init__(self, hub: RunningHub, started: Path) -> None:
        self.hub = hub
        self.client = RawClient(hub.url + "/mcp")
        self._started = started

    @property
    def started(self) -> list[str]:
        """A word for each process that was started: its number, or `good`."""
        return self._started.read_text().split()

    def running(self) -> int:
        """How many flapping processes there are now."""
        return sum(os.path.exists(f"/proc/{pid}/cmdline") and bool(_words(pid)) for pid in self.started[-200:])

    async def all_failed(self) -> None:
        """Every flapping server was started and failed."""
        flapping = [upstream for upstream in self.hub.hub_app.upstreams if upstream.id != "good"]
        await until(lambda: all(upstream.restarts.total for upstream in flapping), within=90)


def _words(pid: str) -> bytes:
    """The command line of a process; empty for one that has ended and was not waited for yet."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextlib.asynccontextmanager
async def flapping_hub(tmp_path: Path) -> AsyncIterator[FlappingHub]:
    """The flapping servers come back after a millisecond, as far as their own settings go."""
    started = tmp_path / "started"
    started.touch()
    env = {"STARTED": str(started)}
    restart = RestartSettings(backoff_base_ms=1, backoff_max_ms=1)
    flapping = ServerSettings(
        command=("/bin/sh", "-c", 'echo $$ >> "$STARTED"; exec sleep 0.2'), env=env, era="legacy", restart=restart
    )
    command = ("/bin/sh", "-c", 'echo good >> "$STARTED"; exec "$0" "$1"', sys.executable, str(HERE / "busy_server.py"))
    servers = {f"f{number}": flapping for number in range(FLAPPING)}
    servers["good"] = ServerSettings(command=command, env={**env, "PYTHONPATH": str(SOURCE)}, era="modern")
    async with running_hub(tmp_path, servers, wait=False) as hub:
        yield FlappingHub(hub, started)


async def test_t46_few_start_at_once_and_few_per_second(tmp_path: Path) -> None:
    failed = PROCESSES[Urgency.FAILED]
    async with flapping_hub(tmp_path) as here:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, here.running())
                await asyncio.sleep(0.02)

        watching = asyncio.create_task(watch())
        await here.all_failed()
        began, before = time.monotonic(), len(here.started)
        await until(lambda: len(here.started) > before + 10)
        starts, seconds = len(here.started) - before, time.monotonic() - began
        watching.cancel()
        assert most < FLAPPING / 2
        assert starts <= failed.per_second * seconds + failed.at_once + failed.burst


async def test_t46_no_start_happens_on_the_loop_and_calls_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, argv: Any, **named: Any) -> None:
            if argv[0] == "/bin/sh":
                threads.add(threading.get_ident())
            super().__init__(argv, **named)

    monkeypatch.setattr(starting.subprocess, "Popen", Popen)
    loop = asyncio.get_running_loop()
    longest = 0.0

    def turn(before: float) -> None:
        nonlocal longest, again
        now = time.thread_time()
        longest = max(longest, now - before)
        again = loop.call_later(0.001, turn, now)

    async with flapping_hub(tmp_path) as here:
        await until(lambda: here.hub.hub_app.upstreams["good"].lists.known)
        again = loop.call_soon(turn, time.thread_time())
        calls = 0
        waiting = asyncio.create_task(here.all_failed())
        while not waiting.done():
            assert text_of(await here.client.modern("tools/call", ECHO)) == "still here"
            calls += 1
        await waiting
        again.cancel()
    assert threads
    assert threading.get_ident() not in threads
    assert calls
    assert longest < MAX_PAUSE_S


async def test_t46_a_server_that_a_call_needs_starts_before_those_that_flap(tmp_path: Path) -> None:
    async with flapping_hub(tmp_path) as here:
        upstream = here.hub.hub_app.upstreams["good"]
        await until(lambda: upstream.lists.known)
        await here.all_failed()
        before = len(here.started)
        await here.hub.operate("servers.restart", server="good")
        assert text_of(await here.client.modern("tools/call", ECHO)) == "still here"
        since = here.started[before:]
        assert since.index("good") < FLAPPING / 4
