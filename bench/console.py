"""The cost of the console: a request on screen, a page of a long timeline, and an open page beside many calls.

    python bench/console.py [--entries 100000] [--seconds 10]

A real hub, and a page without a browser: it reads the event stream and asks for its parts as the page's script does.
`on_screen` is from the call that asks until the page has the list with the request, while requests pile up. `timeline`
is one page of a log with so many entries. `processor` is the hub's processor time at 1,000 calls a second, without and
with an open timeline, in percent of one core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from confidentiality import META, SOURCE, UPSTREAM, prepare
from interlock.cli.control.hub_link import HubLink
from process import cpu_seconds

REQUESTS = 25
"""As many as the page lists at once."""
RATE = 1000


class Browser:
    """One page that is logged in."""

    def __init__(self, port: int, host: str) -> None:
        self.port, self.host, self.cookie = port, host, ""

    async def ask(self, method: str, path: str, body: str = "") -> tuple[bytes, bytes]:
        """Head and body of an answer, on a connection of its own."""
        reader, writer = await self.open(method, path, body, "connection: close\r\n")
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return head, rest

    async def open(
        self, method: str, path: str, body: str = "", more: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\ncookie: interlock_console={self.cookie}\r\n{more}"
        head += f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        return reader, writer

    async def log_in(self, code: str) -> None:
        head, _ = await self.ask("POST", "/console/login", f"code={code}")
        self.cookie = head.partition(b"interlock_console=")[2].partition(b";")[0].decode()
        assert self.cookie, head

    async def timed(self, path: str) -> float:
        """How long a page takes, in milliseconds."""
        began = time.perf_counter()
        head, _ = await self.ask("GET", path)
        assert b" 200 " in head.split(b"\r\n")[0], head
        return (time.perf_counter() - began) * 1000

    async def follow(self, event: str, then: Callable[[], object]) -> None:
        """Read the event stream, and call `then` for each event of a name."""
        reader, writer = await self.open("GET", "/console/events")
        try:
            while line := await reader.readline():
                if line.startswith(f"event: {event}".encode()):
                    found = then()
                    if asyncio.iscoroutine(found):
                        await found
        finally:
            writer.close()


class Caller:
    """A client on a connection that is kept."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key

    async def open(self) -> Caller:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def call(self, mark: str = "x") -> bytes:
        params = {"name": "u__echo", "arguments": {"mark": mark}, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        self.writer.write(
            b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %b\r\n"
            b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            b"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: u__echo\r\n"
            b"content-length: %d\r\n\r\n%b" % (self.port, self.key.encode(), len(body), body)
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await self.reader.readexactly(length)


@contextlib.asynccontextmanager
async def hub() -> AsyncIterator[tuple[int, Path]]:
    """A hub with one server, which asks a person for the calls of one agent; its process and its home."""
    with tempfile.TemporaryDirectory(prefix="ilc") as folder:
        home, script, config = (Path(folder) / name for name in ("h", "upstream.py", "interlock.toml"))
        script.write_text(UPSTREAM)
        command = json.dumps([sys.executable, "-S", str(script)])
        config.write_text(
            '[hub]\nlisten = "127.0.0.1:0"\nanonymous = false\n[hub.approvals]\nhold_s = 0\n'
            f'[agents.asker]\nask = ["u__*"]\n[servers.u]\ncommand = {command}\nera = "modern"\n'
        )
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(home), "HOME": folder}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "interlock.cli", "up", "--config", str(config), env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield process.pid, home
        finally:
            process.terminate()
            await process.wait()


async def fill(port: int, key: str, entries: int) -> None:
    """Make calls until the log has so many entries."""
    callers = [await Caller(port, key).open() for _ in range(32)]

    async def run(caller: Caller) -> None:
        for _ in range(entries // len(callers)):
            await caller.call()

    await asyncio.gather(*map(run, callers))


async def on_screen(browser: Browser, port: int, key: str) -> list[float]:
    """From each call that asks until the list with it is there, in milliseconds."""
    changed = asyncio.Event()
    following = asyncio.create_task(browser.follow("approvals", changed.set))
    await browser.timed("/console/approvals")
    await asyncio.sleep(0.5)
    caller, took, shown = await Caller(port, key).open(), [], list[str]()
    for number in range(REQUESTS):
        changed.clear()
        began = time.perf_counter()
        calling = asyncio.create_task(caller.call(f"please {number}"))
        await changed.wait()
        _, page = await browser.ask("GET", f"/console/approvals/list?shown={','.join(shown)}")
        took.append((time.perf_counter() - began) * 1000)
        shown = re.findall(r'<article class="card[^"]*"(?: id="[^"]*")? data-id="([^"]+)"', page.decode())
        assert len(shown) == number + 1
        await calling
    following.cancel()
    return took


async def processor(pid: int, port: int, key: str, seconds: float) -> float:
    """The hub's processor time at an even rate of calls, in percent of one core."""
    callers = [await Caller(port, key).open() for _ in range(8)]
    began, used = time.perf_counter(), cpu_seconds([pid])

    async def run(caller: Caller, first: int) -> None:
        for number in range(first, int(seconds * RATE), len(callers)):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            await caller.call()

    await asyncio.gather(*(run(caller, first) for first, caller in enumerate(callers)))
    return (cpu_seconds([pid]) - used) / (time.perf_counter() - began) * 100


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    async with hub() as (pid, home):
        port, (key,) = await asyncio.to_thread(prepare, home, 1)
        with HubLink.open(home, own=True) as link:
            asker = link.ask("hub/keys.create", {"agent": "asker"})["key"]
            made = link.ask("hub/console.code", {"terminal": True})
        browser = Browser(port, made["url"].split("/")[2])
        await browser.log_in(made["code"])
        first_load = sum([len(b"".join(await browser.ask("GET", f"/console/{part}"))) for part in FIRST_LOAD])
        await fill(port, key, options.entries)
        shown = sorted(await on_screen(browser, port, asker))
        paths = {
            "newest": "/console/timeline",
            "in_the_middle": f"/console/timeline?before={options.entries // 2}",
            "of_an_agent": "/console/timeline?agent=agent0",
            "that_matches_nothing": "/console/timeline?agent=nobody",
        }
        pages = {name: [await browser.timed(path) for _ in range(20)] for name, path in paths.items()}
        without = await processor(pid, port, key, options.seconds)
        watching = asyncio.create_task(browser.follow("audit", lambda: browser.timed("/console/timeline/rows")))
        beside = await processor(pid, port, key, options.seconds)
        watching.cancel()
    report = {
        "on_screen_ms": {"p50": statistics.median(shown), "p95": shown[int(len(shown) * 0.95)]},
        "timeline_ms": {name: statistics.quantiles(took, n=20)[18] for name, took in pages.items()},
        "first_load_bytes": first_load,
        "processor_percent": {"alone": without, "with_a_page": beside, "added": beside - without},
    }
    print(json.dumps(report, indent=2, default=lambda value: round(value, 1)))
    return 0


FIRST_LOAD = ("approvals", "static/console.css", "static/console.js")

if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(main()))
