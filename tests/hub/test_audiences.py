"""Tools that a server offers only to some: to clients that declare a capability, or on one private connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from interlock.client.connection import Connection
from interlock.config.settings import Config, HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.catalog import remembered_audiences
from interlock.hub.upstreams.listing import ServerLists
from interlock.hub.upstreams.private_lists import PrivateLists
from interlock.hub.upstreams.states import ServerState
from interlock.store import Store, StoreFull
from loop_clock import advance

from .instructed_server import VERSION, InstructedServer, Say
from .running_hub import PREFIX, RawClient, RunningHub, running_hub, until
from .test_changes import opened

CHANGED = "notifications/tools/list_changed"
SAMPLING: dict[str, Any] = {"sampling": {}}
ROOTS: dict[str, Any] = {"roots": {}}
NOT_UTF8 = "NOT-UTF8"
"""Becomes a byte that no UTF-8 text has."""


class Conditional(InstructedServer):
    """Has the tool `do` for everybody, and a tool for each capability that a client declares."""

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, dict[str, Any]] = {}
        self.broken = False
        self.garbled = False
        self.ready = asyncio.Event()
        """Set while it lists its tools to clients that declare sampling."""
        self.ready.set()

    async def _serve(self, message: Any, say: Say, beside: Say) -> Any:
        params = message.get("params", {})
        meta = params.get("_meta", {})
        if message["method"] == "initialize":
            self.declared[self.session] = params["capabilities"]
        elif message["method"] == "tools/list":
            declared = meta[PREFIX + "clientCapabilities"] if VERSION in meta else self.declared[self.session]
            if "sampling" in declared:
                await self.ready.wait()
            if self.broken and "sampling" in declared:
                return {"error": {"code": -32603, "message": "try again later"}}
            names = ["do", *(f"with-{name}" for name in ("sampling", "roots") if name in declared)]
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            if self.garbled and "sampling" in declared:
                tools.append({"name": "garbled", "description": NOT_UTF8, "inputSchema": {"type": "object"}})
            more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if VERSION in meta else {}
            return {"result": {"tools": tools, **more}}
        return await super()._serve(message, say, beside)

    def encode(self, message: Any) -> bytes:
        return super().encode(message).replace(NOT_UTF8.encode(), b"\xff")


async def sees(client: RawClient, declares: dict[str, Any], *expected: str) -> None:
    """Wait until a client sees these tools. A first list may come before the server has told all of them."""

    async def seen() -> bool:
        return await names(client, declares) == set(expected)

    await until(seen)


async def names(client: RawClient, declares: dict[str, Any]) -> set[str]:
    said = await client.modern("tools/list", {"_meta": {PREFIX + "clientCapabilities": declares}})
    return {tool["name"] for tool in said["result"]["tools"]}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_tools_for_capable_clients_are_listed_and_called_by_those_only(
    tmp_path: Path, era: Literal["legacy", "modern"]
) -> None:
    async with (
        Conditional().http() as server,
        running_hub(tmp_path, {"a": ServerSettings(url=server.url, era=era)}) as hub,
    ):
        client = RawClient(hub.url + "/mcp")
        await until(lambda: hub.hub_app.upstreams["a"].lists.known)
        assert await names(client, {}) == {"a__do"}
        await sees(client, SAMPLING, "a__do", "a__with-sampling")
        await sees(client, ROOTS, "a__do", "a__with-roots")
        await sees(client, SAMPLING | ROOTS, "a__do", "a__with-sampling", "a__with-roots")
        assert await names(client, {}) == {"a__do"}

        called = await call(client, "a__with-sampling", SAMPLING)
        assert "result" in called, called
        for declares in ({}, ROOTS):
            refused = (await call(client, "a__with-sampling", declares))["error"]
            assert refused["data"]["name"] == "MISSING_CAPABILITY"
            assert refused["data"]["requiredCapabilities"] == {"sampling": {}}
        await sessions_see_the_same(hub)
        asked = len(server.asked("tools/list"))
        assert await names(client, SAMPLING) == {"a__do", "a__with-sampling"}
        assert len(server.asked("tools/list")) == asked, "a set of capabilities is asked for once"


async def test_the_first_list_waits_for_the_tools_of_clients_like_its_own(tmp_path: Path) -> None:
    """Many clients read the list once. To ask takes a server on standard streams as long as its start."""
    patient = HubSettings(timeouts=TimeoutSettings(first_list_s=3600, discovery_s=3600))
    async with (
        Conditional().http() as server,
        running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="modern")}, hub=patient) as hub,
    ):
        await until(lambda: hub.hub_app.upstreams["a"].lists.known)
        server.ready.clear()
        asked = len(server.asked("tools/list"))
        listed = asyncio.ensure_future(names(RawClient(hub.url + "/mcp"), SAMPLING))
        await until(lambda: len(server.asked("tools/list")) > asked)
        advance(30)
        assert await names(RawClient(hub.url + "/mcp"), {}) == {"a__do"}
        assert not listed.done()
        server.ready.set()
        assert await listed == {"a__do", "a__with-sampling"}


async def test_a_hub_that_starts_again_does_not_ask_again(tmp_path: Path) -> None:
    """To ask a server of the handshake era may start a process."""
    async with Conditional().http() as server:
        sessions: list[int] = []
        for _ in range(2):
            async with running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="legacy")}) as hub:
                await until(lambda: hub.hub_app.upstreams["a"].lists.known)
                await sees(RawClient(hub.url + "/mcp"), SAMPLING, "a__do", "a__with-sampling")
            sessions.append(sum("sampling" in params["capabilities"] for params in server.asked("initialize")))
        assert sessions == [1, 1]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_without_a_list_reaches_a_tool_for_some_clients(
    tmp_path: Path, era: Literal["legacy", "modern"]
) -> None:
    async with (
        Conditional().http() as server,
        running_hub(tmp_path, {"a": ServerSettings(url=server.url, era=era)}) as hub,
    ):
        client = RawClient(hub.url + "/mcp")
        called = await call(client, "a__with-sampling", SAMPLING)
        assert "result" in called, called
        called = await call(client, "a__with-sampling", SAMPLING | ROOTS)
        assert "result" in called, "the server offers it to clients that declare more, too"
        assert (await call(client, "a__with-sampling", {}))["error"]["data"]["name"] == "MISSING_CAPABILITY"
        assert (await call(client, "a__with-sampling", ROOTS))["error"]["data"]["name"] == "MISSING_CAPABILITY"
        asked = len(server.asked("tools/list"))
        assert (await call(client, "a__nothing", ROOTS))["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert len(server.asked("tools/list")) == asked, "unknown names ask no server again"


async def test_known_tools_stay_while_the_server_cannot_list_them(tmp_path: Path) -> None:
    async with Conditional().http() as server:
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="modern")}) as hub:
            client, upstream = RawClient(hub.url + "/mcp"), hub.hub_app.upstreams["a"]
            await until(lambda: upstream.lists.known)
            await sees(client, SAMPLING, "a__do", "a__with-sampling")
            server.broken = True
            await upstream.audience_lists.ask("declares:sampling")
            assert await names(client, SAMPLING) == {"a__do", "a__with-sampling"}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_definition_that_is_not_utf8_hides_no_other(tmp_path: Path, era: Literal["legacy", "modern"]) -> None:
    async with (
        Conditional().http() as server,
        running_hub(tmp_path, {"a": ServerSettings(url=server.url, era=era)}) as hub,
    ):
        server.garbled = True
        await until(lambda: hub.hub_app.upstreams["a"].lists.known)
        client = RawClient(hub.url + "/mcp")
        await sees(client, SAMPLING, "a__do", "a__with-sampling")
        assert "result" in await call(client, "a__with-sampling", SAMPLING)


async def test_a_full_disk_hides_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise StoreFull("the disk is full")

    async with Conditional().http() as server:
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="legacy")}) as hub:
            await until(lambda: hub.hub_app.upstreams["a"].lists.known)
            monkeypatch.setattr(remembered_audiences, "read", full)
            monkeypatch.setattr(remembered_audiences, "write", full)
            await sees(RawClient(hub.url + "/mcp"), SAMPLING, "a__do", "a__with-sampling")


async def test_the_end_of_a_server_waits_for_the_sessions_that_only_listed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard streams such a session is a process, which must not outlive the hub."""
    close, begun, released = Connection.close, asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def late(self: Connection) -> None:
        if b"sampling" in self.identity.capabilities:
            begun.set()
            await released.wait()
            order.append("the session is closed")
        await close(self)

    monkeypatch.setattr(Connection, "close", late)
    async with Conditional().http() as server:
        async with running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="legacy")}) as hub:
            await until(lambda: hub.hub_app.upstreams["a"].lists.known)
            await sees(RawClient(hub.url + "/mcp"), SAMPLING, "a__do", "a__with-sampling")
            upstream = hub.hub_app.upstreams["a"]
            ending = asyncio.ensure_future(hub.hub_app.apply(Config()))
            ending.add_done_callback(lambda _: order.append("the server has ended"))
            await until(lambda: upstream.state is ServerState.DISCONNECTED)
            await begun.wait()
            await RawClient(hub.url + "/mcp").modern("tools/list")  # as long as any end would take
            assert order == []
            released.set()
            await ending
            await until(lambda: order == ["the session is closed", "the server has ended"])


