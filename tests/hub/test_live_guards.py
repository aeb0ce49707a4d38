"""Bounds and recoveries of MCP Live, against a server that misuses them. It runs in the test's own process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from interlock.config.live_settings import LiveRuleSettings, LiveSettings
from interlock.config.settings import Rate
from interlock.config.settings import ServerSettings as Settings
from interlock.events import Bus
from interlock.hub.audit.recorder import Recorder
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.journal import Journal
from interlock.hub.live import owed_answers, server_messages, server_refusals
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events import deliveries as delivery
from interlock.hub.live.events import delivery_attachment, delivery_queue, delivery_tools
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.documents import LIVE_PENDING, PendingEvent, pending_id, seen_id
from interlock.hub.live.events.intake import EventIntake
from interlock.hub.live.events.passed_messages import PassedMessages
from interlock.hub.live.events.touches import Touches
from interlock.protocols.mcp.meta import SUBSCRIPTION_ID
from interlock.protocols.mcpl import coalescing
from interlock.protocols.mcpl.authorization import AuthorizedMessage
from interlock.protocols.mcpl.channels import ChannelAuthor, IncomingMessage
from interlock.protocols.mcpl.content import TextContent
from interlock.protocols.mcpl.events import PushResult
from interlock.protocols.mcpl.live import DELIVERY
from interlock.server import Server
from interlock.server.requests.listeners import Listeners
from interlock.store import Store, StoreUnavailable
from interlock.wire.errors import Fault
from loop_clock import advance

from .running_hub import RunningHub, running_hub, until
from .test_journal import entries
from .test_live_clients import client, texts, use

FEATURE = "news.push"


@contextlib.asynccontextmanager
async def pushing(folder: Path, rule: LiveRuleSettings | None = None) -> AsyncIterator[tuple[RunningHub, Server]]:
    """A hub of the stateless era's server `s`, whose events are enabled for the agent `mine`."""
    server = Server("s")
    server.feature(FEATURE, "News")

    @server.tool
    async def act(event: str) -> bool:
        """Change something, and push that."""
        return bool((await server.push(FEATURE, "Changed.", event_id=event))[0].inference_id)

    live = LiveSettings(rules={} if rule is None else {"w": rule}, wakes_per_hour=None, ask_s=0)
    async with (
        server.http() as address,
        running_hub(folder, {"s": Settings(url=address.url, era="modern")}, live=live) as hub,
    ):
        enable = {"server": "s", "features": [FEATURE], "agent": "mine", "terminal": True}
        await hub.operate("features.enable", **enable)
        yield hub, server


def quiet_touches() -> Touches:
    return Touches(lambda: 0.0, lambda *_: None)


def connection(hub: RunningHub) -> LiveConnection:
    found = hub.hub_app.live.connections.shared("s")
    assert found is not None
    return found


async def deliver(server: Server, *ids: str) -> None:
    """Send pushes as requests with these ids on the stream that the hub opened, as any program could."""
    deliver, left = Listeners.deliver, list(ids)

    def named(
        listeners: Listeners, principal_name: str, method: str, feature: str | None, params: bytes, id: str
    ) -> object:
        assert method == "push/event"
        sent = deliver(listeners, principal_name, method, feature, params, left.pop(0))
        assert sent is not None
        return sent

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Listeners, "deliver", named)
        pushes = [
            asyncio.ensure_future(server.push(FEATURE, "It rains.", event_id=f"{id_}-{number}"))
            for number, id_ in enumerate(ids)
        ]
        await until(lambda: not left)
    for push in pushes:
        push.cancel()  # The answers have the names above, and nobody waits for them.


