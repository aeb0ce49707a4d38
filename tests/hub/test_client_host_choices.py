"""Clients that are hosts of MCPL: what they select, how they narrow it, and messages that come twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import ScopeSettings
from interlock.hub.live.client_registry import MAX_OFFERS
from interlock.protocols.mcpl.feature_sets import MAX_FEATURE_SETS
from waiting import until

from .host_client import HOST, HostClient
from .host_scene import GENERAL, OFFER, TURN, asked, between, drive, enable, event, heard, injects, reply
from .running_hub import RawClient, RunningHub

SIGNS: dict[str, Any] = {
    "version": "0.5",
    "inferenceLifecycle": True,
    "channels": {"register": True, "typing": True, "acknowledge": True},
    "featureSets": {
        "note.show": {"description": "Shows", "uses": ["channels.register", "channels.typing", "channels.acknowledge"]},
        "note.watch": {"description": "Watches", "uses": ["inferenceLifecycle"]},
    },
}
NO_TOKENS = {"inputTokens": 0, "outputTokens": 0}
_SCOPED = {"description": "Files", "uses": ["tools"], "scoped": True, "_meta": {"dev.interlock/scopeLabel": "{path}"}}
_TALK = {**OFFER["featureSets"]["note.talk"], "scoped": True}
FILES: dict[str, Any] = {
    "offer": {**OFFER, "featureSets": {**OFFER["featureSets"], "note.file": _SCOPED, "note.talk": _TALK}},
    "write": {"_meta": {"dev.interlock/featureSet": "note.file"}},
    "server": {
        "scopes": {"note.file": ScopeSettings(whitelist=("/**",)), "note.talk": ScopeSettings(whitelist=("chat:**",))}
    },
}
"""Settings of a server whose tool `write` acts on files. Its operator allows all of them, and all its channels."""
DEV = {**GENERAL, "id": "chat:#dev"}


async def heard_soon(hub: RunningHub, method: str) -> list[Any]:
    return await until(lambda: heard(hub, "a", method))


@pytest.mark.parametrize("modern", [False, True])
async def test_a_host_of_0_5_types_acknowledges_and_tells_of_inferences(tmp_path: Path, modern: bool) -> None:
    async with between(tmp_path, offer=SIGNS) as hub:
        client = HostClient(hub, "mine", modern=modern, version="0.5")
        offered = {"register": True, "typing": True, "acknowledge": True}
        more = {"version": "0.5", "inferenceLifecycle": True, "channels": offered}
        client.capabilities = {"experimental": {"mcpl": {**HOST, **more}}}
        async with client.running():
            assert (await client.result("mcpl/manifest"))["featureSets"].keys() == {"a.note.show", "a.note.watch"}
            client.answers["channels/register"] = {"results": []}
            paths = ["channels.register", "channels.acknowledge", "inferenceLifecycle"]
            await client.select("a.note.*", effectiveCapabilities=[*paths, "channels.typing"])
            await client.result("context/beforeInference", TURN)  # the server was told by now
            await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL]})
            await client.tell("channels/typing", {"channelId": "a/chat:#general"})
            assert await heard_soon(hub, "channels/typing") == [{"channelId": "chat:#general"}]
            await reply(hub, "a", "channels/acknowledge", {"acknowledged": True})
            seen = {"channelId": "a/chat:#general", "messageId": "m1"}
            assert (await client.result("channels/acknowledge", seen))["acknowledged"]
            (got,) = await heard(hub, "a", "channels/acknowledge")
            assert (got["channelId"], got["messageId"]) == ("chat:#general", "m1")
            unknown = await client.ask("channels/acknowledge", {**seen, "channelId": "a/chat:#other"})
            assert unknown["error"]["code"] == -32023
            # Without the capability a set that uses it is off, so the server hears no more of it.
            await client.select("a.note.*", effectiveCapabilities=paths)
            await client.tell("channels/typing", {"channelId": "a/chat:#general"})
            began = {"inferenceId": "inf_1", "phase": "started", "conversationId": "c1", "turnIndex": 0}
            began["model"] = {"id": "m"}
            await client.tell("inference/lifecycle", {**began, "userMessage": "My secret."})
            (told,) = await heard_soon(hub, "inference/lifecycle")
            assert (told["phase"], told["inferenceId"][:4], told["turnIndex"]) == ("started", "inf_", 0)
            assert told["inferenceId"] != "inf_1"
            assert "secret" not in json.dumps(told)
            assert "model" not in told, "the server was not granted `modelInfo`"
            assert len(await heard(hub, "a", "channels/typing")) == 1


@pytest.mark.parametrize("modern", [False, True])
async def test_a_selection_outlives_the_hub_for_its_own_client_alone(tmp_path: Path, modern: bool) -> None:
    async with between(tmp_path, **FILES) as hub:
        secret, thief = await hub.new_key("mine"), await hub.new_key("other")
        await enable(hub, "a", "note.**", agent="other")
        await reply(hub, "a", "context/beforeInference", injects("Before."))
        client = HostClient(hub, "mine", modern=modern)
        client.key = secret
        async with client.running():
            files = {"a.note.file": {"whitelist": ["/project/**"]}}
            await client.select("a.note.recall", "a.note.file", scopes=files)
            assert (await client.result("context/beforeInference", TURN))["contextInjections"]
        session = client.session
    async with between(tmp_path, **FILES) as hub:
        await reply(hub, "a", "context/beforeInference", injects("After."))
        other = HostClient(hub, "other", modern=modern)
        other.key = thief
        if modern:
            assert not (await other.result("context/beforeInference", TURN)).get("contextInjections")
        client = HostClient(hub, "mine", modern=modern)
        client.key, client.session = secret, session
        outside = await client.ask("tools/call", {"name": "a__write", "arguments": {"path": "/etc/hosts"}})
        assert "may not act on /etc/hosts" in json.dumps(outside), "its first request already"
        (injection,) = (await client.result("context/beforeInference", TURN))["contextInjections"]
        assert injection["content"] == [{"type": "text", "text": "After."}]
        assert len(await heard(hub, "a", "context/beforeInference")) == 1, "nobody else's prompt reached the server"
        await hub.operate("features.disable", server="a", features=["note.recall"], agent="mine")
        assert not (await client.result("context/beforeInference", TURN)).get("contextInjections")


async def test_the_first_call_of_a_stateless_client_after_a_restart_carries_its_state(tmp_path: Path) -> None:
    write = {"_meta": {"dev.interlock/featureSet": "note.edit"}}
    async with between(tmp_path, write=write) as hub:
        client = HostClient(hub, "mine", modern=True)
        client.key = secret = await hub.new_key("mine")
        async with client.running():
            await client.select("a.note.edit")
    async with between(tmp_path, write=write) as hub:
        client = HostClient(hub, "mine", modern=True)
        client.key = secret
        await client.result("tools/call", {"name": "a__write", "arguments": {}, "state": {"notes": [2]}})
        assert {"notes": [2]} in [params.get("state") for params in await heard(hub, "a", "tools/call")]


async def test_a_client_narrows_the_scopes_of_tools_and_channels(tmp_path: Path) -> None:
    async with between(tmp_path, **FILES) as hub:
        async with HostClient(hub, "mine", modern=False).running() as client:
            client.answers["channels/register"] = {"results": []}

            async def wrote(path: str) -> bool:
                said = {"name": "a__write", "arguments": {"path": path}}
                answer = await client.ask("tools/call", said)
                assert "error" not in answer or answer["error"]["data"]["gate"] == "client_scopes"
                return "result" in answer and not answer["result"].get("isError")

            files = {"whitelist": ["/project/**", "/tmp/**"], "blacklist": ["**/.env", "**/secrets/**"]}
            talk = {"whitelist": ["chat:#gen*"]}
            await client.select("a.note.file", "a.note.talk", "a.note.recall")
            await client.result("context/beforeInference", TURN)  # the server was told by now
            await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL, DEV]})
            assert await wrote("/etc/hosts"), "the operator allows it"
            assert len((await client.result("channels/list"))["channels"]) == 2
            await client.select(scopes={"a.note.file": files})
            assert len((await client.result("channels/list"))["channels"]) == 2, "it has no rules for channels"
            await client.select(scopes={"a.note.file": files, "a.note.talk": talk})
            assert await wrote("/project/src/main.ts")
            assert not await wrote("/project/.env")
            assert not await wrote("/etc/hosts"), "the client itself did not"
            assert [each["id"] for each in (await client.result("channels/list"))["channels"]] == ["a/chat:#general"]
            said = {"conversationId": "c1", "channelId": "a/chat:#dev", "content": "Hello"}
            assert (await client.ask("channels/publish", said))["error"]["code"] == -32017
            many = {f"b.{number}": {"whitelist": ["/**"]} for number in range(MAX_FEATURE_SETS)}
            await client.select(scopes={**many, "a.note.file": {"whitelist": ["/**"]}})
            assert not await wrote("/etc/hosts"), "an update with too many scopes changes nothing"
            await client.select(scopes={"a.note.talk": {"whitelist": ["chat:*", "x" * 2000]}})
            assert (await client.result("channels/list"))["channels"] == [], "rules that cannot be read allow nothing"


@pytest.mark.parametrize("modern", [False, True])
async def test_a_message_reaches_a_client_once(tmp_path: Path, modern: bool) -> None:
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=modern).running() as client:

        async def take(message: dict[str, Any]) -> dict[str, Any]:
            ids = [each["messageId"] for each in message["params"]["messages"]]
            return {"results": [{"messageId": each, "accepted": True, "conversationId": "c1"} for each in ids]}

        async def send(*ids: str) -> list[Any]:
            said = {"author": {"id": "u"}, "timestamp": "2026-03-05T10:30:00Z", "channelId": "chat:#general"}
            messages = [{**said, "messageId": each, "content": each} for each in ids]
            answer = await drive(hub, "a", "send", method="channels/incoming", params={"messages": messages})
            return list(answer["result"]["results"])

        async def passed() -> list[str]:
            return [each["messageId"] for each in (await asked(client))["params"]["messages"]]

        client.answers |= {"channels/register": {"results": []}, "channels/incoming": take}
        await client.select("a.note.talk", "a.note.recall")
        await client.result("context/beforeInference", TURN)  # the server was told by now
        await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL]})
        (first,) = await send("d1")
        assert first["accepted"]
        assert await passed() == ["d1"]
        again = await send("d1", "d2", "d2")
        assert again[0] == first, "the recorded answer"
        assert [each["messageId"] for each in again] == ["d1", "d2", "d2"]
        assert await passed() == ["d2"]
        client.answers["channels/incoming"] = {"error": {"code": -32603, "message": "no room"}}
        assert not (await send("d3"))[0]["accepted"]
        assert await passed() == ["d3"]
        client.answers["channels/incoming"] = take
        assert (await send("d3"))[0]["accepted"], "the client had refused it, so it may come again"
        assert await passed() == ["d3"]
        assert client.asked.empty()
    if modern:
        return  # The store knows no eras.
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=modern).running() as client:
        client.answers |= {"channels/register": {"results": []}, "channels/incoming": take}
        await client.select("a.note.talk", "a.note.recall")
        await client.result("context/beforeInference", TURN)
        await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL]})
        assert (await send("d1", "d4"))[0] == first, "also after a restart"
        assert await passed() == ["d4"]


async def test_no_client_answers_for_another_or_names_its_conversations(tmp_path: Path) -> None:
    async with between(tmp_path) as hub:
        await enable(hub, "a", "note.recall", agent="other")
        await reply(hub, "a", "context/beforeInference", injects("Hello."))
        async with (
            HostClient(hub, "mine", modern=True).running() as mine,
            HostClient(hub, "other", modern=True).running() as other,
        ):
            was_asked: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            may_answer = asyncio.Event()

            async def later(message: dict[str, Any]) -> dict[str, Any]:
                was_asked.set_result(message)
                await may_answer.wait()
                return {"content": "Mine.", "model": "m", "finishReason": "end_turn", "usage": NO_TOKENS}

            mine.answers["inference/request"] = later
            await mine.select("a.note.think", "a.note.recall")
            await other.select("a.note.recall")
            for client in (mine, other):
                await client.result("context/beforeInference", TURN)
            names = [said["conversationId"] for said in await heard(hub, "a", "context/beforeInference")]
            assert len(set(names)) == 2, "both call it c1"
            params = {"featureSet": "note.think", "messages": [{"role": "user", "content": "Think."}]}
            thinking = asyncio.ensure_future(drive(hub, "a", "send", method="inference/request", params=params))
            id_ = (await asyncio.wait_for(was_asked, 60))["id"]
            forged = {"content": "Forged.", "model": "m", "finishReason": "end_turn", "usage": NO_TOKENS}
            refused = await other.ask("dev.interlock/answer", {"id": id_, "result": forged})
            assert refused["error"]["code"] == -32602
            may_answer.set()
            assert (await thinking)["result"]["content"] == "Mine."


async def test_a_clients_streams_and_lies_meet_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.hub.live.client_streams.MAX_STREAMS", 1)
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=True).running() as client:
        refused = await client.ask("subscriptions/listen", {"notifications": {"dev.interlock/live": {}}})
        assert refused["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"

        async def infer(message: dict[str, Any]) -> dict[str, Any]:
            await client.tell("inference/chunk", {"requestId": message["id"], "index": 0, "delta": "Tea"})
            usage = {"inputTokens": 10**12, "outputTokens": 10**12}
            return {"content": texts.pop(), "model": "m", "finishReason": reasons.pop(), "usage": usage}

        texts, reasons = ["Tea.", "Tea.", "Coffee."], ["because", "end_turn", "end_turn"]
        limit = hub.hub_app.config.host.inference.max_tokens
        client.answers["inference/request"] = infer
        await client.select("a.note.think", "a.note.recall")
        await client.result("context/beforeInference", TURN)
        params = {"featureSet": "note.think", "stream": True, "messages": [{"role": "user", "content": "Think."}]}
        lied = await drive(hub, "a", "send", method="inference/request", params=params)
        assert "chunks are not its answer" in lied["error"]["message"]
        told = await drive(hub, "a", "send", method="inference/request", params=params)
        assert told["result"]["usage"]["outputTokens"] <= limit, "one number does not use up the server's budget"
        nonsense = (await drive(hub, "a", "send", method="inference/request", params=params))["error"]
        assert (nonsense["data"]["name"], "the client" in nonsense["message"]) == ("UPSTREAM_ERROR", True)


async def test_a_server_written_by_hand_says_and_hears_the_rest_about_channels(tmp_path: Path) -> None:
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=False).running() as client:
        client.answers["channels/register"] = {"results": []}
        await client.select("a.note.talk", "a.note.recall")
        await client.result("context/beforeInference", TURN)  # the server was told by now
        await drive(hub, "a", "send", method="channels/register", params={"channels": [GENERAL, DEV]})
        listed = await drive(hub, "a", "send", method="channels/list", params={})
        assert [each["id"] for each in listed["result"]["channels"]] == ["chat:#general", "chat:#dev"]
        await client.notified("channels/changed")
        random = {**GENERAL, "id": "chat:#random"}
        change = {"added": [random], "removed": ["chat:#dev"], "updated": [{**GENERAL, "label": "All"}]}
        await drive(hub, "a", "send", method="channels/changed", params=change, notification=True)
        told = await client.notified("channels/changed")
        assert told["added"][0]["id"] == "a/chat:#random"
        assert told["removed"] == ["a/chat:#dev"]
        assert [(each["id"], each["label"]) for each in told["updated"]] == [("a/chat:#general", "All")]
        shown = {each["id"]: each["label"] for each in (await client.result("channels/list"))["channels"]}
        assert shown == {"a/chat:#general": "All", "a/chat:#random": "General"}
        said = {"conversationId": "c1", "channelId": "a/chat:#general"}
        whole = [{"type": "text", "text": "Hello"}]
        await client.tell("channels/outgoing/complete", {**said, "inferenceId": "i", "content": whole})
        (complete,) = await heard_soon(hub, "channels/outgoing/complete")
        assert (complete["channelId"], complete["content"]) == ("chat:#general", whole)
        await client.tell("channels/publish", {**said, "stream": False, "content": whole})
        (published,) = await heard_soon(hub, "channels/publish")
        assert (published["channelId"], published["content"]) == ("chat:#general", whole)


async def test_a_client_is_told_of_feature_sets_that_a_server_adds_and_removes(tmp_path: Path) -> None:
    async with between(tmp_path) as hub, HostClient(hub, "mine", modern=False).running() as client:
        added = {"note.new": {"description": "New", "uses": ["pushEvents"]}}
        change = {"added": added, "removed": ["note.push"]}
        await drive(hub, "a", "send", method="featureSets/changed", params=change, notification=True)
        told = await client.notified("featureSets/changed")
        assert (list(told["added"]), told["removed"]) == (["a.note.new"], ["a.note.push"])


async def test_a_new_manifest_of_a_server_written_by_hand_is_read(tmp_path: Path) -> None:
    async with between(tmp_path, offer=SIGNS) as hub:
        client = HostClient(hub, "mine", modern=False, version="0.5")
        async with client.running():
            later = {**SIGNS["featureSets"], "note.late": {"description": "Late", "uses": ["channels.register"]}}
            manifest = {**SIGNS, "featureSets": later}
            await reply(hub, "a", "mcpl/manifest", manifest)
            changed = {"revision": "sha256:" + "A" * 43, "domains": ["featureSets"]}
            await drive(hub, "a", "send", method="mcpl/manifestChanged", params=changed, notification=True)
            await client.notified("mcpl/manifestChanged")
            assert "a.note.late" in (await client.result("mcpl/manifest"))["featureSets"]
            connections = hub.hub_app.live.connections
            live = connections.shared("a")
            assert live is not None
            await live.updates.settled()
            for _ in range(1_000):
                connections.on_notification("a", None, "mcpl/manifestChanged", json.dumps(changed).encode())
            assert len(live.updates) == 1, "a flood of hints leads to few readings"
            await live.updates.settled()
            assert not live.manifest_hints


async def test_each_offer_of_a_stateless_client_has_its_own_dialect_and_selection(tmp_path: Path) -> None:
    pushes = {**OFFER, "featureSets": {"note.push": OFFER["featureSets"]["note.push"]}}
    async with between(tmp_path, offer=pushes) as hub:
        new = HostClient(hub, "mine", modern=True, version="0.5")
        old = HostClient(hub, "mine", modern=True, version="0.4")
        old.key = new.key
        grant = {"effectiveCapabilities": ["pushEvents"]}
        async with new.running(), old.running():
            assert (new.manifest["version"], old.manifest["version"]) == ("0.5", "0.4")
            refused = await new.select("a.note.push")
            assert refused["unavailableFeatures"], "no capability was granted in 0.5"
            assert not (await old.select("a.note.push")).get("unavailableFeatures"), "0.4 speaks of feature sets alone"
            nothing = await new.select("a.note.push", effectiveCapabilities=[])
            assert nothing["unavailableFeatures"], "a grant of nothing switches nothing on"
            old.answers["push/event"] = new.answers["push/event"] = {"accepted": True}
            await drive(hub, "a", "push", events=[event("e1")])
            assert (await asked(old))["params"]["eventId"] == "a/e1", "the other client selected nothing"
            assert not (await new.select("a.note.push", **grant)).get("unavailableFeatures")
            await old.select(disabled=["a.note.push"])
            await drive(hub, "a", "push", events=[event("e2")])
            assert (await asked(new))["params"]["eventId"] == "a/e2"
            assert old.asked.empty()
        plain = RawClient(hub.url + "/mcp", new.key)
        other = await plain.modern("mcpl/manifest")
        assert other["error"]["code"] == -32601, "a client that makes no offer is no host, though its key had one"


async def test_offers_of_one_client_push_out_no_other_client(tmp_path: Path) -> None:
    async with between(tmp_path) as hub:
        await enable(hub, "a", "note.**", agent="other")
        await reply(hub, "a", "context/beforeInference", injects("Here."))
        other = HostClient(hub, "other", modern=True)
        await other.select("a.note.recall")
        for number in range(MAX_OFFERS + 2):
            mine = HostClient(hub, "mine", modern=True)
            mine.capabilities = {"experimental": {"mcpl": {**HOST, "x": number}}}
            await mine.select("a.note.recall")
        hosts = hub.hub_app.live.hosts
        assert len(list(hosts.for_agent("mine"))) == MAX_OFFERS
        assert (await other.result("context/beforeInference", TURN))["contextInjections"]
        assert (await mine.result("context/beforeInference", TURN))["contextInjections"]
