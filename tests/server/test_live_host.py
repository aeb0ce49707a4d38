"""A server of the library with a host written by hand: hooks, inference, rollback, state and channels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from peer import Peer, Refusal

from interlock.protocols.mcpl.negotiation import read_manifest
from interlock.server import (
    Acknowledge,
    AfterInference,
    BeforeInference,
    Channel,
    ChannelAuthor,
    CloseChannel,
    Context,
    IncomingMessage,
    Injection,
    Lifecycle,
    OpenChannel,
    Operation,
    OutgoingChunk,
    OutgoingComplete,
    Publish,
    Server,
    StateReport,
    ToolResult,
)
from interlock.signatures import DefinitionError
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

TURN = {"inferenceId": "inf_1", "conversationId": "conv_1", "turnIndex": 7, "userMessage": "How is it going?"}
MODEL = {"id": "scripted", "vendor": "none", "contextWindow": 1000, "capabilities": ["tools"]}
INFERRED = {
    "content": "A summary",
    "model": "m",
    "finishReason": "end_turn",
    "usage": {"inputTokens": 4, "outputTokens": 2},
}
BOTH = pytest.mark.parametrize("version", ["0.4", "0.5"])
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


class Host(Peer):
    """A host: it enables feature sets, and answers the server's requests on its session or its stream."""

    def __init__(self, server: Server, version: str, *, principal_name: str = "anyone", **flags: Any) -> None:
        mcpl = {"version": version, **flags}
        super().__init__(server, principal_name=principal_name, capabilities={"experimental": {"mcpl": mcpl}})
        self.reply: Callable[[str, dict[str, Any]], Any] = lambda method, params: {}
        self.asked: list[tuple[str, dict[str, Any], Any]] = []
        """The server's requests: method, params and id."""
        self.was_asked = asyncio.Event()
        self.answering: list[asyncio.Future[None]] = []

    async def open(self, *, modern: bool) -> dict[str, Any]:
        """Meet the server. Returns its manifest."""
        said = await self.call("server/discover") if modern else await self.legacy()
        manifest: dict[str, Any] = said["capabilities"]["experimental"]["mcpl"]
        return manifest

    async def enable(self, manifest: dict[str, Any], *features: str) -> None:
        """Switch feature sets on, and in 0.5 what they need. In the stateless era a stream is opened, too."""
        read = read_manifest(manifest)
        assert read is not None
        params: dict[str, Any] = {"enabled": list(features)}
        if manifest["version"] == "0.5":
            params["effectiveCapabilities"] = sorted({p for name in features for p in read.feature_sets[name].needs})
        if self.modern or manifest["version"] == "0.5":
            await self.call("featureSets/update", **params)
        else:
            self.tell("featureSets/update", **params)
        if self.modern:
            handle, stream = self.start("subscriptions/listen", notifications={"dev.interlock/live": {}})
            self.link.extend(handle, asyncio.get_running_loop().time() + 600)
            stream.on_notification = self.on_stream  # type: ignore[method-assign]
        await self.call("tools/list")  # whatever was sent before has arrived

    def tell(self, method: str, **params: Any) -> None:
        self.link.tell(method, msgspec.json.encode(params))

    def on_stream(self, method: str, params: bytes) -> None:
        said = msgspec.json.decode(params)
        if method != "notifications/dev.interlock/live":
            return
        self._take(said["method"], said["params"], said.get("id"))
        if "id" in said:
            answer = self.reply(said["method"], said["params"])
            self.answering.append(asyncio.ensure_future(self._answer(said["id"], answer)))

    def on_request(self, request: Request) -> None:
        params = msgspec.json.decode(request.params)
        self._take(request.method, params, request.id)
        self.link.answer(request.id, msgspec.json.encode(self.reply(request.method, params)))

    def on_notification(self, method: str, params: bytes) -> None:
        self._take(method, msgspec.json.decode(params), None)

    def _take(self, method: str, params: dict[str, Any], id: Any) -> None:
        self.asked.append((method, params, id))
        self.was_asked.set()

    async def _answer(self, id: Any, result: Any) -> None:
        await self.call("dev.interlock/answer", id=id, result=result)

    async def until_asked(self, method: str) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while not (found := [params for name, params, _ in self.asked if name == method]):
                self.was_asked.clear()
                await self.was_asked.wait()
        return found[-1]


