"""Many calls that wait in the hub: none is lost, none is made twice, and each caller is told the truth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from example_counts import example_count
from interlock.config.settings import HubSettings, LimitSettings, ServerSettings, TimeoutSettings
from interlock.transports.requests.call_parking import CallParking
from interlock.transports.requests.call_parking import ParkingLimits as ParkingLimits
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker
from loop_clock import advance

from .asking_server import Counts, asking_server
from .legacy_client import answers
from .modern_client import ModernClient
from .running_hub import RunningHub, child, running_hub, text_of, until

CALLS = example_count(300, 1000)
OWNERS = 10
AT_ONCE = 40
SECONDS = 10.0
"""Long enough for those that expire to be parked while all the others wait."""
TIMEOUTS = TimeoutSettings(start_s=30, discovery_s=10, tool_s=20)


async def each(
    numbers: Iterable[int], hub: RunningHub, work: Callable[[RunningHub, int], Coroutine[None, None, None]]
) -> None:
    """Do it for all of them, a bounded number at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with turn:
            await work(hub, number)

    await asyncio.gather(*(one(number) for number in numbers))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.hypothesis  # `make soak` runs it too, with a thousand
async def test_hundreds_of_parked_calls_are_answered_cancelled_and_expire_with_a_restart_in_between(
    tmp_path: Path,
) -> None:
    """All wait at once. Half of each third ends before the restart; the others are cut off by it, told so, made anew by
    their callers, and end after it."""
    third = CALLS // 3
    answered, cancelled, expired = range(third), range(third, 2 * third), range(2 * third, CALLS)
    early = [number for number in range(CALLS) if number % 2]
    late = [number for number in range(CALLS) if not number % 2]
    counts = Counts()
    before = asyncio.all_tasks()
    replies: dict[int, dict[str, Any]] = {}
    again: set[int] = set()

    def mark(number: int) -> str:
        return f"{number} again" if number in again else str(number)

    def params(number: int) -> dict[str, Any]:
        name = "a__order_slowly" if number in cancelled else "a__order"
        return {"name": name, "arguments": {"mark": mark(number)}}

    def client(hub: RunningHub, number: int) -> ModernClient:
        name = f"owner{number % OWNERS}"
        return ModernClient(hub.url + "/mcp", answers(name), keys[name])

    async def park(hub: RunningHub, number: int) -> None:
        caller = client(hub, number)
        replies[number] = caller.reply((await caller.ask("tools/call", params(number)))["result"])

    async def finish(hub: RunningHub, number: int) -> None:
        answer = await client(hub, number).ask("tools/call", params(number), **replies[number])
        assert json.loads(text_of(answer))[1]["name"] == f"owner{number % OWNERS}"

    async def leave(hub: RunningHub, number: int) -> None:
        retry = asyncio.ensure_future(client(hub, number).ask("tools/call", params(number), **replies[number]))
        await until(lambda: counts.ended[f"waiting {mark(number)}"] == 1)
        retry.cancel()

    async def refuse(hub: RunningHub, number: int) -> None:
        answer = await client(hub, number).ask("tools/call", params(number), **replies[number])
        assert answer["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"

    def ended(how: str, numbers: Iterable[int]) -> int:
        return sum(counts.ended[f"{how} {mark(number)}"] for number in numbers)

    async def park_all(hub: RunningHub, numbers: list[int]) -> None:
        """Those that will expire come last, with less time than the others."""
        await each([number for number in numbers if number not in expired], hub, park)
        hub.hub_app.parking.bound(ParkingLimits(seconds=SECONDS))
        await each([number for number in numbers if number in expired], hub, park)
        hub.hub_app.parking.bound(ParkingLimits())

    async def end_all(hub: RunningHub, numbers: list[int]) -> None:
        """Each in its way, and each told the same again when it asks again."""
        mine = {fate: [n for n in numbers if n in fate] for fate in (answered, cancelled, expired)}
        await each(mine[answered], hub, finish)
        await each(mine[answered], hub, finish)
        await each(mine[cancelled], hub, leave)
        await until(lambda: ended("cancelled", mine[cancelled]) == len(mine[cancelled]))
        await until(lambda: ended("cancelled", mine[expired]) == len(mine[expired]))
        await each(mine[cancelled] + mine[expired], hub, refuse)

    async with asking_server(counts).http() as address:
        servers = {"a": ServerSettings(url=address.url, era="legacy")}
        # Each hub makes its own secrets, as a process that was started anew does.
        async with running_hub(tmp_path, servers) as hub:
            keys = {f"owner{number}": await hub.new_key(f"owner{number}") for number in range(OWNERS)}
            await each(late, hub, park)
            await park_all(hub, early)
            assert len(hub.hub_app.parking) == hub.hub_app.hub.open_calls == CALLS
            await end_all(hub, early)
            assert hub.hub_app.hub.open_calls == len(late)
        assert hub.hub_app.hub.open_calls == len(hub.hub_app.parking) == 0
        await until(lambda: ended("cancelled", late) == len(late))
        async with running_hub(tmp_path, servers) as hub:
            await each(late, hub, refuse)
            await each([number for number in early if number in answered], hub, refuse)
            again.update(late)
            await park_all(hub, late)
            assert len(hub.hub_app.parking) == hub.hub_app.hub.open_calls == len(late)
            await end_all(hub, late)
            assert hub.hub_app.hub.open_calls == 0
            assert len(hub.hub_app.parking) == len([number for number in late if number in answered])
        assert len(hub.hub_app.parking) == 0
    assert counts.runs == {str(n): 1 for n in range(CALLS)} | {f"{n} again": 1 for n in late}
    assert ended("answered", range(CALLS)) == ended("answered", answered) == third
    assert asyncio.all_tasks() <= before


async def test_what_may_wait_is_bounded_for_one_principal_and_in_all(tmp_path: Path) -> None:
    async with asking_server().http() as address:
        servers = {"a": ServerSettings(url=address.url, era="legacy")}
        settings = HubSettings(timeouts=TIMEOUTS, limits=LimitSettings(parked=3, parked_per_agent=2))
        async with running_hub(tmp_path, servers, hub=settings) as hub:
            ada, bob = (ModernClient(hub.url + "/mcp", answers(name), hub.key(name)) for name in ("ada", "bob"))

            async def order(caller: ModernClient, mark: str) -> str:
                answer = await caller.ask("tools/call", {"name": "a__order", "arguments": {"mark": mark}})
                return str(answer["result"]["resultType"] if "result" in answer else answer["error"]["message"])

            assert [await order(ada, "1"), await order(ada, "2")] == ["input_required"] * 2
            assert "too many calls wait" in await order(ada, "3")
            assert await order(bob, "4") == "input_required"
            assert "too many calls wait" in await order(bob, "5")
            assert len(hub.hub_app.parking) == 3
            wider = msgspec.structs.replace(settings, limits=LimitSettings(parked=4, parked_per_agent=2, parked_s=0.3))
            await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, hub=wider))
            assert await order(bob, "6") == "input_required"
            assert "too many calls wait" in await order(bob, "7")
            # Calls that waited before the change keep their time; later ones have the new time.
            await until(lambda: len(hub.hub_app.parking) == 3)
            assert "too many calls wait" in await order(ada, "8")


