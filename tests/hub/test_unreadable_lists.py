"""A server whose lists cannot be read: callers get the reason at once, and the hub asks for them ever more seldom."""

from __future__ import annotations

import asyncio
import math
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import TimeoutSettings
from interlock.hub.upstreams.listing import MAX_LIST_AGAIN_S
from loop_clock import advance

from .mgp_script import TRANSPORTS, MgpScript, call, error_of, listed, tool
from .running_hub import until

DEEP: dict[str, Any] = reduce(lambda inner, _: {"a": inner}, range(100), {})
UNREADABLE = tool("a", description="x" * 70_000, _meta=DEEP)
REASON = "the request for its lists failed: an answer cannot be used"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_gets_the_reason_as_soon_as_the_lists_could_not_be_read(tmp_path: Path, transport: str) -> None:
    script = MgpScript(tmp_path, era="legacy", tools=[UNREADABLE])
    patient = TimeoutSettings(start_s=3_600, tool_s=3_600)
    async with script.running_hub(transport, wait=False, waits=patient) as hub:
        answer = await asyncio.wait_for(call(hub, "a"), 120)
        assert error_of(answer)["name"] == "SERVER_NOT_READY"
        assert answer["error"]["message"] == f"s: {REASON}"
        assert any(
            "its answer cannot be read: nested deeper than 64 levels" in line.text
            for line in hub.hub_app.logs.tail("s", 100)
        )


async def test_the_hub_asks_for_lists_that_it_cannot_read_after_longer_and_longer_pauses(tmp_path: Path) -> None:
    script = MgpScript(tmp_path, era="legacy", tools=[UNREADABLE])
    async with script.running_hub(wait=False, waits=TimeoutSettings(start_s=3_600, discovery_s=3_600)) as hub:
        lists, loop = hub.hub_app.upstreams["s"].lists, asyncio.get_running_loop()
        pauses: list[float] = []
        for reading in range(1, 5):
            at = await until(lambda: lists.read_again_at)
            assert script.methods().count("tools/list") == reading
            pauses.append(at - loop.time())
            (server,) = (await hub.operate("status"))["servers"]
            assert server["problem"].startswith("its lists could not be read: ")
            wait_s = int(server["hint"].removeprefix("the hub reads them again in ").partition(" ")[0])
            assert 0 <= wait_s <= math.ceil(pauses[-1])
            if reading == 4:
                script.say(tools=[tool("a")])
            advance(pauses[-1])
            await until(lambda done=at: lists.read_again_at != done)
        assert all(after > 1.5 * before for before, after in pairwise(pauses)), pauses
        assert max(pauses) < MAX_LIST_AGAIN_S
        await until(lambda: lists.known)
        assert await listed(hub) == ["s__a"]
        assert lists.problem is None
        script.say(tools=[UNREADABLE])
        lists.changed.set()
        at = await until(lambda: lists.read_again_at)
        assert at - loop.time() < pauses[1], "failures before the last success do not count"
