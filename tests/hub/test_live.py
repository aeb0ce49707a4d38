"""MCP Live through a whole hub: negotiation, feature sets, pushes, wakes, and what is refused."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.live_settings import LiveRuleSettings, LiveSettings
from interlock.config.rates import Rate
from interlock.hub.admin.features import why_missing
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.hub.live.events import intake
from interlock.hub.live.events.documents import LIVE_SEEN
from interlock.wire.errors import Fault

from .running_hub import RawClient, RunningHub, child, running_hub, until
from .test_journal import entries

DECLARED = {
    "news.push": {"description": "News", "uses": ["pushEvents"]},
    "news.more": {"description": "More news", "uses": ["pushEvents"]},
    "news.think": {"description": "Thinks", "uses": ["inferenceRequest"]},
    "news.odd": {"description": "Odd", "uses": ["telepathy"]},
}
HOMES = {
    "experimental": lambda said: {"experimental": {"mcpl": said}},
    "extensions": lambda said: {"extensions": {"dev.interlock/mcpl": said}},
}


def offer(version: str = "0.4", home: str = "experimental", **more: Any) -> str:
    """The capabilities of a server that speaks MCPL."""
    flags = {"pushEvents": True, "inferenceRequest": {}} | more
    return json.dumps(HOMES[home]({"version": version, "featureSets": DECLARED, "unknown": [1], **flags}))


def event(id: str = "e1", feature: str = "news.push", text: str = "It rains.", **more: Any) -> dict[str, Any]:
    """The params of a push."""
    said = {"featureSet": feature, "eventId": id, "timestamp": "2026-01-23T10:30:00Z", **more}
    return {"payload": {"content": [{"type": "text", "text": text}]}, **said}


@contextlib.asynccontextmanager
async def live_hub(
    folder: Path, capabilities: str = "", rules: Mapping[str, LiveRuleSettings] | None = None, **settings: Any
) -> AsyncIterator[RunningHub]:
    """A hub with the server `s`, whose events are judged by these rules."""
    server = child("live_server.py", capabilities or offer(), json.dumps(settings.pop("meta", {})))
    live = LiveSettings(rules=dict(rules or {}), **settings)
    async with running_hub(folder, {"s": server}, live=live) as hub:
        yield hub


async def call(hub: RunningHub, tool: str, /, **arguments: Any) -> Any:
    """The answer of the server's tool to an agent that gets no events."""
    client = RawClient(hub.url + "/mcp", hub.key("driver"))
    answer = await client.modern("tools/call", {"name": f"s__{tool}", "arguments": arguments})
    return json.loads(answer["result"]["content"][0]["text"])


async def push(hub: RunningHub, *events: dict[str, Any]) -> list[Any]:
    """The answers that the server gets."""
    answers: list[Any] = await call(hub, "push", events=list(events))
    return answers


async def enable(hub: RunningHub, *features: str, agent: str = "local") -> None:
    await hub.operate("features.enable", server="s", features=list(features), agent=agent, terminal=True)


async def disable(hub: RunningHub, *features: str, agent: str = "local") -> None:
    await hub.operate("features.disable", server="s", features=list(features), agent=agent)


async def updates(hub: RunningHub) -> list[dict[str, Any]]:
    """The updates of feature sets that the server got, with the methods that came before the first."""
    return [message for message in await call(hub, "heard") if message.get("method") == "featureSets/update"]


def code(answer: dict[str, Any]) -> int:
    found: int = answer["error"]["code"]
    return found