async def test_t114_a_server_cannot_open_more_requests_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()

    async def serve(*_: object) -> PushResult:
        await go_on.wait()
        return PushResult(True)

    monkeypatch.setattr(server_messages, "MAX_OPEN", 3)
    monkeypatch.setattr(server_refusals, "RATE", Rate(per_minute=15))
    async with pushing(tmp_path) as (hub, server):
        monkeypatch.setattr(EventIntake, "serve", serve)
        live, refused = connection(hub), hub.hub_app.live.refusals.counts
        await deliver(server, *["same"] * 20)
        await until(lambda: refused.get("s", 0) == 19)
        assert live.open == {"same"}, "one id is one request"
        await deliver(server, *(f"n{number}" for number in range(20)))
        await until(lambda: refused["s"] == 19 + 18)
        assert len(live.open) == 3
        await until(lambda: len(live.requests) == 3)
        go_on.set()
        await until(lambda: not live.open and not len(live.requests))
        recorded = [found.record for found in await entries(hub, event="dev.interlock.live_refused")]
        assert len(recorded) == 15, "a server cannot fill the audit log with what was refused"


async def test_t39_every_push_of_many_at_once_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()

    async def serve(*_: object) -> PushResult:
        await go_on.wait()
        return PushResult(True)

    monkeypatch.setattr(server_messages, "MAX_OPEN", 2)
    monkeypatch.setattr(server_messages, "MAX_TASKS", 4)
    async with pushing(tmp_path) as (_, server):
        monkeypatch.setattr(EventIntake, "serve", serve)
        pushes = [asyncio.ensure_future(server.push(FEATURE, "It rains.", event_id=f"e{each}")) for each in range(40)]
        await until(lambda: sum(push.done() for push in pushes) == 38)
        go_on.set()
        answers = [(await push)[0] for push in pushes]
        assert sum(answer.accepted for answer in answers) == 2
        assert {answer.reason for answer in answers if not answer.accepted} == {"2 requests are open"}


async def test_t39_a_server_that_takes_no_answers_loses_its_stream_and_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pushing(tmp_path) as (hub, server):
        with monkeypatch.context() as patch:
            patch.setattr(owed_answers, "MAX_OWED", 0)
            (answer,) = await server.push(FEATURE, "It rains.", event_id="a")
            assert "closed its stream" in str(answer.reason)
        again = connection(hub).connection
        await until(lambda: again.pending)
        async with asyncio.timeout(60):
            while not (answers := await server.push(FEATURE, "It pours.", event_id="b")):
                await again.check()  # The server may not have read the new subscription yet.
        assert answers[0].accepted


async def test_t39_a_push_over_the_limit_of_a_notification_is_answered(tmp_path: Path) -> None:
    async with pushing(tmp_path) as (_, server):
        (answer,) = await server.push(FEATURE, 300_000 * "x", event_id="a")
        assert "over the limit of 262144 bytes" in str(answer.reason)


async def test_t39_a_message_that_names_a_subscription_of_somebody_else_is_refused(tmp_path: Path) -> None:
    async with pushing(tmp_path) as (hub, server):
        assert (await server.push(FEATURE, "It rains.", event_id="a"))[0].accepted
        live = hub.hub_app.live
        params = {"featureSet": FEATURE, "eventId": "b", "payload": {"content": [{"type": "text", "text": "x"}]}}
        said = {"method": "push/event", "params": params, "id": "x", "_meta": {SUBSCRIPTION_ID: 99_999}}
        live.connections.on_notification("s", None, DELIVERY, msgspec.json.encode(said))
        assert (live.refusals.counts, connection(hub).open) == ({"s": 1}, set())
        (refused,) = [found.record for found in await entries(hub, event="dev.interlock.live_refused")]
        assert "names a subscription" in str(refused.reason)


