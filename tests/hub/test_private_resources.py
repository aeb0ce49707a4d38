"""Resources that a call adds to one process of a server: clients with that process list them and read them there.

A resource of the shared process is everybody's, and is read there by clients with a process of their own too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.config.settings import HubSettings, TimeoutSettings
from interlock.hub.upstreams.audience_items import AudienceResources

from .running_hub import RawClient, RunningHub, child, running_hub, until
from .test_changes import opened

CHANGED = "notifications/resources/list_changed"
FIRST = "interlock://a/note://first"
OWN = "interlock://a/note://own"
SETTINGS = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60))
SERVERS = {"a": child("adding_official_server.py", era="legacy")}


async def client_of(hub: RunningHub, capabilities: dict[str, Any]) -> RawClient:
    client = RawClient(hub.url + "/mcp")
    await client.initialize(capabilities)
    return client


async def listed(client: RawClient) -> set[str]:
    return {each["uri"] for each in (await client.legacy("resources/list"))["result"]["resources"]}


async def add(client: RawClient, name: str, **further: str) -> None:
    assert "result" in await client.legacy("tools/call", {"name": "a__add", "arguments": {"name": name, **further}})


async def read(client: RawClient, uri: str) -> str:
    answer = await client.legacy("resources/read", {"uri": uri})
    return str(answer["result"]["contents"][0]["text"]) if "result" in answer else str(answer["error"])


async def test_a_resource_of_a_private_connection_is_its_owners_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=SETTINGS) as hub:
        owner, other, plain = [await client_of(hub, each) for each in ({"roots": {}}, {"roots": {}}, {})]
        for client in (owner, other, plain):
            assert await listed(client) == {FIRST}
        async with opened(owner, "GET", b"", {}) as mine, opened(other, "GET", b"", {}) as theirs:
            await add(owner, "own")
            await until(lambda: CHANGED in mine.methods())
            assert await listed(owner) == {FIRST, OWN}
            assert await read(owner, OWN) == "text of own"
            for client in (other, plain):
                assert await listed(client) == {FIRST}
            assert CHANGED not in theirs.methods()
        hub.hub_app.upstreams["a"].pool.release(f"session:{owner.session}")
        await until(lambda: OWN not in exposed(hub))


def exposed(hub: RunningHub) -> set[str]:
    offer = hub.hub_app.catalog.offer("a")
    return set() if offer is None else {item.exposed for item in offer.resources.values()}


def everybodys(hub: RunningHub) -> bool:
    offer = hub.hub_app.catalog.offer("a")
    return offer is not None and offer.resources["note://own"].only_for is None


async def test_a_resource_of_the_shared_connection_is_read_there(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=SETTINGS) as hub:
        plain, private = await client_of(hub, {}), await client_of(hub, {"roots": {}})
        await add(plain, "own")
        await until(lambda: OWN in exposed(hub))
        assert await listed(private) == {FIRST, OWN}
        assert await read(private, OWN) == "text of own"
        assert await read(private, FIRST) == "first"
        assert len(hub.hub_app.upstreams["a"].pool.private.open_connections()) == 1, "the other read is in its process"


async def test_a_resource_of_both_is_read_in_the_process_of_the_client(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=SETTINGS) as hub:
        plain, private = await client_of(hub, {}), await client_of(hub, {"roots": {}})
        await add(private, "own")
        await until(lambda: OWN in exposed(hub))
        assert await listed(plain) == {FIRST}
        await add(plain, "own")
        await until(lambda: everybodys(hub))
        lists = hub.hub_app.upstreams["a"].lists
        assert await listed(plain) == {FIRST, OWN}
        assert not lists.resources.only_shared("note://own", f"session:{private.session}")
        assert lists.resources.only_shared("note://own", "session:another")
        assert await read(private, OWN) == "text of own"


async def test_a_client_is_not_shown_how_another_ones_server_describes_the_same_address(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, hub=SETTINGS) as hub:
        clients = {name: await client_of(hub, {"roots": {}}) for name in ("alice", "bob")}
        for name, client in clients.items():
            await add(client, "own", description=f"the notes of {name}")
            await add(client, name)
        # Each of them shows that the hub has read the list of that client's process since both calls.
        await until(lambda: {f"interlock://a/note://{name}" for name in clients} <= exposed(hub))
        await hub.hub_app.upstreams["a"].lists.again()
        shown = {name: await descriptions(client) for name, client in clients.items()}
        for name, described in shown.items():
            assert described <= {f"the notes of {name}"}
        assert any(shown.values()), "the first definition is in force for its client"


async def descriptions(client: RawClient) -> set[str]:
    resources = (await client.legacy("resources/list"))["result"]["resources"]
    return {each["description"] for each in resources if each["uri"] == OWN}


async def test_clients_whose_servers_describe_an_address_alike_share_the_definition() -> None:
    mine, other = b'{"uri":"note://own","name":"own"}', b'{"uri":"note://own","name":"other"}'
    resources = AudienceResources()
    for key, definition in (("session:1", mine), ("session:2", other), ("session:3", mine)):
        assert await resources.set_for(key, [definition])
        assert not await resources.set_for(key, [definition]), "it is the same list"
    assert resources.further() == {"note://own": (mine, frozenset({"session:1", "session:3"}))}
