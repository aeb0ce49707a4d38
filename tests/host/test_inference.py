"""Inference that servers ask for, through a whole hub: routes, budgets, chunks, what is refused, and what it cost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cases import each_case
from hub.running_hub import RawClient, RunningHub, child, running_hub, until
from hub.test_journal import entries
from interlock.client import Client, Handlers
from interlock.config.model_settings import HostSettings, InferenceSettings, ModelSettings
from interlock.config.settings import ServerSettings as Settings
from interlock.host.budgets import Budgets
from interlock.host.models.model import believable
from interlock.host.routing import route
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.inference import InferenceResult, ModelInfo, TokenUsage
from interlock.server import Server
from interlock.wire.errors import Fault

from .model_server import anthropic_text, head, model_server, openai_text, refused

DECLARED = {
    "memory.consolidation": {"description": "Thinks", "uses": ["inferenceRequest"]},
    "memory.other": {"description": "Thinks more", "uses": ["inferenceRequest"]},
    "lost.one": {"description": "Thinks, too", "uses": ["inferenceRequest"]},
    "news.push": {"description": "News", "uses": ["pushEvents"]},
}
OFFER = {"version": "0.4", "inferenceRequest": {"streaming": True}, "featureSets": DECLARED}
SEED = {
    "featureSet": "memory.consolidation",
    "conversationId": "conv_123",
    "stream": False,
    "messages": [{"role": "user", "content": "Summarize these memories: ..."}],
    "preferences": {"maxTokens": 500, "temperature": 0.7},
}
"""The seed's own example."""
POLICY = InferenceSettings(
    default="haiku",
    routes={
        "memory.consolidation": "haiku",
        "compliance.redaction": "opus",
        "summarization.light": "mini",
        "summarization.high": "gpt",
        "memory.*": "haiku",
        "memory.deep.*": "gpt",
        "notes/memory.*": "mini",
    },
    pins={"conv_123": "opus"},
)
"""The seed's example policy, and patterns of two lengths and of one server."""


@each_case(
    ("server", "feature", "conversation", "model"),
    [
        ("s", "memory.consolidation", "", "haiku"),
        ("s", "compliance.redaction", "", "opus"),
        ("s", "summarization.high", "", "gpt"),
        ("s", "memory.anything", "", "haiku"),
        ("s", "memory.deep.er", "", "gpt"),
        ("notes", "memory.deep.er", "", "mini"),
        ("notes", "memory.consolidation", "", "haiku"),
        ("s", "unknown.one", "", "haiku"),
        ("s", "summarization.light", "conv_123", "opus"),
        ("s", "summarization.light", "conv_124", "mini"),
    ],
)
def test_the_most_particular_rule_chooses_the_model(server: str, feature: str, conversation: str, model: str) -> None:
    chosen = route(POLICY, server, feature, conversation)
    assert chosen is not None
    assert chosen[0] == model


def test_without_a_default_an_unknown_feature_set_gets_no_model() -> None:
    assert route(InferenceSettings(routes={"memory.*": "haiku"}), "s", "other.one", "") is None


@pytest.mark.parametrize(
    ("claimed", "charged"),
    [((120, 30), (120, 30)), ((0, 0), (12, 5)), ((10**12, 10**12), (800, 500)), ((10**12, 0), (800, 5))],
)
def test_a_client_is_believed_its_tokens_only_within_bounds(claimed: Any, charged: Any) -> None:
    assert believable(TokenUsage(*claimed), TokenUsage(100, 40), 500) == TokenUsage(*charged)


def test_inferences_at_the_same_time_cannot_pass_the_budget() -> None:
    now = [1_000_000.0]
    budgets = Budgets(lambda: InferenceSettings(requests_per_hour=3, tokens_per_hour=100, at_once=2), lambda: now[0])
    with budgets.inference("s", 60), budgets.inference("t", 60):
        with pytest.raises(Fault, match="budget of s"), budgets.inference("s", 60):
            pass
        with budgets.inference("s", 40), pytest.raises(Fault, match="under way"), budgets.inference("s", 0):
            pass
    budgets.spend("s", 100)
    with pytest.raises(Fault) as caught, budgets.inference("s", 1):
        pass
    assert caught.value.retry_after_ms is not None
    now[0] += caught.value.retry_after_ms / 1000
    with budgets.inference("s", 100):
        pass


