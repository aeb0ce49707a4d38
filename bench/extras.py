"""What is measured beside the rounds: how soon a hub serves, how long a large list takes, and what growth costs."""

from __future__ import annotations

import asyncio
import itertools
import time

from figures import Extras
from load import PATIENCE_S, Round, WrongAnswer, ask, http_round
from process import NotRunning, cpu_seconds, free_port, memory_mb
from targets import Ground, Interlock
from workload import FIRST_ID, Shot, context_headers, modern_meta, picks, post, shots

LISTS = 15
GROWTH_ROUNDS = 3
GROWTH_CALLERS = 32
COLD_CALLS = 2_000


async def up_to_first_call(ground: Ground, extras: Extras, times: int) -> None:
    """From starting `interlock up` to the first good answer of a server that was ready all along."""
    for _ in range(times):
        hub = Interlock("modern", 1, 1)
        hub.port = free_port()
        shot = shots([(0, 0)], "modern", "hub", 1, hub.port)[0]
        began = time.perf_counter()
        hub.process = hub.launch(ground)
        try:
            await asyncio.wait_for(_first_answer(hub, shot), PATIENCE_S)
            extras.up_to_first_call_s.append(time.perf_counter() - began)
        finally:
            await hub.end()


async def _first_answer(hub: Interlock, shot: Shot) -> None:
    for number in itertools.count(FIRST_ID):
        try:
            _, _, body = await ask(hub.port, shot.numbered(number), 5)
        except (OSError, WrongAnswer):
            body = b""
        if shot.text(number).encode() in body:
            return
        await asyncio.sleep(0.005)


async def list_of_10_000(ground: Ground, extras: Extras) -> None:
    """The whole list, again and again: the first one is made, the others are there already."""
    hub = Interlock("modern", 100, 100)
    try:
        await _begin_unlisted(hub, ground)
        request = b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":%b}}' % modern_meta()
        whole = post("/mcp", hub.port, request, context_headers("modern", "tools/list"))
        took = []
        for _ in range(LISTS):
            began = time.perf_counter()
            _, _, body = await ask(hub.port, whole)
            took.append((time.perf_counter() - began) * 1e3)
            extras.listed = body.count(b'"inputSchema"')
            if extras.listed != hub.servers * hub.tools:
                raise WrongAnswer(f"{extras.listed} tools were listed")
        extras.list_first_ms, *extras.list_ms = took
        extras.memory_mb["10,000 tools of 100 servers"] = memory_mb(hub.pids)
    finally:
        await hub.end()


async def growth(ground: Ground, extras: Extras, quick: bool) -> None:
    """The same calls against a small hub, one with many servers, one with many tools; rounds alternate."""
    small, many_servers = Interlock("modern", 1, 10), Interlock("modern", 100 if quick else 1_000, 10)
    many_tools = Interlock("modern", 100, 100 if quick else 1_000)
    hubs = (small, many_servers, many_tools)
    figures: dict[Interlock, list[Round]] = {hub: [] for hub in hubs}
    try:
        for hub in hubs:
            await _begin_unlisted(hub, ground)
        for hub in hubs[1:]:
            what = f"{hub.servers * hub.tools:,} tools of {hub.servers:,} servers"
            extras.memory_mb[what] = memory_mb(hub.pids)
        extras.first_touch_us = await _first_touch(many_tools)
        for hub in hubs:
            await hub.prepare_shots()
            await hub.round(GROWTH_CALLERS, 0.5 if quick else 2.0)  # not counted: connections and plans are made
        for _ in range(GROWTH_ROUNDS):
            for hub in hubs:
                figures[hub].append(await hub.round(GROWTH_CALLERS, 0.4 if quick else 1.0))
    finally:
        for hub in hubs:
            await hub.end()
    cost = {hub: [one.cpu_us for one in figures[hub]] for hub in hubs}
    extras.growth_servers = [(hub.servers, cost[hub]) for hub in (small, many_servers)]
    extras.growth_tools = [(hub.servers * hub.tools, cost[hub]) for hub in (small, many_tools)]


async def _first_touch(hub: Interlock) -> float:
    """Calls that each go to a tool nobody called before."""
    chosen = list(dict.fromkeys(picks(hub.servers, hub.tools, COLD_CALLS * 2)))[:COLD_CALLS]
    rotation = [shots(chosen, "modern", "hub", hub.tools, hub.port)]
    return (await http_round(hub.port, rotation, 1, 0.4, lambda: cpu_seconds(hub.pids))).cpu_us


async def _begin_unlisted(hub: Interlock, ground: Ground) -> None:
    """Start a hub and wait for the last of its servers, without asking for a whole list."""
    hub.port = free_port()
    hub.process = hub.launch(ground)
    await asyncio.to_thread(hub.process.wait_port, hub.port)
    waiting = set(range(hub.servers))
    deadline = time.monotonic() + 120
    while waiting:
        for server in sorted(waiting):
            shot = shots([(server, hub.tools - 1)], "modern", "hub", hub.tools, hub.port)[0]
            _, _, body = await ask(hub.port, shot.numbered(FIRST_ID))
            if shot.text(FIRST_ID).encode() not in body:
                break
            waiting.discard(server)
        if time.monotonic() > deadline:
            raise NotRunning(f"{len(waiting)} of {hub.servers} servers are not ready after 120 s")
        await asyncio.sleep(0.05)