def memory() -> Server:
    server = Server("memory")
    server.feature("memory.retrieval", "Retrieve", uses=["contextHooks.beforeInference"])
    server.feature("memory.consolidation", "Summarize", uses=["inferenceRequest"])
    return server


@BOTH
@ERAS
async def test_the_hook_before_an_inference_injects_what_its_function_returns(version: str, modern: bool) -> None:
    server, seen = memory(), list[BeforeInference]()

    @server.before_inference("memory.retrieval")
    def retrieve(turn: BeforeInference) -> list[Injection | str]:
        seen.append(turn)
        return [Injection("memory", "system", "Likes tea.", {"memoryIds": ["m1"]}), "Nothing else."]

    host = Host(server, version)
    manifest = await host.open(modern=modern)
    assert manifest["version"] == version
    read = read_manifest(manifest)
    assert read is not None
    assert not any(found.problem for found in read.feature_sets.values())
    assert "contextHooks.beforeInference.inject.system" in read.paths
    if modern:
        await host.enable(manifest)
    with pytest.raises(Refusal) as off:
        await host.call("context/beforeInference", **TURN)
    assert (off.value.code, off.value.data["featureSet"]) == (-32001, "memory.retrieval")
    await host.enable(manifest, "memory.retrieval")
    result = await host.call("context/beforeInference", **TURN, model=MODEL, channels={"candidates": ["ui"]})
    assert result["featureSet"] == "memory.retrieval"
    assert result["contextInjections"] == [
        {"namespace": "memory", "position": "system", "content": "Likes tea.", "metadata": {"memoryIds": ["m1"]}},
        {"namespace": "memory.retrieval", "position": "beforeUser", "content": "Nothing else."},
    ]
    assert (seen[0].turn_index, seen[0].user_message, seen[0].model.id if seen[0].model else "") == (
        7,
        "How is it going?",
        "scripted",
    )
    with pytest.raises(Refusal) as wrong:
        await host.call("context/beforeInference", conversationId="c", turnIndex=1, userMessage=None)
    assert (wrong.value.code, wrong.value.data["field"]) == (-32602, "inferenceId")
    assert (await host.call("context/beforeInference", **{**TURN, "userMessage": None}))["contextInjections"]


@ERAS
@pytest.mark.parametrize("blocking", [False, True])
async def test_the_hook_after_an_inference_waits_only_where_it_blocks(modern: bool, blocking: bool) -> None:
    server, seen = Server("compliance"), asyncio.Queue[AfterInference]()
    server.feature("compliance.redaction", "Redact", uses=["contextHooks.afterInference"])

    @server.after_inference("compliance.redaction", blocking=blocking)
    async def redact(turn: AfterInference) -> str | None:
        await seen.put(turn)
        return turn.assistant_message.replace("sk-1", "[REDACTED]") if "sk-1" in turn.assistant_message else None

    host = Host(server, "0.5")
    manifest = await host.open(modern=modern)
    assert manifest["version"] == "0.4", "0.5 has no such hook, so the server asks to be spoken to in 0.4"
    assert manifest["contextHooks"] == {"afterInference": {"blocking": blocking}}
    await host.enable(manifest, "compliance.redaction")
    params = {**TURN, "assistantMessage": "It is sk-1", "usage": {"inputTokens": 5, "outputTokens": 2}}
    if blocking:
        result = await host.call("context/afterInference", **params)
        said = {"featureSet": "compliance.redaction", "modifiedResponse": "It is [REDACTED]"}
        assert result.items() >= said.items()
        clean = await host.call("context/afterInference", **{**params, "assistantMessage": "Hello"})
        assert "modifiedResponse" not in clean
    else:
        host.tell("context/afterInference", **params)
    assert (await asyncio.wait_for(seen.get(), 20)).assistant_message == "It is sk-1"


