"""Events of servers for clients that are hosts of MCPL: each reaches one client once, also over restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock.host import client_pushes
from interlock.hub.live.events.documents import LIVE_PENDING
from interlock.wire.errors import Fault
from waiting import until

from .host_client import HostClient
from .host_scene import TURN, asked, between, drive, event
from .test_journal import entries_soon


@pytest.mark.parametrize("modern", [False, True])
async def test_events_reach_the_client_that_selected_them_once_and_nobody_else(tmp_path: Path, modern: bool) -> None:
    async with between(tmp_path) as hub:
        async with (
            HostClient(hub, "mine", modern=modern).running() as mine,
            HostClient(hub, "other", modern=modern).running() as other,
        ):
            for client in (mine, other):
                client.answers["push/event"] = {"accepted": True, "inferenceId": "inf_c"}
                await client.select("a.note.alarm")
            events = [event("e1", "hid\u200bden"), event("e0", feature="note.alarm")]
            assert all(answer["result"]["accepted"] for answer in await drive(hub, "a", "push", events=events))
            first = (await asked(mine))["params"]
            assert first["eventId"] == "a/e0", "it did not select the set of the other, so that event waits"
            await mine.select("a.note.push")
            said = (await asked(mine))["params"]
            assert (said["featureSet"], said["eventId"]) == ("a.note.push", "a/e1")
            assert said["payload"]["content"][-1]["text"] == "hid\\u{200B}den"
            assert said["origin"] == {"hook": "sky", "dev.interlock/server": "a"}
            assert said["timestamp"] == event("e1")["timestamp"], "when it happened, by the server's word"
            await drive(hub, "a", "push", events=[event("e1"), event("e2")])
            assert (await asked(mine))["params"]["eventId"] == "a/e2", "a repeated event is no event"
            rows = await entries_soon(hub, 3, event="dev.interlock.live_passed")
            assert [(row.record.details or {})["outcome"] for row in rows] == ["accepted"] * 3
            await hub.operate("features.disable", server="a", features=["note.push"], agent="mine")
            (refused,) = await drive(hub, "a", "push", events=[event("e3")])
            assert refused["error"]["code"] == -32001
            assert mine.asked.empty()
            assert other.asked.empty()


async def test_events_that_were_not_pushed_when_the_hub_stops_wait_for_the_next_run(tmp_path: Path) -> None:
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=True).running() as client:
        first: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        async def never(message: dict[str, Any]) -> dict[str, Any]:
            first.set_result(message["params"])
            return await asyncio.get_running_loop().create_future()

        client.answers["push/event"] = never
        await drive(hub, "a", "push", events=[event("e1"), event("e2"), event("e3")])
        await client.select("a.note.push")
        assert (await asyncio.wait_for(first, 60))["eventId"] == "a/e1"
        await hub.host.close()
        waiting = [each.event for each in hub.hub_app.live.deliveries.waiting("mine")]
        assert waiting == ["e1", "e2", "e3"], "nobody answered for them"


async def test_events_that_nobody_answered_for_outlive_a_killed_hub_and_a_closed_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.transports.host_requests.CLOSED_S", 0)
    async with between(tmp_path) as hub:
        live, waits = hub.hub_app.live, asyncio.Event()

        async def late(message: dict[str, Any]) -> dict[str, Any]:
            pushed.append(message["params"]["eventId"])
            if len(pushed) > 1:
                waits.set()
                await asyncio.get_running_loop().create_future()
            return {"accepted": True}

        pushed: list[str] = []
        async with HostClient(hub, "mine", modern=True).running() as client:
            client.answers["push/event"] = late
            await drive(hub, "a", "push", events=[event("e1"), event("e2"), event("e3")])
            await client.select("a.note.push")
            await asyncio.wait_for(waits.wait(), 50)
            shown = {row.event: row.state for row in await live.usage.events(None, None, 10)}
            assert shown == {"e1": "delivered", "e2": "waiting", "e3": "waiting"}
            stored = {each.value.event: each.value.on_way for each in await hub.hub_app.store.find(LIVE_PENDING)}
            assert stored == {"e1": False, "e2": True, "e3": True}, "the next run lets those two wait"
        async with HostClient(hub, "mine", modern=True).running() as again:
            again.answers["push/event"] = {"accepted": True}
            async with asyncio.timeout(50):
                assert [(await again.asked.get())["params"]["eventId"] for _ in range(2)] == ["a/e2", "a/e3"]


async def test_an_event_that_was_refused_before_it_was_sent_is_pushed_again_a_bounded_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_pushes, "RETRY_S", 0.0)
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=True).running() as client:
        judging, refused, busy = hub.hub_app.judging, list[str](), [True]
        judge = judging.run_result

        async def refuse(principal_name: str, *given: Any) -> Any:
            if not busy[0]:
                return await judge(principal_name, *given)
            refused.append(principal_name)
            if len(refused) > client_pushes.RETRIES + 1:
                busy[0] = False
            raise Fault("RESOURCE_EXHAUSTED", "too many results wait to be judged")

        client.answers["push/event"] = {"accepted": True}
        await client.select("a.note.push")
        monkeypatch.setattr(judging, "run_result", refuse)
        await drive(hub, "a", "push", events=[event("e1")])
        await until(lambda: len(refused) == client_pushes.RETRIES + 1)
        rows = await entries_soon(hub, len(refused), event="dev.interlock.live_passed")
        assert {(row.record.details or {})["outcome"] for row in rows} == {"failed"}
        await until(lambda: [each.event for each in hub.hub_app.live.deliveries.waiting("mine")] == ["e1"])
        assert client.asked.empty()
        await drive(hub, "a", "push", events=[event("e2")])  # refused once more, and then pushed without another event
        assert [(await asked(client))["params"]["eventId"] for _ in range(2)] == ["a/e1", "a/e2"]


async def test_an_event_goes_to_another_client_when_the_session_of_the_first_ends(tmp_path: Path) -> None:
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=False).running() as first:
        asked_first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def never(message: dict[str, Any]) -> dict[str, Any]:
            asked_first.set_result(None)
            return await asyncio.get_running_loop().create_future()

        first.answers["push/event"] = never
        await drive(hub, "a", "push", events=[event("e1")])
        await first.select("a.note.push")
        await asyncio.wait_for(asked_first, 60)
        (session,) = (await hub.operate("sessions.list"))["sessions"]
        async with HostClient(hub, "mine", modern=True).running() as other:
            other.answers["push/event"] = {"accepted": True}
            await other.select("a.note.push")
            await hub.operate("sessions.end", id=session["id"])
            assert (await asked(other))["params"]["eventId"] == "a/e1"


async def test_the_next_run_lets_events_wait_that_were_on_their_way(tmp_path: Path) -> None:
    async with between(tmp_path) as hub:
        await drive(hub, "a", "push", events=[event("e1"), event("e2")])
        live = hub.hub_app.live
        (first, second), _ = await live.deliveries.take("mine", 9, 9_999, on_way=True)
        await live.deliveries.arrived("mine", [first])
    async with between(tmp_path) as hub:  # nothing put them back, as after a kill
        deliveries = hub.hub_app.live.deliveries
        assert [each.event for each in deliveries.waiting("mine")] == [second.event]
        assert deliveries.is_woken("mine")


async def test_a_client_that_comes_while_another_has_not_answered_gets_the_next_event(tmp_path: Path) -> None:
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=False).running() as old:
        first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        gives_up = asyncio.Event()

        async def fails(message: dict[str, Any]) -> dict[str, Any]:
            first.set_result(message["params"]["eventId"])
            await gives_up.wait()
            return {"error": {"code": -32603, "message": "no time"}}

        old.answers["push/event"] = fails
        await drive(hub, "a", "push", events=[event("e1"), event("e2")])
        await old.select("a.note.push")
        assert await asyncio.wait_for(first, 60) == "a/e1"
        async with HostClient(hub, "mine", modern=False).running() as new:
            new.answers["push/event"] = {"accepted": True}
            await new.select("a.note.push")
            await new.result("context/beforeInference", TURN)  # its selection was taken
            gives_up.set()
            assert (await asked(new))["params"]["eventId"] == "a/e2"