@pytest.mark.parametrize(
    ("home", "version"),
    [("experimental", "0.4"), ("extensions", "0.4.1"), ("extensions", "0.5"), ("experimental", "0.5.0")],
)
async def test_feature_sets_are_off_until_a_person_enables_them(tmp_path: Path, home: str, version: str) -> None:
    async with live_hub(tmp_path, offer(version, home)) as hub:
        heard = [message.get("method") for message in await call(hub, "heard")]
        assert heard[1:4] == ["initialize", "notifications/initialized", "featureSets/update"], "before anything else"
        (first,) = await updates(hub)
        assert first["params"].get("enabled", []) == []
        assert sorted(first["params"]["disabled"]) == sorted(DECLARED)
        assert ("id" in first) is version.startswith("0.5"), "a request with a receipt, or a notification"
        (refused,) = await push(hub, event())
        if version.startswith("0.4"):
            assert (code(refused), refused["error"]["data"]["canEnable"]) == (-32001, True)
        else:
            assert code(refused) == -32002
        await enable(hub, "news.push")
        (accepted,) = await push(hub, event())
        assert accepted["result"] == {"accepted": True}
        assert (await updates(hub))[-1]["params"]["enabled"] == ["news.push"]
        await disable(hub, "news.push")
        (after,) = await push(hub, event("e2"))
        assert code(after) in (-32001, -32002), "it holds at once"
        assert "news.push" in (await updates(hub))[-1]["params"]["disabled"]