async def test_t39_a_request_on_the_stream_that_cannot_be_read_is_answered_if_it_names_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver = Listeners.deliver

    def twice(
        listeners: Listeners, principal_name: str, method: str, feature: str | None, params: bytes, id: str
    ) -> object:
        return deliver(listeners, principal_name, method, feature, b'{"eventId":"a","eventId":"b"}', id)

    monkeypatch.setattr(Listeners, "deliver", twice)
    async with pushing(tmp_path) as (hub, server):
        (answer,) = await server.push(FEATURE, "It rains.", event_id="a")
        assert not answer.accepted
        assert "eventId" in (answer.reason or "")
        assert hub.hub_app.live.refusals.counts == {"s": 1}


async def test_t114_notifications_of_a_server_that_are_under_way_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waits:
        async def serve(self, *_: object) -> msgspec.Struct:
            await asyncio.Event().wait()
            raise AssertionError

    async with pushing(tmp_path) as (hub, _):
        monkeypatch.setattr(server_messages, "MAX_TASKS", 2)
        monkeypatch.setattr(
            server_messages, "admit", lambda *_, **__: AuthorizedMessage(cast(Any, None), cast(Any, None))
        )
        found, live = hub.hub_app.live.connections, connection(hub)
        found.messages.serve_with("channels/changed", Waits())
        for _ in range(5):
            found.on_notification("s", None, "channels/changed", b"{}")
        assert len(live.requests) == 2
        assert hub.hub_app.live.refusals.counts["s"] == 3
        await found.on_greeted("s", None, None, live.connection)
        await asyncio.wait_for(live.requests.settled(), 30)  # a session that was lost leaves no work
        assert connection(hub) is not live


@pytest.mark.parametrize(("size", "most"), [(10, 1_000), (64 * 1024, 128)])
async def test_an_event_that_is_committed_takes_its_room_once(tmp_path: Path, size: int, most: int) -> None:
    async with handing_on(tmp_path, "a") as (deliveries, store):
        event = PendingEvent(
            pending_id("mine", 1.0), "mine", "s", "e1", "news", 1.0, [], "held", "", "", "", {}, (), "", size
        )  # fmt: skip
        assert room(deliveries, "s", size) == most
        deliveries.reserve("mine", "s", seen_id("s", "e1"), size)
        async with store.transaction() as change:
            change.put(LIVE_PENDING, event)
        await until(lambda: deliveries.has_waiting("mine"))
        assert room(deliveries, "s", size) == most - 1, "before its answer is given"
        deliveries.release("mine", seen_id("s", "e1"))
        assert room(deliveries, "s", size) == most - 1
        async with store.transaction() as change:
            change.delete(LIVE_PENDING, event.id)
        await until(lambda: not deliveries.has_waiting("mine"))
        assert room(deliveries, "s", size) == most


class Everyone:
    def addressed(self, server: str, agent: str, feature: str) -> bool:
        return True


async def test_two_hubs_of_one_store_hand_out_an_event_once(tmp_path: Path) -> None:
    stores = [await Store.open(tmp_path / "hub.db", COLLECTIONS) for _ in range(2)]
    recorders = [await Recorder.open(store, name, tmp_path / name) for name, store in zip("ab", stores, strict=True)]
    hubs = [
        EventDeliveries(cast(Any, Everyone()), Journal(lambda: recorders[0]), Bus(), quiet_touches()) for _ in stores
    ]
    for name, hub, store in zip("ab", hubs, stores, strict=True):
        await hub.start(store, name)
    event = PendingEvent(pending_id("mine", 1.0), "mine", "s", "e1", "news", 1.0, [], "held")
    async with stores[0].transaction() as change:
        change.put(LIVE_PENDING, event)
    await until(lambda: all(hub.has_waiting("mine") for hub in hubs))
    taken = await asyncio.gather(*(hub.take("mine", 5, 1_000) for hub in hubs), return_exceptions=True)
    given = [events for each in taken if not isinstance(each, BaseException) for events in each[0]]
    assert [each.event for each in given] == ["e1"]
    await hubs[0].put_back("mine", given)
    await until(lambda: all(hub.has_waiting("mine") for hub in hubs))
    given, _ = await hubs[0].take("mine", 5, 1_000)
    async with stores[1].transaction() as change:
        change.delete(LIVE_PENDING, event.id)
    await hubs[0].put_back("mine", given)
    assert await stores[0].get(LIVE_PENDING, event.id) is None, "a withdrawn event does not come back"
    for recorder, store in zip(recorders, stores, strict=True):
        await recorder.close()
        await store.close()


