"""Checks of calls and results have threads of their own, which their principals share fairly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import HubSettings, TimeoutSettings, ValidationSettings
from interlock.hub import judging_threads
from interlock.hub.calls.dispatch import result_postprocessing
from interlock.hub.calls.gates.validator_checks import FIND_HERE
from interlock.hub.judging_threads import JudgingThreads
from interlock.judge.results import judge_result
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

from .running_hub import RawClient, RunningHub, running_hub, text_of, until
from .test_validators import scripted, tool

SLOW = "Slow. " * 200
"""The judgement of this text hangs."""
QUICK = "Quick. " * 200
SCRIPT: dict[str, Any] = {
    "tools": [tool("slow"), tool("quick"), tool("run", command={"type": "string"})],
    "results": {
        name: {"content": [{"type": "text", "text": text}]} for name, text in (("slow", SLOW), ("quick", QUICK))
    },
}
LONG = {"command": "ls", "note": "a" * FIND_HERE}
"""Arguments that are checked in a thread."""


class Judges:
    """Judges results as the hub does. Those of a slow tool are judged once they may be."""

    def __init__(self) -> None:
        self.judged: list[str] = []
        self.may_end = threading.Event()

    def __call__(self, result: Any) -> Any:
        name = str(result["content"][0]["text"]).partition(".")[0].lower()
        self.judged.append(name)
        if name == "slow":
            self.may_end.wait()
        return judge_result(result)


@asynccontextmanager
async def judging_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: Any = "flag"
) -> AsyncIterator[tuple[RunningHub, Judges]]:
    """A hub with a server whose results are judged, and one whose calls are checked."""
    judges = Judges()
    monkeypatch.setattr(result_postprocessing, "judge_result", judges)
    servers = {
        "s": scripted(tmp_path, SCRIPT, scan_results=scan),
        "t": scripted(tmp_path, SCRIPT, "checked", validators={"run": ValidationSettings(use=("sandbox",))}),
    }
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, validation_s=60))
    async with running_hub(tmp_path, servers, hub=settings) as hub:
        try:
            yield hub, judges
        finally:
            judges.may_end.set()


async def calls(hub: RunningHub, agent: str, *names: str) -> list[asyncio.Task[Any]]:
    """Calls of one agent, at the same time."""
    client = RawClient(hub.url + "/mcp", await hub.new_key(agent))
    return [
        asyncio.create_task(client.modern("tools/call", {"name": name, "arguments": LONG if name == "t__run" else {}}))
        for name in names
    ]


async def test_t36_calls_are_checked_while_results_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judging_hub(tmp_path, monkeypatch) as (hub, judges):
        hanging = [*await calls(hub, "a", "s__slow"), *await calls(hub, "b", "s__slow")]
        await until(lambda: judges.judged == ["slow", "slow"])
        (checked,) = await calls(hub, "c", "t__run")
        assert "result" in await checked
        assert not any(each.done() for each in hanging)
        judges.may_end.set()
        assert [text_of(answer) for answer in await asyncio.gather(*hanging)] == [SLOW, SLOW]


async def test_a_call_that_is_checked_while_a_grant_changes_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end, check = asyncio.Event(), asyncio.Event(), JudgingThreads.run_check

    async def later(*given: Any) -> Any:
        began.set()
        await may_end.wait()
        return await check(*given)

    monkeypatch.setattr(JudgingThreads, "run_check", later)
    async with judging_hub(tmp_path, monkeypatch) as (hub, _):
        (checked,) = await calls(hub, "c", "t__run")
        await began.wait()
        await hub.deny("other", "s")
        may_end.set()
        error = (await checked)["error"]
        assert error["message"] == "tools, settings or rights changed while the call was checked"


async def test_t36_a_result_does_not_wait_for_all_results_of_another_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging_hub(tmp_path, monkeypatch) as (hub, judges):
        held, hanging = hub.hub_app.judging.result_bytes, await calls(hub, "a", "s__slow")
        size = await until(lambda: held["agent:a"])
        hanging += await calls(hub, "a", *["s__slow"] * 3)
        await until(lambda: held["agent:a"] == 4 * size)
        (other,) = await calls(hub, "b", "s__quick")
        assert text_of(await other) == QUICK
        assert judges.judged == ["slow", "quick"]
        judges.may_end.set()
        assert [text_of(answer) for answer in await asyncio.gather(*hanging)] == [SLOW] * 4


async def test_a_result_is_not_judged_for_a_client_that_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging_hub(tmp_path, monkeypatch) as (hub, judges):
        (first,) = await calls(hub, "a", "s__slow")
        await until(lambda: judges.judged == ["slow"])
        held = hub.hub_app.judging.result_bytes
        size = held["agent:a"]
        (gone,) = await calls(hub, "a", "s__quick")
        await until(lambda: held["agent:a"] > size)
        gone.cancel()
        await asyncio.wait([gone])
        await until(lambda: len(hub.listener.connections) == 1)
        judges.may_end.set()
        await first
        await until(lambda: not held)
        assert judges.judged == ["slow"]
        # The result is judged when an identical call gets it.
        (again,) = await calls(hub, "a", "s__quick")
        answer = await again
        assert text_of(answer) == QUICK
        assert "dev.interlock/earlierCall" in answer["result"]["_meta"]
        assert judges.judged == ["slow", "quick"]


@pytest.mark.parametrize(
    ("scan", "bound"),
    [
        ("flag", "MAX_RESULT_BYTES_PER_PRINCIPAL"),
        ("flag", "MAX_RESULT_BYTES"),
        ("mask", "MAX_RESULT_BYTES"),
        ("escape", "MAX_RESULT_BYTES"),
    ],
)
async def test_t37_the_bytes_of_results_that_wait_to_be_judged_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: str, bound: str
) -> None:
    async with judging_hub(tmp_path, monkeypatch, scan) as (hub, judges):
        held, flagged = hub.hub_app.judging.result_bytes, hub.hub_app.findings.flagged
        own = await calls(hub, "a", "s__slow")
        size = await until(lambda: held["agent:a"])
        monkeypatch.setattr(judging_threads, bound, 3 * size)
        own += await calls(hub, "a", *["s__slow"] * 4)
        await until(lambda: sum(each.done() for each in own) == 2)
        assert held == {"agent:a": 3 * size}
        assert flagged == {("s", "result.unjudged"): 2}
        unjudged = [text_of(each.result()) for each in own if each.done()]
        assert (unjudged == [SLOW] * 2) == (scan == "flag"), (
            "a result that could not be masked or escaped is not delivered"
        )
        (other,) = await calls(hub, "b", "s__quick")
        assert text_of(await other) == QUICK
        assert "quick" in judges.judged, "each principal may have one"
        judges.may_end.set()
        await asyncio.gather(*own)
        assert not held
        assert flagged == {("s", "result.unjudged"): 2}


async def test_t36_one_agent_cannot_take_all_places_of_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_threads, "MAX_CHECKS_PER_PRINCIPAL", 1)
    async with judging_hub(tmp_path, monkeypatch) as (hub, judges):
        held = asyncio.create_task(hub.hub_app.judging.run_check("agent:a", judges.may_end.wait))
        await until(lambda: hub.hub_app.judging.open_checks == {"agent:a": 1})
        (refused,) = await calls(hub, "a", "t__run")
        assert "RESOURCE_EXHAUSTED" in str(await refused)
        (checked,) = await calls(hub, "b", "t__run")
        assert "error" not in await checked
        judges.may_end.set()
        assert await held
        assert not hub.hub_app.judging.open_checks


async def test_t36_agents_that_fill_all_places_of_checks_leave_one_to_every_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging_threads, "MAX_CHECKS", 4)
    async with judging_hub(tmp_path, monkeypatch) as (hub, judges):
        judging = hub.hub_app.judging
        held = [
            asyncio.create_task(judging.run_check(f"agent:{agent}", judges.may_end.wait))
            for agent in "ab"
            for _ in "12"
        ]
        await until(lambda: judging.open_checks == {"agent:a": 2, "agent:b": 2})
        own = await calls(hub, "c", "t__run", "t__run")
        done, waiting = await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
        assert ["RESOURCE_EXHAUSTED" in str(each.result()) for each in done] == [True]
        judges.may_end.set()
        assert ["result" in await each for each in waiting] == [True]
        assert all(await asyncio.gather(*held))
        assert not judging.open_checks


async def test_t36_checks_of_all_principals_together_have_a_bound() -> None:
    judging, may_end = JudgingThreads(Resolver()), threading.Event()
    names = [f"agent:{number}" for number in range(4)]
    try:
        open_checks = [
            asyncio.ensure_future(judging.run_check(principal_name, may_end.wait))
            for principal_name in names
            for _ in range(judging_threads.MAX_CHECKS // len(names))
        ]
        await asyncio.sleep(0)
        for principal_name in names:  # none of them has as many as a principal may have
            with pytest.raises(Fault, match=f"{judging_threads.MAX_CHECKS} calls wait") as refused:
                await judging.run_check(principal_name, may_end.wait)
            assert refused.value.name == "RESOURCE_EXHAUSTED"
        may_end.set()
        assert all(await asyncio.gather(*open_checks))
        assert await judging.run_check(names[0], may_end.wait)
    finally:
        may_end.set()
        judging.close()
