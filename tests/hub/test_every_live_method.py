"""Every method of MCPL crosses the hub, between a server and a client that were both written by hand.

The table of methods says which there are, so a row that nobody sends fails here.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import ScopeSettings
from interlock.protocols.mcpl import capabilities
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.methods import METHODS
from interlock.protocols.mcpl.negotiation import read_manifest
from waiting import until

from .host_client import HOST, SINCE_0_5, HostClient
from .host_scene import GENERAL, OFFER, TURN, between, event

CHANNELS = dict.fromkeys(
    ("register", "publish", "observe", "lifecycle", "streaming", "incoming", "typing", "acknowledge"), True
)
EDIT = {"description": "Edits", "uses": ["tools"], "rollback": True}
SETS: dict[McplDialect, dict[str, Any]] = {
    McplDialect.V0_4: {**OFFER["featureSets"], "note.edit": {**EDIT, "scoped": True}},
    McplDialect.V0_5: {
        "note.edit": EDIT,
        "note.push": {"description": "Reminds", "uses": [capabilities.PUSH]},
        "note.recall": {"description": "Recalls", "uses": [capabilities.OBSERVE, capabilities.INJECT_BEFORE_USER]},
        "note.talk": {"description": "Talks", "uses": [f"channels.{name}" for name in CHANNELS if name != "observe"]},
        "note.think": {
            "description": "Thinks",
            "uses": [capabilities.INFERENCE, capabilities.INFERENCE_STREAMING, capabilities.MODEL_INFO],
        },
        "note.watch": {"description": "Watches", "uses": [capabilities.LIFECYCLE]},
    },
}
SAID = {"conversationId": "c1", "channelId": "a/chat:#general"}
STREAM = {**SAID, "inferenceId": "inf_1"}
TEXT = [{"type": "text", "text": "Hello"}]
FROM_HOST: dict[str, tuple[dict[str, Any], Any]] = {
    "channels/open": ({"type": "chat", "address": {"channel": "#dev"}}, {"channel": {**GENERAL, "id": "chat:#dev"}}),
    "channels/close": ({"channelId": "a/chat:#dev"}, {"closed": True}),
    "channels/publish": ({**SAID, "content": TEXT}, {"delivered": True, "messageId": "m9"}),
    "channels/acknowledge": ({"channelId": "a/chat:#general", "messageId": "m1"}, {"acknowledged": True}),
    "context/afterInference": (
        {**TURN, "assistantMessage": "A secret."},
        {"featureSet": "note.check", "metadata": {"checked": True}},
    ),
    "state/rollback": ({"featureSet": "a.note.edit", "checkpoint": "k"}, {"checkpoint": "k", "success": True}),
    "channels/typing": ({"channelId": "a/chat:#general"}, None),
    "channels/outgoing/chunk": ({**STREAM, "index": 0, "delta": "Hel"}, None),
    "channels/outgoing/complete": ({**STREAM, "content": TEXT}, None),
    "inference/lifecycle": ({"inferenceId": "inf_1", "phase": "started"}, None),
}
"""Messages of the client, and what the server answers; None for a notification."""
MESSAGE = {
    "channelId": "chat:#general",
    "messageId": "d1",
    "author": {"id": "u", "name": "Ann"},
    "timestamp": "2026-03-05T10:30:00Z",
    "content": TEXT,
}
FROM_SERVER: dict[str, dict[str, Any]] = {
    "channels/list": {},
    "channels/incoming": {"messages": [MESSAGE]},
    "push/event": event("e1"),
    "model/info": {},
    "scope/elevate": {"featureSet": "note.edit", "scope": {"label": "/project/a"}},
}
"""Requests of the server, beside those of which order matters."""
ANSWERED_BY_THE_HUB = {"channels/list", "scope/elevate"}
"""Requests of servers that the hub answers by itself: it has the list, and a person decides over scopes."""


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
@pytest.mark.parametrize("dialect", list(McplDialect), ids=lambda dialect: dialect.value)
async def test_every_method_crosses_the_hub_between_peers_written_by_hand(
    tmp_path: Path, dialect: McplDialect, modern: bool
) -> None:
    offer = {**OFFER, "version": dialect.value, "featureSets": SETS[dialect], "channels": CHANNELS}
    offer |= {"inferenceLifecycle": True, "modelInfo": True}
    if dialect is McplDialect.V0_5:
        offer["contextHooks"] = {"beforeInference": True}
    more: dict[str, Any] = {"share": "principal"}
    if dialect is McplDialect.V0_4:
        more["scopes"] = {"note.edit": ScopeSettings(whitelist=("/**",))}
    async with between(tmp_path, offer=offer, server=more, ask_s=0) as hub:
        client = HostClient(hub, "mine", modern=modern, version=dialect.value)
        own = {**HOST, **SINCE_0_5, "version": dialect.value, "channels": CHANNELS, "inferenceLifecycle": True}
        client.capabilities = {"experimental": {"mcpl": own}}
        sent: set[str] = set()

        async def server(tool: str, **arguments: Any) -> Any:
            """Have the server of this client do something."""
            said = await client.result("tools/call", {"name": f"a__{tool}", "arguments": arguments})
            return json.loads(said["content"][0]["text"])

        async def say(method: str, params: dict[str, Any]) -> None:
            """The server sends a request, and gets a result."""
            sent.add(method)
            answer = await server("send", method=method, params=params)
            assert "result" in answer, (method, answer)

        async def infer(message: dict[str, Any]) -> dict[str, Any]:
            await client.tell("inference/chunk", {"requestId": message["id"], "index": 0, "delta": "Tea"})
            usage = {"inputTokens": 7, "outputTokens": 2}
            return {"content": "Tea.", "model": "m-1", "finishReason": "end_turn", "usage": usage}

        client.answers |= {
            "inference/request": infer,
            "model/info": {"id": "m-1", "vendor": "v"},
            "push/event": {"accepted": True},
            "channels/register": {"results": []},
            "channels/incoming": {"results": [{"messageId": "d1", "accepted": True, "conversationId": "c1"}]},
        }
        async with client.running():
            read = read_manifest(client.manifest)
            assert read is not None
            paths = sorted({path for declared in read.feature_sets.values() for path in declared.needs})
            chosen = {} if dialect is McplDialect.V0_4 else {"effectiveCapabilities": paths}
            await client.select("a.note.*", **chosen)
            await server("reply", method="context/beforeInference", result={"contextInjections": []})
            await client.result("context/beforeInference", TURN)
            (hook,) = [each for each in await server("heard") if each.get("method") == "context/beforeInference"]
            conversation = hook["params"]["conversationId"]
            wanted = {"featureSet": "note.think", "conversationId": conversation, "stream": True}
            await say("inference/request", {**wanted, "messages": [{"role": "user", "content": "Think."}]})
            await say("channels/register", {"channels": [GENERAL]})
            await client.select("a.note.*", **chosen)  # a client that selects is told of the channels there are
            await say("channels/changed", {"added": [{**GENERAL, "id": "chat:#random"}]})
            for method, params in FROM_SERVER.items():
                if dialect in METHODS[method].dialects:
                    await say(method, params)
            for method, (params, result) in FROM_HOST.items():
                if dialect not in METHODS[method].dialects:
                    continue
                if result is None:
                    await client.tell(method, params)
                else:
                    await server("reply", method=method, result=result)
                    assert "error" not in await client.ask(method, params), method
            # `channels/publish` has two forms, and each stays what it was.
            await client.tell("channels/publish", {**SAID, "content": [{"type": "text", "text": "No answer"}]})
            published: list[dict[str, Any]] = []
            async with asyncio.timeout(60):
                while len(published) < 2:
                    published = [each for each in await server("heard") if each.get("method") == "channels/publish"]
            assert [("id" in each, each["params"]["stream"]) for each in published] == [(True, False), (False, False)]
            assert published[1]["params"]["content"][0]["text"] == "No answer"
            if dialect is McplDialect.V0_4:
                later: dict[str, Any] = {"method": "featureSets/changed", "params": {"removed": ["note.alarm"]}}
            else:
                fewer = {name: said for name, said in SETS[dialect].items() if name != "note.watch"}
                await server("reply", method="mcpl/manifest", result={**offer, "featureSets": fewer})
                hint = {"revision": "sha256:" + "A" * 43, "domains": ["featureSets"]}
                later = {"method": "mcpl/manifestChanged", "params": hint}
                assert "a.note.think" in (await client.result("mcpl/manifest"))["featureSets"]
            sent.add(later["method"])
            await server("send", **later, notification=True)
            assert (await client.result("channels/list"))["channels"]
            rows = [row for row in METHODS.values() if dialect in row.dialects]
            expected = {row.name for row in rows if row.sender == "host"}

            async def all_heard() -> bool:
                return {each.get("method") for each in await server("heard")} >= expected

            await until(all_heard)
            from_server = {row.name for row in rows if row.sender in ("server", "both")}
            assert sent == from_server
            got, queues = set[str](), (client.asked, client.heard)

            def all_came() -> bool:
                got.update(queue.get_nowait()["method"] for queue in queues if not queue.empty())
                return got >= from_server - ANSWERED_BY_THE_HUB

            await until(all_came)