@contextlib.asynccontextmanager
async def handing_on(folder: Path, node: str) -> AsyncIterator[tuple[EventDeliveries, Store]]:
    """The deliveries of one hub, on the store of this folder."""
    store = await Store.open(folder / "hub.db", COLLECTIONS)
    recorder = await Recorder.open(store, node, folder / node)
    deliveries = EventDeliveries(cast(Any, Everyone()), Journal(lambda: recorder), Bus(), quiet_touches())
    await deliveries.start(store, node)
    try:
        yield deliveries, store
    finally:
        await recorder.close()
        await store.close()


async def test_an_event_that_was_put_back_waits_once_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "KEEP_DELIVERED", 0)
    async with handing_on(tmp_path, "a") as (hub, store):
        held = PendingEvent(pending_id("mine", 1.0), "mine", "s", "e1", "news", time.time(), [], "held")
        async with store.transaction() as change:
            change.put(LIVE_PENDING, held)
        await until(lambda: hub.has_waiting("mine"))
        given, _ = await hub.take("mine", 5, 1_000)
        await hub.put_back("mine", given)
        await until(lambda: hub.has_waiting("mine"))
        assert hub.delivered("mine") == [], "it is not shown a second time"
        await hub.sweep(86_400)
        assert await store.get(LIVE_PENDING, held.id) is not None, "nobody has read it"


async def test_a_hub_that_starts_takes_back_only_events_that_it_handed_on_itself(tmp_path: Path) -> None:
    async with handing_on(tmp_path, "a") as (first, store):
        held = PendingEvent(pending_id("mine", 1.0), "mine", "s", "e1", "news", time.time(), [], "held")
        async with store.transaction() as change:
            change.put(LIVE_PENDING, held)
        await until(lambda: first.has_waiting("mine"))
        await first.take("mine", 5, 1_000, on_way=True)
        async with handing_on(tmp_path, "b") as (second, _):
            assert await second.take("mine", 5, 1_000) == ([], 0), "the first hub hands it on"
    async with handing_on(tmp_path, "a") as (again, _):
        assert [each.event for each in again.waiting("mine")] == ["e1"]


async def test_a_message_that_comes_twice_at_once_is_passed_on_once(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "hub.db", COLLECTIONS)
    passed = PassedMessages(lambda: store)
    message = IncomingMessage("chat", "m1", ChannelAuthor("1", "Ann"), "2026-01-23T10:30:00Z", (TextContent("Hi"),))
    found = await asyncio.gather(*(passed.begin("s", "mine", "news", [message]) for _ in range(2)))
    assert sorted(len(fresh) for fresh, _ in found) == [0, 1]
    await store.close()


def fill(deliveries: EventDeliveries, server: str, size: int, agent: str = "mine") -> int:
    """How many events of a server have room."""
    for number in range(5_000):
        try:
            deliveries.reserve(agent, server, seen_id(server, str(number)), size)
        except Fault as fault:
            assert fault.name == "RESOURCE_EXHAUSTED"
            return number
    raise AssertionError("no bound")


def room(deliveries: EventDeliveries, server: str, size: int) -> int:
    """How many further events of a server have room. Takes none of it."""
    found = fill(deliveries, server, size)
    for number in range(found):
        deliveries.release("mine", seen_id(server, str(number)))
    return found


