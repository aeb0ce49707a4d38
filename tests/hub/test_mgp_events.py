"""Events of MGP at the hub: channels of the hub and of servers, filters, rights, bounds, and both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cases import each_case
from interlock.events.types import ConfigurationReloaded, RegistrationDecided, now_us
from interlock.hub.auth.principals import LOCAL_AGENT
from interlock.hub.catalog.views import EVERYTHING
from interlock.hub.handlers.event_channels import KNOWN, SEVERITIES, ChannelEvent
from interlock.hub.handlers.event_subscriptions import MAX_PER_CLIENT, QUEUED, SENT_AT_ONCE, ClientSubscription
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mgp.events import (
    SubscribeParams,
    asked_of_servers,
    channel_pattern,
    may_match_family,
    offered_pattern,
)

from .running_hub import MGP, RawClient, RunningHub, child, running_hub, until
from .test_changes import Stream, listening, opened

SUBSCRIBE, UNSUBSCRIBE, EVENT = "mgp/events/subscribe", "mgp/events/unsubscribe", "notifications/mgp.event"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    servers = {
        "mind": child("handwritten_server.py", "bidirectional", "lifecycle", era="legacy"),
        "plain": child("handwritten_server.py", era="legacy"),
    }
    async with running_hub(tmp_path_factory.mktemp("events"), servers) as running:
        yield running


def events(stream: Stream, channel: str = "") -> list[Any]:
    found = [message["params"] for message in stream.heard if message.get("method") == EVENT]
    return [params for params in found if not channel or params["channel"] == channel]


async def session(hub: RunningHub, key: str | None = None, path: str = "/mcp") -> RawClient:
    client = RawClient(hub.url + path, key)
    await client.initialize(MGP)
    return client


async def call(client: RawClient, name: str, **arguments: Any) -> Any:
    return await client.legacy("tools/call", {"name": name, "arguments": arguments})


async def subscribe(client: RawClient, *channels: str, **filter_: Any) -> Any:
    return (await client.legacy(SUBSCRIBE, {"channels": list(channels), "filter": filter_}))["result"]


async def test_a_session_gets_the_hubs_events_and_those_of_servers(hub: RunningHub) -> None:
    client = await session(hub, hub.key("ada"))
    async with opened(client, "GET", b"", {}) as stream:
        wanted = ("tool.*", "model.token_usage", "model.moods", "no.such", "security.**", "lifecycle.connected")
        answer = await subscribe(client, *wanted)
        assert answer["subscribed"] == ["tool.*", "model.token_usage", "security.**", "lifecycle.connected"]
        assert answer["unsupported"] == ["model.moods", "no.such"]
        data = {"tokens_used": 1500, "level": "warning"}
        await call(client, "mind__emit", channel="model.token_usage", data=data)
        await call(client, "mind__emit", channel="system.error", data=data)
        await until(lambda: bool(events(stream, "model.token_usage")) and len(events(stream, "tool.completed")) == 2)
        [usage] = events(stream, "model.token_usage")
        assert usage["subscription_id"] == answer["subscription_id"]
        assert (usage["server_id"], usage["severity"]) == ("mind", "warning")
        assert usage["data"] == {**data, "number": 0}
        done = events(stream, "tool.completed")[0]
        assert (done["data"]["tool_name"], done["data"]["agent_id"]) == ("emit", "ada")
        assert "server_id" not in done, "the hub's own word"
        assert not events(stream, "system.error"), "nobody subscribed to it"
        await call(client, "mind__nothing_like_this")
        await until(lambda: bool(events(stream, "security.access_denied")))
        await hub.operate("servers.restart", server="mind")
        await until(lambda: bool(events(stream, "lifecycle.connected")))
        await hub.state("mind", ServerState.CONNECTED)
        async with opened(await session(hub), "GET", b"", {}) as other:
            await until(lambda: hub.hub_app.server_event_subscriptions.settled("mind"))
            await call(client, "mind__emit", channel="model.token_usage")
            await until(lambda: len(events(stream, "model.token_usage")) == 2)
            assert events(other) == [], "the feed was renewed after the restart, for its subscriber alone"
        first = {"subscription_id": answer["subscription_id"]}
        foreign = await session(hub)
        assert (await foreign.legacy(UNSUBSCRIBE, first))["result"] == {"unsubscribed": False}
        assert (await client.legacy(UNSUBSCRIBE, first))["result"] == {"unsubscribed": True}
        assert (await client.legacy(UNSUBSCRIBE, first))["result"] == {"unsubscribed": False}
        count = len(events(stream))
        await call(client, "mind__emit", channel="model.token_usage")
        again = await subscribe(client, "tool.completed")
        await call(client, "mind__echo")
        await until(lambda: len(events(stream)) > count)
        assert {params["subscription_id"] for params in events(stream)[count:]} == {again["subscription_id"]}


async def test_filters_hold_and_an_unknown_one_is_refused(hub: RunningHub) -> None:
    client = await session(hub, hub.key("grace"))
    async with opened(client, "GET", b"", {}) as stream:
        severe = await subscribe(client, "model.*", "tool.*", min_severity="error")
        narrow = await subscribe(client, "tool.*", server_id=["plain"], tool_name="echo")
        for said in ({"severity": "info"}, {"severity": "error"}, {"level": "critical"}, {"tokens_used": 1500}):
            await call(client, "mind__emit", channel="model.token_usage", data=said)
        await call(client, "mind__echo")
        await call(client, "plain__emit", channel="model.token_usage")
        await call(client, "plain__echo")
        await until(lambda: any(params["subscription_id"] == narrow["subscription_id"] for params in events(stream)))
        heard = [
            (params["subscription_id"], params.get("severity", "none"), params["channel"]) for params in events(stream)
        ]
        assert sorted(heard) == sorted(
            [
                (severe["subscription_id"], "error", "model.token_usage"),
                (severe["subscription_id"], "critical", "model.token_usage"),
                (severe["subscription_id"], "none", "model.token_usage"),
                (narrow["subscription_id"], "info", "tool.completed"),
            ]
        )
    for wrong in ({"channels": []}, {"channels": ["a"], "filter": {"colour": "red"}}, {"channels": ["x" * 300]}):
        assert (await client.legacy(SUBSCRIBE, wrong))["error"]["data"]["name"] == "INVALID_PARAMS"
    answers = [await client.legacy(SUBSCRIBE, {"channels": ["tool.*"]}) for _ in range(MAX_PER_CLIENT)]
    assert answers[-1]["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
    for answer in answers:
        if "result" in answer:
            await client.legacy(UNSUBSCRIBE, {"subscription_id": answer["result"]["subscription_id"]})
    unsupported = await subscribe(client, "no.such")
    assert (unsupported["subscribed"], unsupported["unsupported"]) == ([], ["no.such"])


async def test_t62_nobody_hears_of_what_they_may_not_see(hub: RunningHub) -> None:
    await hub.deny("blind", "mind")
    blind = await session(hub, hub.key("blind"))
    nosy = await session(hub, hub.key("nosy"))
    boss = await session(hub, await hub.new_key("boss", "admin"))
    plain = await session(hub, hub.key("nosy"), "/servers/plain/mcp")
    caller = await session(hub, hub.key("busy-bee"))
    async with (
        opened(blind, "GET", b"", {}) as blinds,
        opened(nosy, "GET", b"", {}) as noses,
        opened(boss, "GET", b"", {}) as bosses,
        opened(plain, "GET", b"", {}) as plains,
    ):
        for client in (blind, nosy, boss, plain):
            await subscribe(client, "**")
        await call(caller, "mind__emit", channel="model.token_usage")
        await call(caller, "mind__echo")
        bus = hub.hub_app.bus
        bus.publish(ConfigurationReloaded("configuration", bus.next(), now_us(), applied=True))
        decided = ("dynamic-x", "dynamic.x", "denied", "nosy", "agent", "person:ada", "no need")
        bus.publish(RegistrationDecided("registrations", bus.next(), now_us(), *decided))
        await hub.operate("servers.restart", server="mind")
        await until(lambda: bool(events(bosses, "lifecycle.connected")) and bool(events(noses, "lifecycle.connected")))
        await until(lambda: len(events(bosses, "tool.completed")) == 2)  # told once their entries are committed
        assert [params["data"]["agent_id"] for params in events(bosses, "tool.completed")] == ["busy-bee"] * 2
        assert not events(noses, "tool.completed"), "calls of others are for readers of the audit log"
        assert events(bosses, "system.configuration")
        assert not events(noses, "system.configuration")
        assert events(noses, "model.token_usage"), "it may see the server"
        for told in (noses, bosses):
            [registration] = [params["data"] for params in events(told, "system.registration")]
            assert (registration["id"], registration["status"], registration["reason"]) == (
                "dynamic.x",
                "denied",
                "no need",
            )
        assert events(blinds) == []
        assert events(plains) == [], "at a server's address there is that server alone"


async def test_a_stateless_client_gets_events_on_the_stream_that_it_opened(hub: RunningHub) -> None:
    client = RawClient(hub.url + "/mcp", hub.key("modern"))
    refused = (await client.modern(SUBSCRIBE, {"channels": ["tool.*"]}))["error"]
    assert (refused["code"], "subscriptions/listen" in refused["data"]["hint"]) == (-32601, True)
    wanted = {"dev.cloto/mgp": {"events": {"channels": ["model.*", "no.such"], "filter": {"min_severity": "debug"}}}}
    async with listening(client, MGP, **wanted) as stream, listening(client, None, **wanted) as unasked:
        accepted = stream.heard[0]["params"]["notifications"]["dev.cloto/mgp"]["events"]
        assert (accepted["subscribed"], accepted["unsupported"]) == (["model.*"], ["no.such"])
        assert unasked.heard[0]["params"]["notifications"] == {}
        params = {"name": "mind__emit", "arguments": {"channel": "model.token_usage"}}
        await client.modern("tools/call", params)
        await until(lambda: bool(events(stream)))
        [event] = events(stream)
        assert event["subscription_id"] == accepted["subscription_id"]
        assert event["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"
        assert events(unasked) == []
    await until(lambda: accepted["subscription_id"] not in hub.hub_app.event_subscriptions.ids)


async def test_a_server_sends_no_events_that_nobody_subscribed_to(hub: RunningHub) -> None:
    client = await session(hub, hub.key("mary"))
    async with opened(client, "GET", b"", {}) as stream:
        await subscribe(client, "system.error", "model.token_usage")
        for channel, ids_ in (("lifecycle.error", None), ("security.breach", None), ("system.error", ["sub-999"])):
            await call(client, "mind__emit", channel=channel, **({"ids": ids_} if ids_ else {}))
        await call(client, "plain__emit", channel="system.error", ids=["sub-001"])
        big = {"text": "x" * 20_000}
        await call(client, "mind__emit", channel="system.error", data=big)
        await call(client, "mind__emit", channel="system.error", data={"true": 1})
        await until(lambda: bool(events(stream)))
        assert [params["data"] for params in events(stream)] == [{"true": 1, "number": 0}]


@pytest.mark.parametrize("server", ["plain", "mind"])
@pytest.mark.parametrize("speaks_mgp", [False, True])
async def test_all_four_patterns_of_the_compatibility_matrix_work(
    hub: RunningHub, server: str, speaks_mgp: bool
) -> None:
    """MGP, Compatibility Matrix, with servers that are written by hand."""
    upstream = hub.hub_app.upstreams[server]
    agreed = set() if upstream.agreement is None else upstream.agreement.agreed.extensions
    assert agreed == ({"bidirectional", "lifecycle"} if server == "mind" else set())
    client = RawClient(hub.url + f"/servers/{server}/mcp", hub.key("matrix"))
    introduced = (await client.initialize(MGP if speaks_mgp else {}))["result"]["capabilities"]
    assert ("mgp" in introduced) is speaks_mgp
    async with opened(client, "GET", b"", {}) as stream:
        assert "result" in await client.legacy("tools/call", {"name": "echo", "arguments": {"text": "a"}})
        ping = await client.legacy("mgp/health/ping")
        subscribed = await client.legacy(SUBSCRIBE, {"channels": ["model.rate_limits", "lifecycle.*"]})
        await client.legacy("tools/call", {"name": "emit", "arguments": {"channel": "model.rate_limits"}})
        if not speaks_mgp:
            assert ping["error"]["code"] == subscribed["error"]["code"] == -32601
            assert not [method for method in stream.methods() if "mgp" in method], "MGP is silent"
            return
        assert (ping["result"]["status"], ping["result"]["server_id"]) == ("healthy", server)
        if server == "mind":
            assert subscribed["result"]["unsupported"] == []
            await until(lambda: bool(events(stream, "model.rate_limits")))
        else:
            assert subscribed["result"]["unsupported"] == ["model.rate_limits"], "the hub falls back"


def test_every_channel_of_the_hub_is_documented_with_its_severity() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lifecycle.md").read_text()
    assert set(SEVERITIES) == KNOWN
    for channel, severity in SEVERITIES.items():
        assert f"| `{channel}` | {severity} |" in page


def test_a_full_queue_drops_its_oldest_and_says_how_many() -> None:
    sent: list[Any] = []
    params = SubscribeParams(["tool.*"])
    subscription = ClientSubscription(
        "client", LOCAL_AGENT, EVERYTHING, params, lambda method, raw: sent.append(msgspec.json.decode(raw))
    )
    subscription.start([channel_pattern("tool.*")])
    for number in range(QUEUED + 44):
        subscription.put(ChannelEvent("tool.completed", "info", number, b'{"n":%d}' % number, "actor"))
    subscription.send()
    assert len(sent) == SENT_AT_ONCE
    assert (sent[0]["dropped"], sent[0]["data"]) == (44, {"n": 44})
    assert "dropped" not in sent[1]
    while subscription.queue:
        subscription.send()
    assert sent[-1]["data"] == {"n": QUEUED + 43}


def test_servers_are_asked_for_families_however_many_patterns_clients_have() -> None:
    asked = {name for number in range(100) for name in asked_of_servers(channel_pattern(f"tool.a{number}*"))}
    assert asked == {"tool.*"}
    assert asked_of_servers(channel_pattern("model.token_usage")) == ["model.token_usage"]
    assert asked_of_servers(channel_pattern("weather.*")) == ["weather.*"]
    assert offered_pattern("model.*").matches("model.tokens.used"), "a family is all of it"


@each_case(
    ("pattern", "known"),
    [("model.*", True), ("**", True), ("*.error", True), ("tool.**", True), ("*", False), ("weather.*", False)],
)
def test_a_pattern_is_known_by_the_standard_families(pattern: str, known: bool) -> None:
    assert may_match_family(channel_pattern(pattern)) is known