async def test_a_host_of_0_5_tells_of_inferences_without_their_content() -> None:
    server, seen = Server("watch"), asyncio.Queue[Lifecycle]()
    server.feature("watch.turns", "Count turns", uses=["inferenceLifecycle"])

    @server.on_lifecycle("watch.turns")
    async def count(signal: Lifecycle) -> None:
        await seen.put(signal)

    host = Host(server, "0.5")
    await host.enable(await host.open(modern=False), "watch.turns")
    host.tell(
        "inference/lifecycle", inferenceId="inf_1", phase="completed", usage={"inputTokens": 1, "outputTokens": 2}
    )
    assert (await asyncio.wait_for(seen.get(), 20)).phase == "completed"


@BOTH
@ERAS
async def test_a_server_asks_its_host_for_inference_and_gets_it_in_pieces(version: str, modern: bool) -> None:
    server = memory()
    host = Host(server, version)

    def reply(method: str, params: dict[str, Any]) -> Any:
        if method == "model/info":
            return MODEL
        if params.get("stream"):
            for index, delta in enumerate(("A sum", "mary")):
                host.tell("inference/chunk", requestId=host.asked[-1][2], index=index, delta=delta)
            host.tell("inference/chunk", requestId="another", index=0, delta="not mine")
        return INFERRED

    host.reply = reply
    manifest = await host.open(modern=modern)
    with pytest.raises(Fault, match="not enabled"):
        await server.infer("memory.consolidation", "Summarize")
    with pytest.raises(LookupError):
        await server.infer("memory.unknown", "Summarize")
    await host.enable(manifest, "memory.consolidation")
    chunks: list[str] = []
    result = await server.infer(
        "memory.consolidation", "Summarize", conversation="conv_1", max_tokens=500, on_chunk=chunks.append
    )
    assert (result.content, result.finish_reason, result.usage.output_tokens) == ("A summary", "end_turn", 2)
    asked = host.asked[-1][1]
    said = {"featureSet": "memory.consolidation", "conversationId": "conv_1", "stream": True}
    assert asked.items() >= said.items()
    assert asked["preferences"] == {"maxTokens": 500}
    assert asked["messages"] == [{"role": "user", "content": "Summarize"}]
    assert (await server.infer("memory.consolidation", "Again")).model == "m"
    assert chunks == ["A sum", "mary"]
    assert (await server.model_info()).context_window == 1000


@ERAS
async def test_a_hook_may_not_ask_for_inference_but_work_that_it_leaves_behind_may(modern: bool) -> None:
    server, later = memory(), asyncio.Event()
    left: list[asyncio.Task[Any]] = []

    @server.before_inference("memory.retrieval")
    async def retrieve(turn: BeforeInference) -> str:
        async def consolidate() -> str:
            await later.wait()
            return (await server.infer("memory.consolidation", "Summarize")).content

        left.append(asyncio.create_task(consolidate()))
        try:
            await asyncio.create_task(server.infer("memory.consolidation", "Summarize"))
        except Fault as fault:
            return fault.name
        return "inferred"

    host = Host(server, "0.4")
    host.reply = lambda method, params: INFERRED
    await host.enable(await host.open(modern=modern), "memory.retrieval", "memory.consolidation")
    injected = (await host.call("context/beforeInference", **TURN))["contextInjections"]
    assert injected[0]["content"] == "INFERENCE_IN_HOOK"
    assert (await server.infer("memory.consolidation", "Beside")).content == "A summary", "by cause, not by time"
    later.set()
    assert await left[0] == "A summary"


