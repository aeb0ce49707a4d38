"""Wakes by the wall's clock, within budgets, and over restarts: no event is held for another's sake, or for ever."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.config.live_settings import HookSettings, LiveRuleSettings, LiveSettings, QuietHoursSettings
from interlock.events import EventFilter
from interlock.events.types import ResourceUpdated
from interlock.hub.live.events import usage, wake_decisions, wakes
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.intake import IncomingEvent
from interlock.hub.live.events.wake_chains import WOKEN_TURN_S, WakeChains
from interlock.hub.live.events.wake_timer import EVENTS_AT_ONCE
from interlock.protocols.mcpl.coalescing import EventGroup
from loop_clock import advance

from .running_hub import RunningHub, running_hub, until

WAKE = LiveRuleSettings(then="wake", quiet_s=0)


class Wall:
    """The clock on the wall, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = timedelta()
        monkeypatch.setattr(wake_decisions, "local_now", lambda: self.at)
        for module in (wakes, wake_decisions, usage):
            monkeypatch.setattr(module, "now", lambda: self.at.timestamp())
        monkeypatch.setattr(wakes, "AGAIN_S", 0.01)
        monkeypatch.setattr(wakes, "RECHECK_S", 0.05)

    @property
    def at(self) -> datetime:
        return datetime.now().astimezone() + self._ahead

    def move(self, to: datetime) -> None:
        """Set it. It goes on from there."""
        self._ahead = to - datetime.now().astimezone()


class Waking:
    """A hub whose agent `mine` gets the messages of one webhook."""

    def __init__(self, hub: RunningHub) -> None:
        self.hub = hub
        self.live = hub.hub_app.live
        self.queue = self.live.deliveries

    async def take(self, id: str, *tags: str, size: int = 10, channel: str | None = None) -> bool:
        """Let a message come. Returns whether it woke at once."""
        text = [{"type": "text", "text": id}]
        found = await self.live.intake.take(
            IncomingEvent("hook:ci", id, "build", text, size, {}, tags, channel), ("mine",)
        )
        return bool(found.inference_id)

    @property
    def woken(self) -> int:
        """The events for which the agent was woken."""
        return len(list(self.queue.woken_for("mine")))

    async def causes(self) -> dict[str, tuple[str, str]]:
        rows = (await self.hub.operate("events.list"))["events"]
        return {row["event"]: (row["outcome"], row["cause"]) for row in rows}

    async def count(self) -> int:
        """The wakes of these days."""
        return sum(row["wakes"] for row in (await self.hub.operate("usage", days=3))["usage"])

    async def reload(self, live: LiveSettings) -> None:
        await self.hub.hub_app.apply(replace(self.hub.hub_app.config, live=live))


@contextlib.asynccontextmanager
async def waking(folder: Path, rules: dict[str, LiveRuleSettings], **more: Any) -> AsyncIterator[Waking]:
    hooks = {"ci": HookSettings(agent="mine", secret_env="CI_SECRET")}
    async with running_hub(folder, {}, live=LiveSettings(rules=rules, wakes_per_hour=None, **more), hooks=hooks) as hub:
        yield Waking(hub)


async def test_an_alarm_wakes_in_quiet_hours_and_the_rest_when_they_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch)
    night = wall.at.replace(hour=3)
    wall.move(night)
    urgent = LiveRuleSettings(then="wake", tags_any=("level:alarm",), through_quiet_hours=True, quiet_s=0)
    rules = {"urgent": urgent, "normal": WAKE}
    quiet = QuietHoursSettings(start="22:00", end="07:00")
    async with waking(tmp_path, rules, quiet_hours=quiet) as hub:
        assert not await hub.take("n1")
        assert await hub.take("a1", "level:alarm"), "whatever waits already"
        assert hub.woken == 1
        wall.move(night.replace(hour=8))  # The machine slept: its own clock stood still.
        await until(lambda: hub.woken == 2)
        wall.move(night)
        assert not await hub.take("n2")
        assert (await hub.causes())["n2"] == ("held", "quiet_hours, rule normal")
        await hub.reload(LiveSettings(rules=rules))
        await until(lambda: hub.woken == 3)
        assert await hub.count() == 3