async def test_a_server_that_goes_while_its_call_is_parked_is_told_of_in_the_retry(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child("asking_server.py", era="legacy")}) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        reply = client.reply(await client.start("a__order"))
        (private,) = hub.hub_app.upstreams["a"].pool.private.open_connections()
        await private.connection.close()
        answer = await client.ask("tools/call", {"name": "a__order", "arguments": {}}, **reply)
        assert answer["error"]["data"]["name"] == "OUTCOME_UNKNOWN"
        assert hub.hub_app.hub.open_calls == 0


async def test_a_person_may_take_longer_than_the_tool_may(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=msgspec.structs.replace(TIMEOUTS, tool_s=60))
    counts = Counts()
    async with asking_server(counts).http() as address:
        servers = {"a": ServerSettings(url=address.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=settings) as hub:
            client = ModernClient(hub.url + "/mcp", answers("ada"))
            reply = client.reply(await client.start("a__order"))
            advance(61)
            answer = await client.ask("tools/call", {"name": "a__order", "arguments": {}}, **reply)
            assert json.loads(text_of(answer))[0] == "accept"
            slow = client.reply(await client.start("a__order_slowly"))
            late = asyncio.ensure_future(client.ask("tools/call", {"name": "a__order_slowly", "arguments": {}}, **slow))
            await until(lambda: counts.ended["waiting "])
            advance(61)
            assert (await late)["error"]["data"]["name"] == "UPSTREAM_TIMEOUT"


class WaitingCall:
    """A call that does nothing but wait."""

    principal_name = "ada"

    def expired(self) -> None: ...

    def resume(self, exchange: object, round: int, given: bytes) -> None: ...


async def test_what_is_kept_for_calls_is_bounded_in_bytes_and_gives_way_to_open_questions() -> None:
    parking = CallParking(ParkingLimits(held_bytes=100), b"secret", Worker("ntest"))
    first, second, third = (parking.park(WaitingCall(), bytes([number])) for number in range(3))
    parking.next_round(first, 40)
    parking.keep(first, 60)
    parking.next_round(second, 90)
    assert len(parking) == 2, "the kept outcome made room"
    with pytest.raises(Fault, match="too large"):
        parking.next_round(third, 20)
    parking.leave(second)
    parking.next_round(third, 100)
    parking.keep(third, 101)
    assert len(parking) == 0
    parking.next_round(parking.park(WaitingCall(), b""), 100)