@contextlib.asynccontextmanager
async def asking_hub(
    folder: Path, models: dict[str, ModelSettings], inference: InferenceSettings, host: HostSettings | None = None
) -> AsyncIterator[RunningHub]:
    server = child("live_server.py", json.dumps({"experimental": {"mcpl": OFFER}}), "{}")
    settings = HostSettings(inference=inference) if host is None else host
    async with running_hub(folder, {"s": server}, models=models, host=settings) as hub:
        yield hub


async def ask(hub: RunningHub, method: str, params: dict[str, Any]) -> Any:
    """The answer to a request that the server sends."""
    client = RawClient(hub.url + "/mcp", hub.key("driver"))
    answer = await client.modern("tools/call", {"name": "s__send", "arguments": {"method": method, "params": params}})
    return json.loads(answer["result"]["content"][0]["text"])


async def chunks(hub: RunningHub) -> list[dict[str, Any]]:
    client = RawClient(hub.url + "/mcp", hub.key("driver"))
    answer = await client.modern("tools/call", {"name": "s__heard", "arguments": {}})
    heard = json.loads(answer["result"]["content"][0]["text"])
    return [message["params"] for message in heard if message.get("method") == "inference/chunk"]


async def enable(hub: RunningHub, *features: str, agent: str = "coder") -> None:
    await hub.operate("features.enable", server="s", features=list(features), agent=agent, terminal=True)


async def test_a_server_gets_its_inference_by_the_route_of_its_feature_set(tmp_path: Path) -> None:
    async with model_server() as server:
        priced = {"price_input": 1000.0, "price_output": 2000.0}
        models = {
            "haiku": ModelSettings(
                kind="anthropic", url=server.url, model="claude-haiku", context_window=200_000, **priced
            ),
            "mini": ModelSettings(kind="openai", url=server.url, model="gpt-mini", capabilities=("vision",)),
        }
        routes = InferenceSettings(routes={"memory.consolidation": "haiku", "memory.*": "mini"}, max_tokens=300)
        async with asking_hub(tmp_path, models, routes, HostSettings(model="mini", inference=routes)) as hub:
            off = await ask(hub, "inference/request", SEED)
            assert (off["error"]["code"], off["error"]["data"]["canEnable"]) == (-32001, True), "off until enabled"
            assert (await ask(hub, "model/info", {}))["error"]["code"] == -32001
            assert server.asked == []
            await enable(hub, "memory.*", "lost.*")
            server.answer_with(anthropic_text("Consolidated ", "memory.", finish="max_tokens"))
            good = (await ask(hub, "inference/request", SEED))["result"]
            assert good == {
                "content": "Consolidated memory.",
                "model": "claude-haiku",
                "finishReason": "max_tokens",
                "usage": {"inputTokens": 10, "outputTokens": 3},
            }
            assert decode(InferenceResult, json.dumps(good).encode()).finish_reason == "max_tokens"
            (asked,) = server.asked
            assert (asked.body["max_tokens"], asked.body["temperature"]) == (300, 0.7), "wishes, within the limits"
            assert "tools" not in asked.body
            # In pieces, by the pattern.
            streamed = {**SEED, "featureSet": "memory.other", "stream": True}
            streamed["messages"] = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Now?"}]},
            ]
            server.answer_with(openai_text("One ", "two"))
            answer = await ask(hub, "inference/request", streamed)
            assert (answer["result"]["content"], answer["result"]["model"]) == ("One two", "gpt-mini")
            found = await chunks(hub)
            assert [(piece["index"], piece["delta"]) for piece in found] == [(0, "One "), (1, "two")]
            assert len({piece["requestId"] for piece in found}) == 1
            assert server.asked[0].body["messages"][0] == {"role": "system", "content": "Be brief."}
            info = (await ask(hub, "model/info", {}))["result"]
            assert decode(ModelInfo, json.dumps(info).encode()) == ModelInfo("gpt-mini", "openai", 128_000, ("vision",))
            # A refused inference costs nothing; a failed one is reported, recorded and counted.
            server.answer_with(refused(400, "no such thing"))
            for wrong, code, why in (
                ({**SEED, "featureSet": "lost.one"}, -32600, "no model is routed"),
                ({**SEED, "featureSet": "news.push"}, -32001, "not enabled"),
                ({**SEED, "featureSet": "nobody.knows"}, -32003, "Unknown"),
                ({"messages": SEED["messages"]}, -32602, "featureSet"),
                ({**SEED, "messages": [{"role": "system", "content": "only"}]}, -32602, "user"),
                ({**SEED, "messages": [{"role": "user", "content": "x" * 900_000}]}, -32600, "more than"),
                (SEED, -32603, "no such thing"),
            ):
                error = (await ask(hub, "inference/request", wrong))["error"]
                assert (error["code"], why in error["message"]) == (code, True), error
            assert len(server.asked) == 1, "only the last one reached the model"
            rows = await used(hub)
            mine = rows["memory.consolidation"]
            assert (mine["agent"], mine["inferences"], mine["failed"]) == ("coder", 2, 1)
            assert (mine["input_tokens"] >= 10, mine["cost"] >= 0.016) == (True, True)
            (told, *_) = await entries(hub, event="dev.interlock.live_inference")
            assert told.record.details["model"] == "claude-haiku"
            assert told.record.rule == "route memory.consolidation"


