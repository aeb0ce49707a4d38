"""The cost of finishing a result: cut to a bound, searched, made visible. One row for each size.

`python bench/results.py [--json FILE]`: the time from a server's answer to the caller's, and the longest that the loop
was held up meanwhile, medians of several runs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import local_person
from interlock.hub.calls.call import Call, Caller, OpenCalls
from interlock.hub.calls.dispatch.result_pages import ResultPages
from interlock.hub.calls.dispatch.result_postprocessing import ResultPostprocessor, postprocessor_for
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.local_exchange import LocalExchange
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.views import View
from interlock.hub.judging_threads import JudgingThreads
from interlock.transports.resolving import Resolver
from interlock.wire.messages import Request

SIZES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
RUNS = 5
MAX_TOKENS = 2_000
LINE = "2026-07-28 10:15:00 INFO worker 7 finished job 4711 für Kunde Müller in 12.5 ms\n"
TICK_S = 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    rows = asyncio.run(measure())
    for name, row in rows.items():
        print(f"{name:16} " + "  ".join(f"{key} {value:g}" for key, value in row.items()))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.encode(rows))


async def measure(sizes: tuple[int, ...] = SIZES, times: int = RUNS) -> dict[str, dict[str, float]]:
    """The rows, by what is done and the size of the result in bytes."""
    judging, measuring, pages = JudgingThreads(Resolver()), ResultTokens(), ResultPages(time.monotonic)
    settings = {
        "cut": ServerSettings(command=("x",), max_result_tokens=MAX_TOKENS),
        "escape": ServerSettings(command=("x",), scan_results="escape"),
    }
    rows = {}
    try:
        for name, server in settings.items():
            finish = postprocessor_for(server, pages, judging, measuring, lambda call, found: None)
            assert finish is not None
            await _once(finish, _result(100_000))  # loads and compiles what is needed
            for size in sizes:
                runs = [await _once(finish, _result(size)) for _ in range(times)]
                took, held = (statistics.median(column) * 1000 for column in zip(*runs, strict=True))
                rows[f"{name} {size}"] = {"took_ms": round(took, 2), "held_ms": round(held, 2)}
    finally:
        await measuring.close()
        judging.close()
    return rows


def _result(size: int) -> bytes:
    text = (LINE * (size // len(LINE) + 1))[:size]
    return msgspec.json.encode({"content": [{"type": "text", "text": text}]})


async def _once(finish: ResultPostprocessor, result: bytes) -> tuple[float, float]:
    """Seconds until the finished result was there, and the longest that the loop was late meanwhile."""
    caller = Caller(local_person("bench"), ListScope(View()), OpenCalls())
    exchange = LocalExchange(Request(1, "tools/call", b'{"name":"t"}'), caller)
    held = 0.0

    async def watch() -> None:
        nonlocal held
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            held = max(held, time.perf_counter() - before - TICK_S)

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(TICK_S)
    begun = time.perf_counter()
    finish.finish(Call.of(exchange, caller, Target("tool", "s", "t"), {}), result, exchange.result)
    await exchange.answer
    took = time.perf_counter() - begun
    await asyncio.sleep(2 * TICK_S)
    watching.cancel()
    return took, held


if __name__ == "__main__":
    main()
