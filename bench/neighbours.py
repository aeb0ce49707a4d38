"""One caller that asks for all it can get beside others who do not: what that does to the others' waiting.

    python bench/neighbours.py [--calls 2000] [--abusers 4]

A real hub with one server. A neighbour calls at an even pace, first alone, then while a caller with a used-up rate asks
again and again on connections of its own. Told are both p99s and their ratio (`docs/threats.md`, T36).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time

from confidentiality import META, hub_with_keys, prepare
from interlock.cli.control.hub_link import HubLink

PACE_S = 0.005
"""Between two calls of the neighbour."""


class Line:
    """One keep-alive connection of one caller."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key
        params = {"name": "u__echo", "arguments": {"mark": "x"}, "_meta": META}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(request, separators=(",", ":")).encode()
        self.request = (
            b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %b\r\n"
            b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            b"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: u__echo\r\n"
            b"content-length: %d\r\n\r\n%b" % (port, key.encode(), len(body), body)
        )

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def call(self) -> int:
        """The status of one call."""
        self.writer.write(self.request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self.reader.readexactly(length)
        return int(head.split(b" ", 2)[1])


async def paced(line: Line, calls: int) -> list[float]:
    """How long each of the neighbour's calls took, in milliseconds."""
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        assert await line.call() == 200
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PACE_S)
    return took


async def greedy(line: Line, statuses: dict[int, int]) -> None:
    await line.open()
    while True:
        status = await line.call()
        statuses[status] = statuses.get(status, 0) + 1


async def measure(port: int, neighbour: str, abuser: str, calls: int, abusers: int) -> dict[str, object]:
    line = Line(port, neighbour)
    await line.open()
    await paced(line, calls // 10)
    alone = await paced(line, calls)
    statuses: dict[int, int] = {}
    asking = [asyncio.ensure_future(greedy(Line(port, abuser), statuses)) for _ in range(abusers)]
    beside = await paced(line, calls)
    for task in asking:
        task.cancel()
    first, second = (statistics.quantiles(each, n=100)[98] for each in (alone, beside))
    return {
        "calls": calls,
        "p50_alone_ms": round(statistics.median(alone), 2),
        "p50_beside_ms": round(statistics.median(beside), 2),
        "p99_alone_ms": round(first, 2),
        "p99_beside_ms": round(second, 2),
        "p99_ratio": round(second / first, 2),
        "abusers_answers": {str(status): count for status, count in sorted(statuses.items())},
    }


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--abusers", type=int, default=4)
    options = parser.parse_args()
    async with hub_with_keys() as (_, home):
        port, (neighbour,) = await asyncio.to_thread(prepare, home, 1)
        with HubLink.open(home) as link:
            abuser = link.ask("hub/keys.create", {"agent": "abuser", "rate": {"per_minute": 60}})["key"]
        print(json.dumps(await measure(port, neighbour, abuser, options.calls, options.abusers)))
    return 0


if __name__ == "__main__":
    import uvloop

    sys.exit(uvloop.run(main()))