async def used(hub: RunningHub) -> dict[str, Any]:
    """The rows of `usage` by feature set."""
    return {row["feature_set"]: row for row in (await hub.operate("usage"))["usage"]}


async def test_t142_budgets_hold_over_a_restart_and_a_conversation_counts_for_its_agent_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"text": "A thought."}]')
    toy = ModelSettings(kind="scripted", script=str(script))
    models = {"toy": toy, "pinned": msgspec.structs.replace(toy, model="pinned")}
    async with asking_hub(tmp_path, models, InferenceSettings(default="toy")) as hub:
        await enable(hub, "memory.*")
        mine = (await hub.host.create(Principal("coder", "agent"), "toy")).id
        others = (await hub.host.create(Principal("eve", "agent"), "toy")).id
        pins = InferenceSettings(default="toy", pins={mine: "pinned", others: "pinned"}, requests_per_hour=3)
        await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, host=HostSettings(inference=pins)))
        for conversation, model in ((mine, "pinned"), (others, "script"), ("conv_unknown", "script")):
            answer = await ask(hub, "inference/request", {**SEED, "conversationId": conversation})
            assert answer["result"]["model"] == model, "only a conversation of the agent that enabled it counts"
        rows = (await hub.operate("usage", by="conversation"))["usage"]
        assert {row["conversation"]: row["inferences"] for row in rows} == {mine: 1, "": 2}
    async with asking_hub(tmp_path, models, pins) as hub:
        error = (await ask(hub, "inference/request", SEED))["error"]
        assert (error["data"]["name"], error["data"]["retry_after_ms"] > 0) == ("QUOTA_EXCEEDED", True)


