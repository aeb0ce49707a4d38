"""Measurements beside the rounds: how soon a hub serves, how long a large list takes, and the cost of growth."""

from __future__ import annotations

import asyncio
import itertools
import time

from figures import Extras
from load import PATIENCE_S, Round, WrongAnswer, ask, http_round
from process import NotRunning, cpu_seconds, free_port, memory_mb
from targets import PICKS, Ground, Interlock, Relay
from workload import BARE, FIRST_ID, Shot, context_headers, modern_meta, picks, post, shots

LISTS = 15
GROWTH_ROUNDS = 3
GROWTH_CALLERS = 32
COLD_CALLS = 2_000


async def up_to_first_call(foundation: Ground, extras: Extras, times: int) -> None:
    """From starting `interlock up` to the first good answer of a server that was ready all along."""
    for _ in range(times):
        hub = Interlock("modern", 1, 1)
        hub.port = free_port()
        shot = shots([(0, 0)], BARE["modern"], "hub", 1, hub.port)[0]
        began = time.perf_counter()
        hub.process = hub.launch(foundation)
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


async def list_of_10_000(foundation: Ground, extras: Extras) -> None:
    """The whole list, again and again: the first one is made, the others are there already."""
    hub = Interlock("modern", 100, 100)
    try:
        await _begin_unlisted(hub, foundation)
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


async def growth(foundation: Ground, extras: Extras, quick: bool) -> None:
    """The same calls against hubs that differ in one thing: how many servers are there, or how many tools they have.

    With many servers, the calls go once to all of them and once to a single one: the one is what it costs to have them,
    the other also what it costs to call something else each time. Of that last, the byte relay with as many connections
    tells what no proxy can do without.
    """
    small, many_servers = Interlock("modern", 1, 10), Interlock("modern", 100 if quick else 1_000, 10)
    few_tools, many_tools = Interlock("modern", 10, 1), Interlock("modern", 10, 1_000 if quick else 10_000)
    hubs = (small, many_servers, few_tools, many_tools)
    floors = {kept: Relay("modern", 1, 10, kept) for kept in (GROWTH_CALLERS, many_servers.servers)}
    floor: dict[int, list[float]] = {kept: [] for kept in floors}
    legs = {"small": small, "all": many_servers, "one": many_servers, "few": few_tools, "many": many_tools}
    figures: dict[str, list[Round]] = {leg: [] for leg in legs}
    try:
        for relay in floors.values():
            await relay.begin(foundation)
        for hub in hubs:
            await _begin_unlisted(hub, foundation)
        for hub in (many_servers, many_tools):
            what = f"{hub.servers * hub.tools:,} tools of {hub.servers:,} servers"
            extras.memory_mb[what] = memory_mb(hub.pids)
        extras.first_touch_us = await _first_touch(many_tools)
        aims = {leg: picks(1 if leg == "one" else hub.servers, hub.tools, PICKS) for leg, hub in legs.items()}
        rotations = {leg: shots(aims[leg], BARE["modern"], "hub", hub.tools, hub.port) for leg, hub in legs.items()}
        for leg, hub in legs.items():  # not counted: connections and plans are made
            await _round(hub, rotations[leg], 0.5 if quick else 2.0)
        for _ in range(GROWTH_ROUNDS):
            for leg, hub in legs.items():
                figures[leg].append(await _round(hub, rotations[leg], 0.4 if quick else 1.0))
            for kept, relay in floors.items():
                floor[kept].append((await relay.round(GROWTH_CALLERS, 0.4 if quick else 1.0)).cpu_us)
    finally:
        for each in (*hubs, *floors.values()):
            await each.end()
    cost = {leg: [one.cpu_us for one in rounds] for leg, rounds in figures.items()}
    extras.growth_servers = [(small.servers, cost["small"]), (many_servers.servers, cost["all"])]
    extras.growth_floor = list(floor.items())
    extras.growth_connected = [(small.servers, cost["small"]), (many_servers.servers, cost["one"])]
    extras.growth_tools = [(10, cost["few"]), (many_tools.servers * many_tools.tools, cost["many"])]


async def _round(hub: Interlock, rotation: list[Shot], seconds: float) -> Round:
    return await http_round(hub.port, [rotation], GROWTH_CALLERS, seconds, lambda: cpu_seconds(hub.pids))


async def _first_touch(hub: Interlock) -> float:
    """Calls that each go to a tool nobody called before."""
    chosen = list(dict.fromkeys(picks(hub.servers, hub.tools, COLD_CALLS * 2)))[:COLD_CALLS]
    rotation = [shots(chosen, BARE["modern"], "hub", hub.tools, hub.port)]
    return (await http_round(hub.port, rotation, 1, 0.4, lambda: cpu_seconds(hub.pids))).cpu_us


async def _begin_unlisted(hub: Interlock, foundation: Ground) -> None:
    """Start a hub and wait for the last of its servers, without asking for a whole list."""
    hub.port = free_port()
    hub.process = hub.launch(foundation)
    await asyncio.to_thread(hub.process.wait_port, hub.port)
    waiting = set(range(hub.servers))
    deadline = time.monotonic() + 120
    while waiting:
        for server in sorted(waiting):
            shot = shots([(server, hub.tools - 1)], BARE["modern"], "hub", hub.tools, hub.port)[0]
            # A call waits for its server, and a thousand of them start one after the other.
            _, _, body = await ask(hub.port, shot.numbered(FIRST_ID), patience=120)
            if shot.text(FIRST_ID).encode() not in body:
                break
            waiting.discard(server)
        if time.monotonic() > deadline:
            raise NotRunning(f"{len(waiting)} of {hub.servers} servers are not ready after 120 s")
        await asyncio.sleep(0.05)
