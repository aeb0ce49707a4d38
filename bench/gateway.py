"""Interlock beside what else carries calls: one run, one machine, the same calls for all, every answer checked.

The measured gateway has one core, load and upstream have the other. Rounds of the targets alternate, figures are
medians, and ratios count. A gateway that is not installed is not measured, and never passes.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

import installed
from extras import growth, list_of_10_000, up_to_first_call
from figures import Bar, Extras, Row, bars, table
from load import WrongAnswer
from process import NotRunning, cores, memory_mb, pin
from targets import (
    Governed,
    Ground,
    Interlock,
    InterlockClient,
    Nginx,
    RealClients,
    Relay,
    Single,
    Target,
    Upstream,
    rivals,
)
from workload import Era

CONCURRENCY = (1, 32, 256)
ROUNDS_S = 240.0
"""No round begins after so long."""
SERVERS = 100
TOOLS = 10
ERAS: tuple[Era, ...] = ("modern", "legacy")


class Report(msgspec.Struct):
    """The document that `--json` writes."""

    machine: dict[str, str]
    versions: dict[str, str]
    pinned: bool
    seconds: float
    bars: list[Bar]
    rows: list[Row]
    extras: Extras


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--install", action="store_true", help="build the other proxies' environments first")
    parser.add_argument("--quick", action="store_true", help="one round; only the relay, nginx and Interlock")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a bar does not hold")
    options = parser.parse_args()
    if options.install:
        installed.install()
    began = time.monotonic()
    pair = cores()
    if pair is None:
        print("There are no two cores to choose: nothing is pinned, and ratios mean less.", file=sys.stderr)
    pin(None if pair is None else pair[1])
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        rows, extras = uvloop.run(measure(Path(folder), pair, options.quick))
    held = bars(rows, extras)
    show(rows, extras, held)
    if options.json is not None:
        machine = {"system": platform.platform(), "processor": platform.machine(), "python": platform.python_version()}
        took = time.monotonic() - began
        report = Report(machine, installed.versions(), pair is not None, took, held, rows, extras)
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return 1 if options.strict and any(bar.verdict == "FAIL" for bar in held) else 0


async def measure(folder: Path, pair: tuple[int, int] | None, quick: bool) -> tuple[list[Row], Extras]:
    """Everything, in order: the rounds, then what is measured once."""
    foundation = Ground(folder, pair)
    extras = Extras()
    try:
        targets = chosen(quick)
        try:
            for target in targets:
                await begin(target, foundation)
            rows = await rounds(targets, 1 if quick else 3, 0.6 if quick else 1.0)
        finally:
            for target in reversed(targets):
                await target.end()
        say("start-up, lists, growth")
        try:
            await up_to_first_call(foundation, extras, 1 if quick else 3)
            await list_of_10_000(foundation, extras)
            await growth(foundation, extras, quick)
        except (NotRunning, WrongAnswer, OSError, TimeoutError) as cause:
            say(f"  not measured: {cause or type(cause).__name__}")  # what was measured so far still counts
    finally:
        foundation.upstream.end()
    return rows, extras


def chosen(quick: bool) -> list[Target]:
    """The targets, in the order in which their rounds alternate."""
    found: list[Target] = []
    for era in ERAS:
        nginx, hub = Nginx(era, SERVERS, TOOLS), Interlock(era, SERVERS, TOOLS)
        found += [Upstream(era, SERVERS, TOOLS), Relay(era, SERVERS, TOOLS), nginx, RealClients(nginx)]
        found += [hub, RealClients(hub), InterlockClient(hub)]
        found.append(Interlock(era, 10 if quick else SERVERS, TOOLS, "stdio"))
    found += [Governed(SERVERS, TOOLS, "batched"), Governed(SERVERS, TOOLS, "strict")]
    if not quick:
        found.append(Governed(SERVERS, TOOLS, "batched", others=10_000))
        found.append(Single(SERVERS * TOOLS))
    return found if quick else found + rivals(SERVERS * TOOLS)


async def begin(target: Target, foundation: Ground) -> None:
    """Start a target; one that does not start is not measured."""
    say(f"starting {target.name} ({target.era}): {target.setup}")
    try:
        await target.begin(foundation)
    except (NotRunning, WrongAnswer, OSError, TimeoutError) as cause:
        target.problem = str(cause) or type(cause).__name__
        say(f"  not measured: {target.problem}")


async def rounds(targets: list[Target], count: int, seconds: float) -> list[Row]:
    """The targets take turns, so that whatever else the machine does meets them all."""
    rows = {
        (target, at_once): Row(target.name, target.kind, target.era, target.setup, at_once, problem=target.problem)
        for target in targets
        for at_once in CONCURRENCY
    }
    began = time.monotonic()
    for number in range(count):
        if time.monotonic() - began > ROUNDS_S:
            say(f"{number} rounds took {ROUNDS_S:g} s: on a machine this busy there are no more")
            break
        for at_once in CONCURRENCY:
            say(f"round {number + 1} of {count}, {at_once} at once")
            for target in targets:
                if not target.problem:
                    await one_round(target, rows[target, at_once], seconds)
    return list(rows.values())


async def one_round(target: Target, row: Row, seconds: float) -> None:
    try:
        row.rounds.append(await target.round(row.concurrency, seconds))
        row.memory_mb = memory_mb(target.pids)
        row.idle_mb = target.idle_mb
    except (WrongAnswer, OSError, TimeoutError) as cause:
        target.problem = row.problem = f"failed at {row.concurrency} at once: {cause}"
        row.rounds.clear()
        say(f"  {target.name}: {row.problem}")


def show(rows: list[Row], extras: Extras, held: list[Bar]) -> None:
    """The table and the bars."""
    print()
    for line in table(rows):
        print(line)
    print()
    if extras.list_first_ms is not None:
        print(f"tools/list of {extras.listed:,} tools, the first: {extras.list_first_ms:.0f} ms")
    if extras.first_touch_us is not None:
        print(f"CPU of a tool's first call, its schema compiled: {extras.first_touch_us:.0f} µs")
    if len(extras.growth_floor) == 2:
        (_, few), (kept, many) = extras.growth_floor
        ratio = statistics.median(many) / statistics.median(few)
        print(f"CPU per call of the byte relay with {kept:,} connections to the upstream: {ratio:.2f} x")
    for what, value in extras.memory_mb.items():
        print(f"memory with {what}: {value:.0f} MB")
    print()
    for bar in held:
        print(f"{bar.verdict:13} {bar.name}: {bar.measured or '-'} (bar: {bar.limit})")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