async def test_events_beyond_a_budget_of_tokens_wake_when_it_has_room_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch)
    rules = {"w": LiveRuleSettings(then="wake", quiet_s=600, longest_s=600, tokens_per_hour=1_000)}
    async with waking(tmp_path, rules) as hub:
        updates = hub.hub.hub_app.bus.subscribe(EventFilter.of(ResourceUpdated))
        assert [await hub.take(f"e{number}", size=1_600) for number in range(4)] == [True, False, False, False]
        advance(600)
        await until(lambda: hub.woken == 2)
        found = await hub.causes()
        assert [found[f"e{number}"] for number in (2, 3)] == [("held", "budget, rule w")] * 2
        assert len(updates.take()) == 4, "an event that waits already is no news to subscribers"
        assert hub.live.wakes.spent("mine") == (2, 802)
    async with waking(tmp_path, rules) as hub:
        assert (hub.woken, await hub.count()) == (2, 2), "the wake was not for the two that it had no room for"
        wall.move(wall.at + timedelta(hours=2))
        await until(lambda: hub.woken == 4)
        assert await hub.count() == 3


async def test_a_budget_stays_with_its_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Wall(monkeypatch)
    limited = replace(WAKE, wakes_per_hour=1)
    async with waking(tmp_path, {"limited": limited}) as hub:
        assert [await hub.take("e1"), await hub.take("e2")] == [True, False]
        above = replace(WAKE, tags_any=("level:alarm",), wakes_per_hour=1)
        await hub.reload(LiveSettings(rules={"above": above, "limited": limited}))
        assert [await hub.take("e3"), await hub.take("a1", "level:alarm")] == [False, True]


async def test_t114_many_held_groups_never_stop_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server chooses its channels, and so the number of groups. Work is counted, as time depends on the machine."""
    groups, looked, turn = 100, 0, 0
    judged: Counter[int] = Counter()
    due, still_waiting = EventGroup.due.fget, EventDeliveries.still_waiting  # type: ignore[attr-defined]

    def looked_at(group: EventGroup[str]) -> float:
        nonlocal looked
        looked += 1
        return float(due(group))

    def found(self: EventDeliveries, ids: Any, agent: str) -> Any:
        judged[turn] += 1
        return still_waiting(self, ids, agent)

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if judged.total() < groups:
            asyncio.get_running_loop().call_soon(next_turn)

    monkeypatch.setattr(EventGroup, "due", property(looked_at))
    monkeypatch.setattr(EventDeliveries, "still_waiting", found)
    monkeypatch.setattr(wakes, "RECHECK_S", 3600.0)
    async with waking(tmp_path, {"w": replace(WAKE, tokens_per_hour=1)}) as hub:
        await asyncio.gather(*(hub.take(f"e{number}", size=400, channel=f"c{number}") for number in range(groups)))
        assert hub.live.wakes.waiting_groups == groups, "all are held"
        assert looked < 10 * groups, "a group that joins does not look at all others"
        looked = 0
        next_turn()
        advance(3600)
        await until(lambda: judged.total() == groups)
        assert max(judged.values()) <= EVENTS_AT_ONCE, "few in each turn of the loop"
        assert hub.live.wakes.waiting_groups == groups, "and all wait again"
        assert looked < 20 * groups
        looked = 0
    async with waking(tmp_path, {"w": replace(WAKE, tokens_per_hour=1)}) as hub:
        assert hub.live.wakes.waiting_groups == groups
        assert looked < 10 * groups, "nor at the next start"


async def test_t114_a_restart_ends_no_loop_guard(tmp_path: Path) -> None:
    async with waking(tmp_path, {"w": WAKE}) as hub:
        for number in range(4):
            assert await hub.take(f"e{number}") is (number < 3)
            hub.live.causes.on_called("mine", "hook:ci")
    async with waking(tmp_path, {"w": WAKE}) as hub:
        assert (hub.woken, await hub.count()) == (3, 3), "an event that was held as a loop stays held"
        hub.live.causes.on_called("mine", "hook:ci")
        assert not await hub.take("e4"), "the turn that the last wake began goes on"


def test_only_calls_in_a_turn_that_a_wake_began_lead_to_an_event() -> None:
    chains = WakeChains()
    chains.on_called("mine", "files")
    assert chains.chain("files", "mine") == ()
    chains.on_woken("mine", ("other", "mine"))
    chains.on_called("mine", "files")
    assert chains.led_to("files", "mine") == ("other", "mine", "mine")
    chains.on_woken("mine", ("other", "mine"), ago_s=WOKEN_TURN_S + 1)
    chains.on_called("mine", "web")
    assert chains.chain("web", "mine") == ()