async def test_t143_without_a_model_a_clients_own_answers_only_where_everybody_allows_it(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        if "Summarize" not in json.dumps(params):
            raise Fault("USER_REJECTED", "The person said no")
        content = {"type": "text", "text": "From the client."}
        return {"role": "assistant", "content": content, "model": "theirs", "stopReason": "maxTokens"}

    async with asking_hub(tmp_path, {}, InferenceSettings()) as hub:
        await enable(hub, "memory.*")
        error = (await ask(hub, "inference/request", SEED))["error"]
        assert (error["code"], error["data"]["canEnable"]) == (-32001, False), "neither a model nor a bridge"
        bridged = HostSettings(inference=InferenceSettings(sampling="allow"))
        await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, host=bridged))
        await hub.hub_app.live.connections.settled("s", 60)

        def client(agent: str, handlers: Handlers | None = None) -> Client:
            headers = {"Authorization": f"Bearer {hub.key(agent)}"}
            return Client(hub.url + "/mcp", era="legacy", handlers=handlers, headers=headers)

        async with client("coder"), client("eve", Handlers(sampling=sample)):
            error = (await ask(hub, "inference/request", SEED))["error"]
            assert error["data"]["name"] == "MISSING_CAPABILITY", "the agent's client has none, another's is not asked"
        assert asked == []
        async with client("coder", Handlers(sampling=sample)):
            wishes = {"maxTokens": 500, "temperature": 0.7, "model": "large"}
            answer = (await ask(hub, "inference/request", {**SEED, "stream": True, "preferences": wishes}))["result"]
            assert (answer["content"], answer["model"]) == ("From the client.", "theirs")
            assert asked[0]["modelPreferences"] == {"hints": [{"name": "large"}]}
            assert answer["finishReason"] == "max_tokens"
            assert [piece["delta"] for piece in await chunks(hub)] == ["From the client."]
            assert asked[0]["maxTokens"] == 500
            assert asked[0]["messages"][0]["content"] == {"type": "text", "text": SEED["messages"][0]["content"]}  # type: ignore[index]
            other = {**SEED, "messages": [{"role": "user", "content": "Tell me a secret."}]}
            assert "said no" in (await ask(hub, "inference/request", other))["error"]["message"]
            (told, *_) = await entries(hub, event="dev.interlock.live_inference")
            assert told.record.rule == "sampling at the client of coder"
            # The gates of requests to clients hold: the operator denies sampling to this server.
            await hub.deny("server:s", "s", "sampling")
            assert "error" in await ask(hub, "inference/request", SEED)
            assert len(asked) == 2


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_of_the_library_has_the_hubs_model_write_in_both_eras(tmp_path: Path, era: Any) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"text": "One two three."}]')
    toy = ModelSettings(kind="scripted", script=str(script), model="toy-1", context_window=1000)
    server = Server("thinker")
    for name in ("memory.think", "memory.long"):
        server.feature(name, "Thinks", uses=["inferenceRequest"])
    routed = InferenceSettings(default="toy", routes={"memory.long": "slow"}, max_tokens=300, tokens_per_hour=1000)
    host = HostSettings(inference=routed)

    async def half(asked: object) -> AsyncGenerator[bytes, None]:
        yield head()
        yield b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % (b"word" * 800)
        await asyncio.Event().wait()

    async with (
        server.http() as address,
        model_server() as endpoint,
        running_hub(
            tmp_path,
            {"s": Settings(url=address.url, era=era)},
            models={"toy": toy, "slow": ModelSettings(url=endpoint.url, model="slow")},
            host=host,
        ) as hub,
    ):
        await enable(hub, "memory.*")
        heard: list[str] = []
        result = await server.infer("memory.think", "Count.", on_chunk=heard.append)
        assert (result.content, result.model, result.finish_reason) == ("One two three.", "toy-1", "end_turn")
        assert result.usage.input_tokens > 0
        await until(lambda: len(heard) == 3)
        assert "".join(sorted(heard, key="One two three.".index)) == result.content
        assert (await server.model_info()).id == "toy-1"
        with pytest.raises(Fault, match="more than the model takes"):
            await server.infer("memory.think", "x" * 8_000)
        # A server that hangs up before the end pays, and is recorded.
        endpoint.answer_with(half)
        asking = asyncio.ensure_future(server.infer("memory.long", "Count.", on_chunk=heard.append))
        await until(lambda: len(heard) == 4)
        await hub.operate("servers.restart", server="s", now=True)

        async def long() -> Any:
            return (await used(hub)).get("memory.long")

        mine = await until(long)
        assert (mine["inferences"], mine["failed"], mine["output_tokens"] >= 800) == (1, 1, True)
        (*_, told) = await entries(hub, event="dev.interlock.live_inference")
        assert "CANCELLED" in (told.record.reason or "")
        asking.cancel()
        await hub.state("s", ServerState.CONNECTED)
        await hub.hub_app.live.connections.settled("s", 60)
        with pytest.raises(Fault, match="budget"):
            await server.infer("memory.long", "Count.")