@pytest.mark.parametrize(("size", "first", "second"), [(10, 1_000, 500), (64 * 1024, 128, 64)])
def test_t36_a_server_that_fills_its_room_leaves_room_for_others(size: int, first: int, second: int) -> None:
    deliveries = EventDeliveries(cast(Any, None), cast(Any, None), Bus(), quiet_touches())
    assert (fill(deliveries, "chatty", size), fill(deliveries, "alarms", size)) == (first, second)
    assert fill(deliveries, "hook:ci", size)


def test_t36_a_server_with_many_agents_leaves_room_for_other_servers() -> None:
    deliveries = EventDeliveries(cast(Any, None), cast(Any, None), Bus(), quiet_touches())
    assert sum(fill(deliveries, "chatty", 10, f"x{number}") for number in range(21)) == 10_000
    assert fill(deliveries, "hook:ci", 10) == 1_000


async def test_t36_an_agent_that_reads_nothing_keeps_no_other_from_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_queue, "MAX_PER_AGENT", 4)
    async with pushing(tmp_path) as (hub, server):
        await hub.operate("features.enable", server="s", features=[FEATURE], agent="idle", terminal=True)
        live = hub.hub_app.live
        for number in range(4):
            assert (await server.push(FEATURE, f"Number {number}.", event_id=f"e{number}"))[0].accepted
            assert [each.event for each in (await live.deliveries.take("mine", 5, 1_000))[0]] == [f"e{number}"]
        rows = (await hub.operate("events.list", agent="idle"))["events"]
        assert {(row["event"], row["state"]) for row in rows} == {
            ("e0", "waiting"), ("e1", "waiting"), ("e2", "dropped"), ("e3", "dropped"),
        }  # fmt: skip
        assert {row["cause"] for row in rows if row["state"] == "dropped"} == {"no_rule; no room for 1 of its agents"}
        monkeypatch.setattr(delivery, "now", lambda: time.time() + 8 * 24 * 3600)
        await live.sweep()
        assert live.deliveries.waiting("idle") == [], "nor does anything wait for ever"
        (gone,) = [found.record for found in await entries(hub, event="dev.interlock.live_withdrawn")]
        assert gone.details == {"agent_id": "idle", "events": ["e0", "e1"], "count": 2}
        assert (await server.push(FEATURE, "Again.", event_id="e4"))[0].accepted
        assert len(live.deliveries.waiting("idle")) == 1


async def test_a_push_that_the_store_fails_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(*_: object) -> PushResult:
        raise StoreUnavailable("gone")

    async with pushing(tmp_path) as (_, server):
        monkeypatch.setattr(EventIntake, "serve", serve)
        (answer,) = await server.push(FEATURE, "It rains.", event_id="e1")
        assert "internal error" in str(answer.reason)


async def test_a_server_that_goes_while_its_event_is_committed_still_wakes_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, go_on = asyncio.Event(), asyncio.Event()
    transaction = Store.transaction

    @contextlib.asynccontextmanager
    async def slow(store: Store) -> AsyncIterator[Any]:
        async with transaction(store) as open_:
            yield open_
        committed.set()
        await go_on.wait()

    async with pushing(tmp_path, LiveRuleSettings(then="wake", quiet_s=0.5)) as (hub, server):
        await server.push(FEATURE, "It rains.", event_id="e1")
        live, found = hub.hub_app.live, connection(hub)
        assert live.wakes.spent("mine")[0] == 1
        monkeypatch.setattr(Store, "transaction", slow)
        await deliver(server, "x")
        await committed.wait()
        live.connections.on_closed("s", None, found.connection)
        await asyncio.sleep(0)
        go_on.set()
        await until(lambda: live.wakes.spent("mine")[0] == 2)