async def sessions_see_the_same(hub: RunningHub) -> None:
    """Also in the handshake era; and a search finds no more than a list shows."""
    for declares, seen in (({}, False), (SAMPLING, True)):
        session = RawClient(hub.url + "/mcp")
        await session.initialize(declares)
        listed = (await session.legacy("tools/list"))["result"]["tools"]
        assert ("a__with-sampling" in {tool["name"] for tool in listed}) == seen
        found = await session.legacy(
            "tools/call", {"name": "find_tools", "arguments": {"query": "with-sampling", "max_results": 10}}
        )
        assert ("a__with-sampling" in str(found["result"])) == seen


async def call(client: RawClient, name: str, declares: dict[str, Any]) -> Any:
    meta = {PREFIX + "clientCapabilities": declares}
    return await client.modern("tools/call", {"name": name, "arguments": {}, "_meta": meta})


class Dynamic(InstructedServer):
    """Has a further tool in each session that asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.grown: set[str] = set()
        self.ready = asyncio.Event()
        """Set while it lists its tools."""
        self.ready.set()

    async def _serve(self, message: Any, say: Say, beside: Say) -> Any:
        if message["method"] == "tools/list":
            await self.ready.wait()
            names = ["do", "grown"] if self.session in self.grown else ["do"]
            return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}}
        if message["method"] == "tools/call" and "steps" in message["params"].get("arguments", {}):
            self.grown.add(self.session)
        return await super()._serve(message, say, beside)


async def test_tools_of_a_private_connection_are_its_owners_alone(tmp_path: Path) -> None:
    async with (
        Dynamic().http() as server,
        running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="legacy")}) as hub,
    ):
        await until(lambda: hub.hub_app.upstreams["a"].lists.known)
        owner, other = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        for client in (owner, other):
            await client.initialize(SAMPLING)
            assert await seen(client) == {"a__do"}
        async with opened(owner, "GET", b"", {}) as mine, opened(other, "GET", b"", {}) as theirs:
            tell = {"tell": {"method": CHANGED}, "beside": True}
            await owner.legacy("tools/call", {"name": "a__do", "arguments": {"steps": [tell]}})
            await until(lambda: CHANGED in mine.methods())
            assert await seen(owner) == {"a__do", "a__grown"}
            assert "result" in await owner.legacy("tools/call", {"name": "a__grown", "arguments": {}})
            assert await seen(other) == {"a__do"}
            refused = await other.legacy("tools/call", {"name": "a__grown", "arguments": {}})
            assert refused["error"]["data"]["name"] == "TOOL_NOT_FOUND"
            assert "grown" not in str(await hub.operate("discovery.list")), "nobody else learns its name"
            assert CHANGED not in theirs.methods()
        hub.hub_app.upstreams["a"].pool.release(f"session:{owner.session}")
        await until(lambda: "grown" not in offered(hub))


async def test_a_call_of_a_tool_that_its_server_has_just_announced_waits_for_the_list(tmp_path: Path) -> None:
    patient = HubSettings(timeouts=TimeoutSettings(discovery_s=3600, tool_s=3600))
    async with (
        Dynamic().http() as server,
        running_hub(tmp_path, {"a": ServerSettings(url=server.url, era="legacy")}, hub=patient) as hub,
    ):
        await until(lambda: hub.hub_app.upstreams["a"].lists.known)
        grow = {"name": "a__do", "arguments": {"steps": [{"tell": {"method": CHANGED}}]}}
        for name, found in (("a__grown", True), ("a__grown", True), ("a__nothing", False)):
            client = RawClient(hub.url + "/mcp")
            await client.initialize(SAMPLING)
            assert await seen(client) == {"a__do"}
            server.ready.clear()
            asked = len(server.asked("tools/list"))
            assert "result" in await client.legacy("tools/call", grow)
            call = asyncio.ensure_future(client.legacy("tools/call", {"name": name, "arguments": {}}))
            await until(lambda call=call: hub.hub_app.hub.background_tasks == 1 or call.done())
            server.ready.set()
            assert ("result" in await call) == found, "others have it, too, each in a session of its own"
            assert len(server.asked("tools/list")) == asked + 2, "the list of its session, and the list for everybody"


def offered(hub: RunningHub) -> set[str]:
    offer = hub.hub_app.catalog.offer("a")
    return set() if offer is None else set(offer.tools)


async def seen(client: RawClient) -> set[str]:
    return {tool["name"] for tool in (await client.legacy("tools/list"))["result"]["tools"]}


class NoLists:
    """Lists that nothing is read from."""

    def forget(self, audience: str) -> None: ...

    async def again(self) -> None:
        await asyncio.Event().wait()


class Owner:
    connection_key = "session:1"
    connection = None


async def test_nothing_is_kept_of_a_private_connection_that_changed_its_list_and_closed() -> None:
    lists = PrivateLists(cast(Any, None), cast(ServerLists, NoLists()), cast(Any, None))
    for _ in range(2):
        lists.on_changed(cast(Any, Owner))
        await asyncio.sleep(0)
    lists.on_closed(cast(Any, Owner))
    await until(lambda: lists.pending == 0)


class OneOfEach:
    """A connection that lists one item of each kind."""

    async def list_all(self, method: str, timeout: float) -> Any:
        return SimpleNamespace(items=[method.encode()])


class ListedOwner:
    connection_key = "session:1"
    connection = OneOfEach()


async def test_the_resources_of_a_private_connection_do_not_wait_for_its_tools() -> None:
    resources: list[list[bytes]] = []

    class Taking(NoLists):
        async def set_tools(self, key: str, listed: list[bytes]) -> bool:
            await self.again()
            return True

        async def set_resources(self, key: str, listed: list[bytes]) -> bool:
            resources.append(listed)
            return True

    lists = PrivateLists(cast(Any, SimpleNamespace(discovery_s=60)), cast(ServerLists, Taking()), cast(Any, None))
    lists.on_changed(cast(Any, ListedOwner))
    lists.on_changed(cast(Any, ListedOwner), "notifications/resources/list_changed")
    await until(lambda: resources == [[b"resources/list"]])
    lists.on_closed(cast(Any, ListedOwner))
    await until(lambda: lists.pending == 0)


async def test_remembered_tools_are_bounded_also_those_of_removed_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered_audiences, "MAX_ANSWERS", 3)
    store = await Store.open(tmp_path / "hub.db", (remembered_audiences.FOR_SOME,))
    for number in range(4):
        await remembered_audiences.write(store, f"s{number}", "a", "stamp", [b"{}"])
    assert len(await store.keys(remembered_audiences.FOR_SOME)) == 1
    assert await remembered_audiences.read(store, "s3", "a", "stamp") == [b"{}"]
    assert await remembered_audiences.read(store, "s0", "a", "stamp") is None, "its server is asked again"
    await store.close()
