"""The cost of many idle clients: memory, and how long a busy one waits beside them.

    python bench/idle_connections.py [--connections 10000] [--json FILE]

Each idle client has made one call and keeps its connection open. A busy one calls: alone first, then beside them, then
after they have gone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import sys
import tempfile
from pathlib import Path

import uvloop

from load import Round, ask, http_round
from process import cores, cpu_seconds, memory_mb, pin
from targets import PICKS, REST_S, Ground, Interlock
from workload import BARE, FIRST_ID, Shot, picks, shots

SECONDS = 2.0
AT_ONCE = 200
CALLERS = 4


async def measure(count: int, folder: Path, pair: tuple[int, int] | None) -> dict[str, object]:
    foundation = Ground(folder, pair)
    hub = Interlock("modern", 1, 10)
    idle: list[asyncio.StreamWriter] = []
    try:
        await hub.begin(foundation)
        await busy(hub)  # not counted: everything is made
        before, alone = memory_mb(hub.pids), await busy(hub)
        idle = await opened(hub, count)
        beside_mb, beside = memory_mb(hub.pids), await busy(hub)
        alive = sum(not writer.is_closing() for writer in idle)
        await closed(idle)
        _, _, body = await ask(hub.port, first_shot(hub).numbered(FIRST_ID))
        await asyncio.sleep(REST_S)
        left_mb, gone = memory_mb(hub.pids), await busy(hub)
        return {
            "connections": count,
            "still_open": alive,
            "kb_each": round((beside_mb - before) * 1e3 / count, 1),
            "memory_mb": [round(before, 1), round(beside_mb, 1), round(left_mb, 1)],
            "p50_us": [round(each.p50_us) for each in (alone, beside, gone)],
            "p99_us": [round(each.p99_us) for each in (alone, beside, gone)],
            "answers_after": first_shot(hub).text(FIRST_ID).encode() in body,
        }
    finally:
        await closed(idle)
        await hub.end()
        foundation.upstream.end()


async def busy(hub: Interlock) -> Round:
    rotation = [shots(picks(hub.servers, hub.tools, PICKS), BARE[hub.era], hub.view, hub.tools, hub.port)]
    return await http_round(hub.port, rotation, CALLERS, SECONDS, lambda: cpu_seconds(hub.pids))


def first_shot(hub: Interlock) -> Shot:
    return shots([(0, 0)], BARE[hub.era], hub.view, hub.tools, hub.port)[0]


async def opened(hub: Interlock, count: int) -> list[asyncio.StreamWriter]:
    """Clients that have made a call each, some at a time."""
    shot = first_shot(hub)
    found: list[asyncio.StreamWriter] = []
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
            writer.write(shot.numbered(FIRST_ID + number))
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            if b" 200 " not in answer.split(b"\r\n", 1)[0]:
                raise SystemExit(f"client {number} was answered {answer[:80]!r}")
            found.append(writer)

    await asyncio.gather(*(one(number) for number in range(count)))
    return found


async def closed(idle: list[asyncio.StreamWriter]) -> None:
    for writer in idle:
        writer.close()
    for writer in idle:
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pair = cores()
    pin(None if pair is None else pair[1])
    with tempfile.TemporaryDirectory(prefix="interlock-idle-") as folder:
        report = uvloop.run(measure(options.connections, Path(folder), pair))
    print(json.dumps(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report))
    return 0 if report["still_open"] == report["connections"] and report["answers_after"] else 1


if __name__ == "__main__":
    sys.exit(main())