async def test_a_pattern_that_disables_is_shown_and_can_be_forgotten(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        await disable(hub, "*")
        await disable(hub, "news.*")
        await enable(hub, "news.push")
        rows = {row["feature"]: row for row in (await hub.operate("features.list"))["features"]}
        assert (rows["news.push"]["on"], rows["news.push"]["disabled"]) == (False, {"local": ["*", "news.*"]})
        named: dict[str, Any] = {"server": "s", "agent": "local"}
        with pytest.raises(Fault, match="needs a person"):
            await hub.operate("features.forget", features=["*"], **named)
        with pytest.raises(Fault, match="no pattern 'news'") as unknown:
            await hub.operate("features.forget", features=["*", "news"], **named, terminal=True)
        assert unknown.value.hint == "its patterns: *, news.*, news.push"
        assert "news.push" not in (await updates(hub))[-1]["params"].get("enabled", [])
        await hub.operate("features.forget", features=["*", "news.*"], **named, terminal=True)
        assert (await push(hub, event()))[0]["result"] == {"accepted": True}
        await hub.operate("features.forget", features=["news.push"], **named, terminal=True)
        assert code((await push(hub, event("e2")))[0]) == -32001, "nothing enables it"
        assert len(await entries(hub, event="dev.interlock.feature_forgotten")) == 3


async def test_a_server_without_mcpl_is_left_alone(tmp_path: Path) -> None:
    async with live_hub(tmp_path, "{}") as hub:
        assert await updates(hub) == []
        assert code((await push(hub, event()))[0]) == -32601
        await enable(hub, "news.push")
        assert code((await push(hub, event()))[0]) == -32601, "what it did not declare cannot be enabled"
        (row,) = (await hub.operate("features.list"))["features"]
        assert (row["on"], row["why"]) == (False, "not declared by the server")


@pytest.mark.parametrize("said", [{"version": 4}, {"version": "1.0"}, {"version": "0.4", "featureSets": []}])
async def test_an_offer_that_cannot_be_used_leaves_plain_mcp(tmp_path: Path, said: Any) -> None:
    async with live_hub(tmp_path, json.dumps({"experimental": {"mcpl": said}})) as hub:
        assert await updates(hub) == []
        assert await call(hub, "look") == "done"


async def test_t113_every_message_is_checked_when_it_arrives(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        await enable(hub, "news.*")

        async def send(method: str, params: Any) -> Any:
            return await call(hub, "send", method=method, params=params)

        without = event()
        del without["featureSet"]
        missing = await send("push/event", without)
        assert (code(missing), missing["error"]["data"]["field"]) == (-32602, "featureSet")
        assert code(await send("push/event", event(feature="news.unknown"))) == -32003
        odd = await send("push/event", event(feature="news.odd"))
        assert (code(odd), odd["error"]["data"]["canEnable"]) == (-32001, False), "what it uses is unknown"
        assert code(await send("push/event", {**event(), "timestamp": "yesterday"})) == -32602
        assert code(await send("push/event", {**event(), "payload": {}})) == -32602
        assert code(await send("push/event", [event()])) == -32600
        for items in (["x"] * 5_000, ["x" * 20] * 5_000):
            many = await send("push/event", {**event(), "more": items})
            assert "more than 4000 members" in many["error"]["message"], "whether a thread reads it or not"
        thinking = {"featureSet": "news.think", "messages": [{"role": "user", "content": "Hi"}]}
        assert code(await send("inference/request", thinking)) == -32001, "the hub has no inference for servers"
        for method in ("channels/register", "channels/incoming", "channels/changed"):
            params = {"channels": [], "messages": [{}]}
            assert code(await send(method, params)) in (-32001, -32602), method
        channels = {"channels": [{"id": "c", "type": "t", "label": "l", "direction": "inbound"}]}
        assert code(await send("channels/register", channels)) == -32001
        assert code(await send("model/info", {})) == -32001
        assert code(await send("featureSets/update", {})) == -32601, "a server does not grant itself anything"
        refusals = [found.record for found in await entries(hub, event="dev.interlock.live_refused")]
        assert {found.rule for found in refusals} >= {"UNKNOWN_FEATURE_SET", "FEATURE_SET_DISABLED", "INVALID_PARAMS"}
        shown = await hub.operate("events.list")
        assert (shown["events"], shown["refused"]["s"] >= 10) == ([], True)
        assert (await hub.operate("events.list", agent="local"))["events"] == []
        with pytest.raises(Fault, match="no agent 'nope' has a key or a feature set"):
            await hub.operate("events.list", agent="nope")


async def test_t18_a_feature_set_that_uses_more_than_was_enabled_is_off(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        await enable(hub, "news.push")
        assert (await push(hub, event("e0")))[0]["result"]["accepted"] is True
        deliveries = hub.hub_app.live.deliveries
        assert len(deliveries.waiting("local")) == 1
        more = {"news.push": {"description": "News", "uses": ["pushEvents", "tools"]}}
        await call(hub, "send", method="featureSets/changed", params={"added": more}, notification=True)
        live = hub.hub_app.live.connections.shared("s")
        assert live is not None
        await until(lambda: len(live.state.offer.feature_sets["news.push"].needs) > 1)
        await live.updates.settled()
        assert not deliveries.waiting("local"), "nor does it get what waits already"
        assert code((await push(hub, event()))[0]) == -32001, "until a person says so again"
        await enable(hub, "news.push", agent="other")
        await until(lambda: not deliveries.all())  # what waited is withdrawn
        assert (await push(hub, event()))[0]["result"]["accepted"] is True
        assert [len(deliveries.waiting(agent)) for agent in ("local", "other")] == [0, 1], "for that agent alone"
        rows = (await hub.operate("features.list"))["features"]
        assert [row["agents"] for row in rows if row["feature"] == "news.push"] == [["other"]]
        await enable(hub, "news.push")
        assert (await push(hub, event("e2")))[0]["result"]["accepted"] is True
        assert [len(deliveries.waiting(agent)) for agent in ("local", "other")] == [1, 2]


def test_a_feature_set_that_needs_a_grant_says_which() -> None:
    grant = "contextHooks.beforeInference.inject.system"
    told = why_missing("s", [grant], has_model=False)
    assert told == f'it needs your grant: [servers.s.live] grant = ["{grant}"]'
    told = why_missing("s", [grant, "channels.publish"], has_model=True)
    assert told.startswith("the hub does not have channels.publish; it needs your grant")
    told = why_missing("s", ["channels.publish"], has_model=False)
    assert told == "waits for a client that is a host and selects it, or for [models]: channels.publish"


async def test_declarations_change_while_the_server_runs(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        await enable(hub, "news.*")
        added = {"news.late": {"description": "Late", "uses": ["pushEvents"]}}
        changed = {"added": added, "removed": ["news.push"]}
        await call(hub, "send", method="featureSets/changed", params=changed, notification=True)
        live = hub.hub_app.live.connections.shared("s")
        assert live is not None
        await until(lambda: "news.late" in live.state.active.declared)
        gone, late = await push(hub, event(), event("e2", "news.late"))
        assert code(gone) == -32003
        assert late["result"]["accepted"] is True
        assert "news.late" in (await updates(hub))[-1]["params"]["enabled"]
        # Two changes in one turn of the loop, as they come in one read of a pipe.
        for name in ("news.more", "news.late"):
            said = json.dumps({"removed": [name]}).encode()
            hub.hub_app.live.connections.on_notification("s", None, "featureSets/changed", said)
        await live.updates.settled()
        assert not {"news.more", "news.late"} & live.state.active.declared.keys()


async def test_a_repeated_event_gets_the_recorded_answer_also_from_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = {
        "w": LiveRuleSettings(then="wake", feature_sets=("news.push",), wakes_per_hour=1),
        "d": LiveRuleSettings(then="drop"),
    }
    async with live_hub(tmp_path, rules=rules) as hub:
        await enable(hub, "news.push", "news.more")
        first, again = await push(hub, event(), event())
        assert first == again
        assert first["result"]["inferenceId"].startswith("wake_")
        (dropped,) = await push(hub, event("e2", "news.more"))
        assert dropped["result"] == {"accepted": False, "reason": "dropped: rule d"}
        assert (await push(hub, event()))[0] == first
    async with live_hub(tmp_path, rules=rules) as hub:
        assert await push(hub, event(), event("e2", "news.more")) == [first, dropped]
        rows = (await hub.operate("events.list"))["events"]
        assert [(row["event"], row["state"], row["cause"]) for row in rows] == [
            ("e2", "dropped", "rule d"),
            ("e1", "waiting", "rule w"),
        ]
        (more, news) = (await hub.operate("usage"))["usage"]
        assert (news["events"], news["wakes"], news["tokens"] > 0) == (1, 1, True)
        assert (more["events"], more["wakes"], more["dropped"]) == (1, 0, 1)
        recorded = [found.record for found in await entries(hub, event="dev.interlock.live_event")]
        assert [found.details["eventId"] for found in recorded] == ["e1", "e2"]
        assert recorded[0].details["inferenceId"] == first["result"]["inferenceId"]
        assert (await push(hub, event("e3")))[0]["result"] == {"accepted": True}, "the last run spent the budget"
        assert (await hub.operate("events.list"))["events"][0]["cause"] == "budget, rule w"
        live, store = hub.hub_app.live, hub.hub_app.store
        assert len(await store.keys(LIVE_SEEN)) == 3
        monkeypatch.setattr(intake, "now", lambda: time.time() + 40 * 24 * 3600)
        await live.intake.prune()
        assert await store.keys(LIVE_SEEN) == [], "forgotten, though the hub was away for weeks"


async def test_t114_a_burst_wakes_twice_at_most_and_a_budget_holds(tmp_path: Path) -> None:
    rules = {"w": LiveRuleSettings(then="wake", quiet_s=4.0, wakes_per_hour=3)}
    async with live_hub(tmp_path, rules=rules) as hub:
        await enable(hub, "news.*")
        woken: list[str] = []
        live = hub.hub_app.live
        answers = await push(hub, *(event(f"b{number}") for number in range(1_000)))
        woken += [answer["result"]["inferenceId"] for answer in answers if "inferenceId" in answer["result"]]
        assert len(woken) == 1
        assert all(answer["result"]["accepted"] for answer in answers)
        await until(lambda: live.wakes.spent("local")[0] == 2)
        events, _ = await live.deliveries.take("local", 1_000, 8 * 1024 * 1024)
        assert len(events) == 1_000
        woken_for, held = await push(hub, event("third", "news.more"), event("over", "news.more", text="Another."))
        assert "inferenceId" in woken_for["result"], "the burst made no third wake"
        assert held["result"] == {"accepted": True}, "held: the budget is used up"
        rows = (await hub.operate("events.list", most=1000))["events"]
        assert [row["cause"] for row in rows if row["event"] == "over"] == ["budget, rule w"]
        usage = {row["feature_set"]: row for row in (await hub.operate("usage"))["usage"]}
        assert (usage["news.push"]["wakes"], usage["news.push"]["events"]) == (2, 1_000)


async def test_t114_a_server_has_a_rate_for_new_events(tmp_path: Path) -> None:
    async with live_hub(tmp_path, rate=Rate(per_minute=3)) as hub:
        await enable(hub, "news.push")
        answers = await push(hub, *(event(f"e{number}") for number in range(5)), event("e0"))
        assert ["result" in answer for answer in answers] == [True, True, True, False, False, True]
        assert answers[3]["error"]["data"]["name"] == "RATE_LIMITED"


async def test_t114_events_between_agents_are_held(tmp_path: Path) -> None:
    async with live_hub(tmp_path, rules={"w": LiveRuleSettings(then="wake")}) as hub:
        await enable(hub, "news.push")
        (held,) = await push(hub, event(tags=["chat:from-agent"]))
        assert held["result"] == {"accepted": True}
        assert (await hub.operate("events.list"))["events"][0]["cause"] == "loop, rule w"


async def test_t112_a_disabled_feature_set_takes_its_waiting_events_with_it(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        await enable(hub, "news.*")
        await enable(hub, "news.push", agent="other")
        await push(hub, event(), event("e2", "news.more"))
        deliveries = hub.hub_app.live.deliveries
        assert len(deliveries.waiting("local")) == 2
        await disable(hub, "news.push")
        assert [found.event for found in deliveries.waiting("local")] == ["e2"], "at once"
        assert [found.event for found in deliveries.waiting("other")] == ["e1"], "another agent's grant is its own"
        await until(lambda: len(deliveries.all()) == 2)
        await hub.deny("other", "s")
        assert deliveries.waiting("other") == [], "nor does an agent get events of a server that it may not reach"


async def test_only_a_person_enables(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        for by in (Principal("bot", "agent"), NOBODY):
            with pytest.raises(Fault, match="may not"):
                await hub.operate("features.enable", by, server="s", features=["news.*"], agent="local")
        with pytest.raises(Fault, match="terminal"):
            await hub.operate("features.enable", server="s", features=["news.*"], agent="local")
        root = await hub.new_key("root", "admin")
        wanted = json.dumps({"features": ["news.*"], "agent": "local"}).encode()
        for act in ("enable", "forget"):
            status, _, answer = await RawClient(f"{hub.url}/admin/servers/s/features/{act}", root).post(wanted)
            assert (status, b"needs a person, and root is not one" in answer) == (403, True)
        await enable(hub, "news.push")
        (found,) = [found.record for found in await entries(hub, event="dev.interlock.feature_enabled")]
        assert found.details == {"agent_id": "local", "featureSet": "news.push"}


async def test_t114_an_event_that_is_too_large_or_one_too_many_is_refused(tmp_path: Path) -> None:
    async with live_hub(tmp_path) as hub:
        await enable(hub, "news.push")
        large, fine = await push(hub, event("l", text="x" * 70_000), event("f"))
        assert "error" in large
        assert fine["result"]["accepted"] is True
        answers = []
        for start in range(0, 1_100, 220):
            answers += await push(hub, *(event(f"n{number}") for number in range(start, start + 220)))
        refused = [answer for answer in answers if "error" in answer]
        assert 1 <= len(refused) <= 101
        assert refused[0]["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
        assert len(msgspec.json.encode(answers)) < 1_000_000