async def test_a_rule_that_becomes_drop_leaves_accepted_events_held(tmp_path: Path) -> None:
    async with pushing(tmp_path, LiveRuleSettings(then="wake", quiet_s=600, longest_s=600)) as (hub, server):
        for number in range(2):
            await server.push(FEATURE, f"Number {number}.", event_id=f"e{number}")
        wakes = hub.hub_app.live.wakes
        assert wakes.waiting_groups == 1, "the second event waits for its group's wake"
        rules = LiveSettings(rules={"w": LiveRuleSettings(then="drop")})
        await hub.hub_app.apply(replace(hub.hub_app.config, live=rules))
        advance(600)
        await until(lambda: wakes.waiting_groups == 0)
        assert "Number 1." in texts(await use(client(hub, "mine"), "read_events"))[1]
        assert wakes.waiting_groups == 0, "nor does it wait again, for ever"
        assert (await server.push(FEATURE, "Later.", event_id="e3"))[0].accepted is False


async def test_a_wake_that_cannot_be_committed_is_not_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pushing(tmp_path, LiveRuleSettings(then="wake", quiet_s=600, wakes_per_hour=2)) as (hub, server):
        with monkeypatch.context() as patch:
            patch.setattr(Store, "transaction", lambda _: _failing())
            assert (await server.push(FEATURE, "It rains.", event_id="e1"))[0].accepted is False
        assert hub.hub_app.live.wakes.spent("mine") == (0, 0)
        (answer,) = await server.push(FEATURE, "It rains.", event_id="e1")
        assert answer.inference_id, "it wakes at once: no event of its group came before"
        monkeypatch.setattr(coalescing, "MAX_KEYS", 0)
        await server.push(FEATURE, "It pours.", event_id="e2")
        await until(lambda: hub.hub_app.live.wakes.spent("mine")[0] == 2)  # no group takes it, so it wakes by itself


@contextlib.asynccontextmanager
async def _failing() -> AsyncIterator[Any]:
    yield _Nothing()
    raise StoreUnavailable("gone")


class _Nothing:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def test_a_read_of_events_that_fails_is_recorded_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take(*_: object) -> Any:
        raise Fault("RESOURCE_EXHAUSTED", "the events are being read elsewhere")

    async with pushing(tmp_path) as (hub, _):
        monkeypatch.setattr(EventDeliveries, "take", take)
        answer = await client(hub, "mine").modern("resources/read", {"uri": "interlock://events"})
        assert answer["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
        found = [entry.record for entry in await entries(hub) if entry.record.name == "interlock://events"]
        assert [entry.outcome and entry.outcome.tool for entry in found] == ["error"], found


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (delivery_tools, {"name": "read_events"}),
        (delivery_attachment, {"name": "s__act", "arguments": {"event": "e2"}}),
    ],
)
async def test_events_that_cannot_be_judged_wait_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, call: dict[str, Any]
) -> None:
    def fail(*_: object) -> Any:
        raise Fault("RESOURCE_EXHAUSTED", "too much waits to be judged")

    async with pushing(tmp_path) as (hub, server):
        await server.push(FEATURE, "It rains.", event_id="e1")
        mine = client(hub, "mine")
        with monkeypatch.context() as patch:
            patch.setattr(module, "blocks", fail)
            assert "It rains." not in str(await mine.modern("tools/call", call))
        assert "It rains." in str(await use(mine, "read_events"))


@pytest.mark.parametrize("loops", [False, True])
async def test_t114_an_agent_and_a_server_do_not_wake_each_other_for_ever(tmp_path: Path, loops: bool) -> None:
    async with pushing(tmp_path, LiveRuleSettings(then="wake", quiet_s=0, loops=loops)) as (hub, server):
        woke = [bool((await server.push(FEATURE, "It rains.", event_id="first"))[0].inference_id)]
        mine = client(hub, "mine")
        for number in range(6):
            result = await use(mine, "s__act", event=f"n{number}")
            woke.append(texts(result)[0] == "true")
        assert woke == ([True] * 7 if loops else [True] * 4 + [False] * 3)
        cause = (await hub.operate("events.list"))["events"][0]["cause"]
        assert cause == ("rule w" if loops else "loop, rule w")