@ERAS
async def test_state_goes_with_the_host_and_a_checkpoint_can_be_taken_back(modern: bool) -> None:
    server, kept = Server("notes"), {"chk_1"}
    server.feature("notes.edit", "Notes", uses=["tools"], rollback=True)

    @server.tool(meta={"dev.interlock/featureSet": "notes.edit"})
    def add_note(text: str, ctx: Context) -> ToolResult:
        notes = (ctx.state or {"notes": []})["notes"]
        here = f"chk_{len(notes) + 1}"
        if ctx.state is None:
            return ToolResult(content="Added", state=StateReport(here, ctx.checkpoint, {"notes": [text]}))
        patch = (Operation("add", "/notes/-", text),)
        return ToolResult(content="Added", state=StateReport(here, f"chk_{len(notes)}", patch=patch))

    @server.rollback("notes.edit")
    def undo(checkpoint: str) -> str | None:
        if checkpoint not in kept | {"chk_2"}:
            raise LookupError(checkpoint)
        return None if checkpoint in kept else "It was sent already"

    host = Host(server, "0.4")
    await host.enable(await host.open(modern=modern), "notes.edit")
    first = await host.tool("add_note", {"text": "a"})
    assert first["state"] == {"checkpoint": "chk_1", "parent": None, "data": {"notes": ["a"]}}
    second = await host.tool("add_note", {"text": "b"}, state={"notes": ["a"]})
    patch = [{"op": "add", "path": "/notes/-", "value": "b"}]
    assert second["state"] == {"checkpoint": "chk_2", "parent": "chk_1", "patch": patch}
    assert (await host.tool("add_note", {"text": "c"}, checkpoint="chk_0"))["state"]["parent"] == "chk_0"
    back = await host.call("state/rollback", featureSet="notes.edit", checkpoint="chk_1")
    assert back.items() >= {"checkpoint": "chk_1", "success": True}.items()
    cannot = await host.call("state/rollback", featureSet="notes.edit", checkpoint="chk_2")
    assert (cannot["success"], cannot["reason"]) == (False, "It was sent already")
    for feature, checkpoint, code in (("notes.edit", "chk_9", -32005), ("notes.none", "chk_1", -32003)):
        with pytest.raises(Refusal) as refused:
            await host.call("state/rollback", featureSet=feature, checkpoint=checkpoint)
        assert refused.value.code == code


