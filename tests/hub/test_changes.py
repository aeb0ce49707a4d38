"""Changes: lists, resources and the configuration itself, told to whom they concern and to nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from interlock.config.settings import Config, ProfileSettings, ServerSettings
from interlock.hub.upstreams.states import ServerState
from interlock.server import Server as Growing

from .instructed_server import InstructedServer, Say
from .running_hub import MODERN, RawClient, RunningHub, child, running_hub, text_of, until


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> Literal["modern", "legacy"]:
    return request.param  # type: ignore[no-any-return]


class Stream:
    """A stream that stays open, and what came on it."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def methods(self) -> list[str]:
        return [message.get("method", "answer") for message in self.heard]


@contextlib.asynccontextmanager
async def opened(client: RawClient, method: str, body: bytes, headers: dict[str, str]) -> AsyncIterator[Stream]:
    said = {"host": f"{client.host}:{client.port}", "accept": "text/event-stream, application/json", **headers}
    if client.key:
        said["authorization"] = f"Bearer {client.key}"
    if client.session:
        said["mcp-session-id"] = client.session
    if body:
        said |= {"content-type": "application/json", "content-length": str(len(body))}
    reader, writer = await asyncio.open_connection(client.host, int(client.port))
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    writer.write(f"{method} {client.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    stream = Stream()

    async def read() -> None:
        while line := await reader.readline():
            if line.startswith(b"data:") and line[5:].strip():
                stream.heard.append(json.loads(line[5:]))

    reading = asyncio.ensure_future(read())
    try:
        yield stream
    finally:
        reading.cancel()
        writer.close()


@contextlib.asynccontextmanager
async def listening(
    client: RawClient, capabilities: dict[str, Any] | None = None, **wanted: Any
) -> AsyncIterator[Stream]:
    """A listen stream of the stateless era, acknowledged."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    params = {"notifications": wanted, "_meta": meta}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": params})
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen"}
    async with opened(client, "POST", body, headers) as stream:
        await until(lambda: bool(stream.heard))
        assert stream.heard[0]["method"] == "notifications/subscriptions/acknowledged"
        yield stream


async def call(hub: RunningHub, name: str, arguments: dict[str, Any] | None = None) -> str:
    return text_of(await RawClient(hub.url + "/mcp").modern("tools/call", {"name": name, "arguments": arguments or {}}))


async def test_a_new_tool_is_told_to_whoever_sees_it(tmp_path: Path, era: Literal["modern", "legacy"]) -> None:
    profiles = {"narrow": ProfileSettings(tools=("busy__echo",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}, profiles=profiles) as hub:
        everyone, narrow = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/profiles/narrow/mcp")
        session = RawClient(hub.url + "/mcp")
        await session.initialize()
        async with (
            listening(everyone, toolsListChanged=True, promptsListChanged=True) as wide,
            listening(narrow, toolsListChanged=True) as slim,
            opened(session, "GET", b"", {}) as standing,
        ):
            await asyncio.sleep(0)
            assert await call(hub, "busy__grow", {"name": "fresh"}) == "grown"
            await until(lambda: "notifications/tools/list_changed" in wide.methods())
            await until(lambda: "notifications/tools/list_changed" in standing.methods())
            listed = (await everyone.modern("tools/list"))["result"]["tools"]
            assert "busy__fresh" in {tool["name"] for tool in listed}
            assert "notifications/prompts/list_changed" not in wide.methods()
            assert slim.methods() == ["notifications/subscriptions/acknowledged"]
            changed = next(m for m in wide.heard if m["method"] == "notifications/tools/list_changed")
            assert changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"


async def test_an_updated_resource_is_told_to_its_subscribers_by_the_address_they_know(
    tmp_path: Path, era: Literal["modern", "legacy"]
) -> None:
    uri = "interlock://busy/text://one"
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        old = RawClient(hub.url + "/mcp")
        await old.initialize()
        assert (await old.legacy("resources/subscribe", {"uri": uri}))["result"] == {}
        async with (
            listening(RawClient(hub.url + "/mcp"), resourceSubscriptions=[uri, "interlock://nobody/x"]) as new,
            listening(RawClient(hub.url + "/mcp"), toolsListChanged=True) as other,
            opened(old, "GET", b"", {}) as standing,
        ):
            assert new.heard[0]["params"]["notifications"] == {"resourceSubscriptions": [uri]}
            await call(hub, "busy__touch")
            await until(lambda: "notifications/resources/updated" in new.methods())
            await until(lambda: "notifications/resources/updated" in standing.methods())
            assert new.heard[-1]["params"]["uri"] == standing.heard[-1]["params"]["uri"] == uri
            assert "notifications/resources/updated" not in other.methods()


async def test_subscriptions_are_dropped_at_the_server_with_the_last_who_wanted_them(tmp_path: Path) -> None:
    uri = "interlock://busy/text://one"
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era="legacy")}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        await client.legacy("resources/subscribe", {"uri": uri})
        assert hub.hub_app.change_notifier.subscriptions("busy", None) == ["text://one"]
        await client.legacy("resources/unsubscribe", {"uri": uri})
        assert hub.hub_app.change_notifier.subscriptions("busy", None) == []


async def test_a_listen_stream_ends_cleanly_when_the_hub_does(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(running_hub(tmp_path, {"busy": child("busy_server.py")}))
        stream = await stack.enter_async_context(listening(RawClient(hub.url + "/mcp"), toolsListChanged=True))
        await hub.hub_app.hub.close()
        await until(lambda: "answer" in stream.methods())
        assert stream.heard[-1]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"


async def test_a_changed_configuration_touches_only_what_changed(tmp_path: Path) -> None:
    stays = child("busy_server.py")
    async with running_hub(tmp_path, {"stays": stays, "goes": child("busy_server.py")}) as hub:
        pid = await call(hub, "stays__pid")
        hanging = asyncio.ensure_future(call(hub, "stays__hang", {"mark": "x"}))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        changed = await hub.hub_app.apply(Config(servers={"stays": stays, "comes": child("busy_server.py")}))
        assert changed == ["comes", "goes"]
        await hub.state("comes", ServerState.CONNECTED)
        assert not hanging.done()
        assert await call(hub, "stays__pid") == pid
        assert await call(hub, "comes__echo", {"text": "new"}) == "new"
        gone = await RawClient(hub.url + "/mcp").modern(
            "tools/call", {"name": "goes__echo", "arguments": {"text": "x"}}
        )
        assert gone["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        hanging.cancel()


async def test_the_first_tool_of_a_server_is_seen_when_it_comes(
    tmp_path: Path, era: Literal["legacy", "modern"]
) -> None:
    own = Growing("growing")
    async with own.http() as address, running_hub(tmp_path, {"a": ServerSettings(url=address.url, era=era)}) as hub:
        for _ in range(2):
            # The first list of the hub may have the tool already. The server reports the second round.
            @own.tool
            async def late() -> str:
                return "here"

            await until(lambda: (offer := hub.hub_app.catalog.offer("a")) is not None and "late" in offer.tools)
            own.remove_tool("late")
            await until(lambda: (offer := hub.hub_app.catalog.offer("a")) is not None and not offer.tools)


class ChangesUnwatched(InstructedServer):
    """Its list changes with every stream it is asked for, just before it agrees, and that is told to nobody."""

    def __init__(self, *, late: bool) -> None:
        super().__init__()
        self._late = late
        self.streams = 0
        self.broken = asyncio.Event()

    async def _serve(self, message: Any, say: Say, beside: Say) -> Any:
        method = message["method"]
        if method == "tools/list":
            tool = {"name": f"of{self.streams}", "inputSchema": {"type": "object"}}
            listed = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}
            return {"result": listed}
        if method != "subscriptions/listen":
            return await super()._serve(message, say, beside)
        if self._late:
            await until(lambda: self.asked("tools/list"))
        self.streams += 1
        first = self.streams == 1
        told = {
            "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]},
            "notifications": message["params"]["notifications"],
        }
        say({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told})
        await (self.broken if first else asyncio.Event()).wait()
        return {"result": {"resultType": "complete", "_meta": told["_meta"]}}


@pytest.mark.parametrize("late", [False, True])
async def test_a_change_before_a_stream_is_acknowledged_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Neither the first stream's, also where the server agrees to it late, nor that of one opened again."""
    monkeypatch.setattr("interlock.client.watch.FIRST_WAIT", 0.01)
    monkeypatch.setattr("interlock.client.watch.STREAM_WAIT", 0.01 if late else 120.0)
    async with ChangesUnwatched(late=late).http() as server:
        assert isinstance(server, ChangesUnwatched)
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="modern")}) as hub:

            def offered() -> set[str]:
                offer = hub.hub_app.catalog.offer("a")
                return set() if offer is None else set(offer.tools)

            await until(lambda: offered() == {"of1"})
            assert late or len(server.asked("tools/list")) == 1, "an ordinary start lists once"
            server.broken.set()
            await until(lambda: offered() == {"of2"})