@BOTH
@ERAS
async def test_channels_are_registered_published_to_observed_and_heard(version: str, modern: bool) -> None:
    server, seen = Server("chat"), asyncio.Queue[Any]()
    server.feature("chat.talk", "Talk", uses=["channels.publish", "channels.observe"])
    general = server.channel("chat:#general", "chat", "#general", address={"channel": "#general"})

    @server.on_publish
    async def deliver(message: Publish) -> str | None:
        if message.channel_id != general.id:
            raise LookupError(message.channel_id)
        await seen.put(message)
        return "msg_1"

    @server.on_outgoing
    async def observe(message: OutgoingChunk | OutgoingComplete) -> None:
        await seen.put(message)

    @server.on_open
    async def open_channel(wanted: OpenChannel) -> Channel | None:
        if wanted.address.get("channel") == "#broken":
            raise OSError("no connection")
        return Channel(f"chat:{wanted.address['channel']}", wanted.type, "Opened", "bidirectional", wanted.address)

    @server.on_close
    async def close_channel(channel: CloseChannel) -> bool:
        return channel.channel_id == general.id

    host = Host(server, version)
    host.reply = lambda method, params: {
        "results": [
            {"messageId": each["messageId"], "accepted": True, "conversationId": "conv_1"}
            for each in params.get("messages", ())
        ]
        or [{"id": each["id"], "accepted": True} for each in params.get("channels", ())]
    }
    await host.enable(await host.open(modern=modern), "chat.talk")
    registered = await host.until_asked("channels/register")
    descriptor = {"id": "chat:#general", "type": "chat", "label": "#general", "direction": "bidirectional"}
    assert registered == {"channels": [{**descriptor, "address": {"channel": "#general"}}]}
    server.channel("chat:#random", "chat", "#random", direction="inbound")
    assert [each["id"] for each in (await host.until_asked("channels/changed"))["added"]] == ["chat:#random"]
    assert len((await host.call("channels/list"))["channels"]) == 2
    host.asked.clear()
    server.remove_channel("chat:#random")
    assert (await host.until_asked("channels/changed"))["removed"] == ["chat:#random"]
    assert len((await host.call("channels/list"))["channels"]) == 1

    publish = {"conversationId": "conv_1", "channelId": "chat:#general", "content": "Hello"}
    assert (await host.call("channels/publish", **publish)).items() >= {"delivered": True, "messageId": "msg_1"}.items()
    host.tell("channels/publish", **publish, stream=True)
    assert [(await asyncio.wait_for(seen.get(), 20)).stream for _ in range(2)] == [False, True]
    with pytest.raises(Refusal) as unknown:
        await host.call("channels/publish", **{**publish, "channelId": "chat:#none"})
    assert (unknown.value.code, unknown.value.data["channelId"]) == (-32023, "chat:#none")
    chunk = {"inferenceId": "inf_1", "conversationId": "conv_1", "channelId": "chat:#general"}
    host.tell("channels/outgoing/chunk", **chunk, index=0, delta="Hel")
    assert (await asyncio.wait_for(seen.get(), 20)).delta == "Hel"
    host.tell("channels/outgoing/complete", **chunk, content=[{"type": "text", "text": "Hello"}])
    assert (await asyncio.wait_for(seen.get(), 20)).content[0].text == "Hello"

    opened = await host.call("channels/open", type="chat", address={"channel": "#new"})
    assert opened["channel"]["id"] == "chat:#new"
    with pytest.raises(Refusal) as failed:
        await host.call("channels/open", type="chat", address={"channel": "#broken"})
    assert failed.value.code == -32024
    assert (await host.call("channels/close", channelId="chat:#general"))["closed"] is True

    message = IncomingMessage("chat:#general", "d1", ChannelAuthor("u1", "Alice"), "2026-03-05T10:30:00Z", "Hi")
    (received,) = await server.incoming(message)
    assert (received.message_id, received.accepted, received.conversation_id) == ("d1", True, "conv_1")


@ERAS
async def test_a_server_asks_its_host_for_scopes_and_a_call_knows_its_own(modern: bool) -> None:
    server = Server("files")
    server.feature("files.edit", "Edit files", uses=["tools"], scoped=True, scope_label="{path}")

    @server.tool(meta={"dev.interlock/featureSet": "files.edit"})
    async def edit(path: str, ctx: Context) -> str:
        asked = await ctx.elevate("files.edit", "/etc/hosts", {"path": "/etc/hosts"})
        return f"{None if ctx.scope is None else ctx.scope.label} {asked.approved} {asked.payload} {asked.reason}"

    async def call(host: Host, scope: object) -> dict[str, Any]:
        return await host.call("tools/call", name="edit", arguments={"path": "/project/a"}, scope=scope)

    host, other = Host(server, "0.5"), Host(server, "0.5", principal_name="other")
    manifest = await host.open(modern=modern)
    await other.open(modern=modern)
    assert (manifest["version"], manifest["featureSets"]["files.edit"]["scoped"]) == ("0.4", True), "0.5 has no scopes"
    with pytest.raises(Fault, match="not enabled"):
        await server.elevate("files.edit", "/etc/hosts")
    await host.enable(manifest, "files.edit")
    host.reply = lambda method, params: {"approved": True, "payload": {**params["scope"]["payload"], "volume": "root"}}
    said = await call(host, {"label": "/project/a"})
    assert said["content"][0]["text"] == "/project/a True {'path': '/etc/hosts', 'volume': 'root'} None"
    asked = {"featureSet": "files.edit", "scope": {"label": "/etc/hosts", "payload": {"path": "/etc/hosts"}}}
    assert await host.until_asked("scope/elevate") == asked
    host.reply = lambda method, params: {"approved": False, "reason": "a person said no"}
    assert (await call(host, 5))["content"][0]["text"] == "None False {} a person said no", "no scope is no error"
    assert (await server.elevate("files.edit", "/etc/x")).approved is False
    with pytest.raises(Refusal, match="not enabled"):  # by its own host
        await call(other, {"label": "/project/a"})
    assert not other.asked


@ERAS
async def test_a_server_asks_a_host_for_nothing_that_it_said_it_lacks(modern: bool) -> None:
    server = memory()
    server.feature("memory.chat", "Talk", uses=["channels.publish"])
    server.channel("chat:#general", "chat", "#general")
    flags = {"contextHooks": {"beforeInference": False}, "inferenceRequest": {"streaming": False}}
    host = Host(server, "0.4", **flags, channels={"register": False, "publish": True})
    host.reply = lambda method, params: INFERRED
    await host.enable(await host.open(modern=modern), "memory.retrieval", "memory.consolidation", "memory.chat")
    assert server.enabled_features == {"memory.consolidation", "memory.chat"}
    pieces: list[str] = []
    await server.infer("memory.consolidation", "Summarize", on_chunk=pieces.append)
    asked = await host.until_asked("inference/request")
    assert (asked.get("stream", False), pieces) == (False, ["A summary"])
    assert "channels/register" not in [method for method, _, _ in host.asked]


@BOTH
@ERAS
async def test_hosts_learn_of_feature_sets_that_come_and_go(version: str, modern: bool) -> None:
    server = memory()
    host = Host(server, version)
    manifest = await host.open(modern=modern)
    await host.enable(manifest, "memory.retrieval", "memory.consolidation")
    server.feature("memory.proactive", "Remind")
    told = await host.until_asked("featureSets/changed" if version == "0.4" else "mcpl/manifestChanged")
    if version == "0.4":
        assert told == {"added": {"memory.proactive": {"description": "Remind", "uses": ["pushEvents"]}}}
    else:
        assert told["domains"] == ["featureSets"]
    host.asked.clear()
    server.remove_feature("memory.consolidation")
    told = await host.until_asked("featureSets/changed" if version == "0.4" else "mcpl/manifestChanged")
    if version == "0.4":
        assert told == {"removed": ["memory.consolidation"]}
    else:
        assert sorted((await host.call("mcpl/manifest"))["featureSets"]) == ["memory.proactive", "memory.retrieval"]
    assert server.enabled_features == {"memory.retrieval"}, "off at once"
    with pytest.raises(LookupError):
        await server.infer("memory.consolidation", "Summarize")


@ERAS
async def test_a_host_of_0_5_shows_that_it_writes_and_has_seen_a_message(modern: bool) -> None:
    server, seen = Server("chat"), asyncio.Queue[Any]()
    server.feature("chat.signs", "Signs", uses=["channels.register", "channels.typing", "channels.acknowledge"])
    server.channel("chat:#general", "chat", "#general")
    server.on_typing(seen.put)

    @server.on_acknowledge
    async def acknowledge(message: Acknowledge) -> bool:
        await seen.put(message)
        return message.message_id == "d1"

    host = Host(server, "0.5")
    host.reply = lambda method, params: {
        "results": [{"id": each["id"], "accepted": True} for each in params["channels"]]
    }
    await host.enable(await host.open(modern=modern), "chat.signs")
    host.tell("channels/typing", channelId="chat:#general")
    assert (await asyncio.wait_for(seen.get(), 20)).channel_id == "chat:#general"
    for id_, shown in (("d1", True), ("d2", False)):
        told = await host.call("channels/acknowledge", channelId="chat:#general", messageId=id_)
        assert (told["acknowledged"], (await seen.get()).message_id) == (shown, id_)


def test_a_function_needs_a_feature_set_that_uses_it_and_stands_alone() -> None:
    server = memory()
    with pytest.raises(DefinitionError, match=r"contextHooks\.beforeInference"):
        server.before_inference("memory.consolidation")(lambda turn: None)
    server.before_inference("memory.retrieval")(lambda turn: None)
    with pytest.raises(DefinitionError, match="has a function already"):
        server.before_inference("memory.retrieval")(lambda turn: None)
