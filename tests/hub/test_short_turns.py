"""Operations on a thousand servers take many short turns of the loop, and a changed file is read once."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from interlock.client.listing import ITEMS_AT_ONCE, read_page
from interlock.config.load import load
from interlock.config.settings import Config, ServerSettings
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.admin.health import HealthOperations, ShowHealth
from interlock.hub.app import HubApp
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Caller
from interlock.hub.calls.plan import PlanGeneration
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.views import EVERYTHING, Catalog
from interlock.hub.handlers.discovery_methods import ListServers
from interlock.hub.handlers.health import HealthHandler
from interlock.hub.handlers.lists import ListHandler
from interlock.hub.tool_search.list_forms import ListForm, ListForms
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.searching_clients import list_scope_for
from interlock.hub.tool_search.tokens import OFFERED_AT_ONCE, TokenCounts
from interlock.hub.upstreams.audience_items import AudienceItems
from interlock.process.turns import AT_ONCE, SLICE, encode_in_turns, pieces_in_turns, slices_in_turns
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.results import own_result
from interlock.protocols.mcp.revisions import R2025_03_26
from interlock.protocols.mgp.health import STATUS
from interlock.protocols.registry.openapi import ToolPart, openapi, tool_part
from interlock.version import VERSION
from interlock.web.metrics.gather import gather
from interlock.web.rest import documents as rest_documents
from interlock.web.rest.documents import ABOUT_THE_HUB, TOOLS_AT_ONCE, Documents
from interlock.web.rest.exchange import RestExchange
from interlock.wire.errors import Fault
from interlock.wire.large import JoinedArray
from interlock.wire.large_messages import decode_large
from interlock.wire.limits import DEFAULT
from interlock.wire.messages import Result
from processor_work import steps_of

from .running_hub import MODERN, PREFIX, KeptHttpClient, RawClient, running_hub

SERVERS = 10 * AT_ONCE
MANY = 8
"""Of ten turns; the counter begins a turn late."""
OPERATOR = Principal("operator", "person")
META = msgspec.json.encode({f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}})


class Rows(msgspec.Struct, rename="camel", omit_defaults=True):
    first_rows: list[dict[str, int]]
    few: list[int] = []
    word: str = ""


class Turns:
    """Counts the turns of the loop while some work is done."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


async def test_a_long_answer_is_encoded_in_many_turns_to_the_same_bytes() -> None:
    rows = Rows([{"n": number} for number in range(SERVERS + 1)], word="x")
    async with Turns() as turns:
        assert await encode_in_turns(rows) == msgspec.json.encode(rows)
    assert turns.count >= MANY
    both = Rows([{"n": number} for number in range(AT_ONCE + 1)], few=[*range(AT_ONCE + 1)], word="\0[]")
    pieces = await pieces_in_turns(both)
    assert (b"".join(pieces), len(pieces)) == (msgspec.json.encode(both), 7)
    short = Rows([{"n": 1}], few=[1, 2])
    assert await encode_in_turns(short) == msgspec.json.encode(short)


def test_an_own_result_may_name_thousands_of_servers() -> None:
    result = msgspec.json.encode({"servers": {f"s{number}": {"state": "connected"} for number in range(5_000)}})
    assert msgspec.json.decode(own_result(result)) == {"resultType": "complete", **msgspec.json.decode(result)}


async def test_the_lists_of_servers_are_made_in_many_turns(tmp_path: Path) -> None:
    servers = {
        f"s{number}": ServerSettings(url="http://127.0.0.1:1/mcp", start="on-demand") for number in range(SERVERS)
    }
    hub = HubApp(Config(servers=servers), tmp_path)
    await hub.start()
    try:
        async with Turns() as turns:
            shown = await HealthOperations(hub).show(OPERATOR, ShowHealth(), "")
        assert (len(shown.servers), turns.count >= MANY) == (SERVERS, True)
        async with Turns() as turns:
            found = await hub.discovery.list(OPERATOR, ListServers())
        assert (len(found.servers), turns.count >= MANY) == (SERVERS, True)
        async with Turns() as turns:
            gathered = await gather(hub, None)
        assert len([*gathered.values["interlock_server_tools"]]) == SERVERS
        assert turns.count >= MANY
        health = HealthHandler(hub.readiness, hub.catalog, hub.access, hub.upstreams, BackgroundTasks())
        caller = hub.authenticator.admit_key(None, "/mcp")
        exchange = RestExchange(STATUS, b"{}", caller)
        async with Turns() as turns:
            health.methods[STATUS](exchange, caller)
            status = await exchange.next()
        assert isinstance(status, bytes)
        assert len(msgspec.json.decode(status)["resources"]["servers"]) == SERVERS
        assert turns.count >= 2 * MANY  # The servers and their tools.
    finally:
        await hub.stop()


def tools(count: int, text: str = "Does it.") -> list[bytes]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    output = {"type": "object", "properties": {"size": {"type": "integer"}}}
    shared = {"description": text, "inputSchema": schema, "outputSchema": output}
    return [msgspec.json.encode({"name": f"run_{number}", **shared}) for number in range(count)]


async def test_the_first_list_of_a_principal_is_made_in_many_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number}" for number in range(SERVERS)]
    servers = {name: ServerSettings(url="http://127.0.0.1:1/mcp", start="on-demand") for name in names}
    hub = HubApp(Config(servers=servers), tmp_path)
    await hub.start()
    try:
        for name in names:
            hub.catalog.put(make_offer(name, tools(1)))
        listings, scope, whole = hub.listings, ListScope(EVERYTHING, budget=1_000), ListScope(EVERYTHING)
        for work in (
            listings.prepare_introduction(scope),
            listings.visible.prepare_calls(scope),
            listings.prepare(whole, "tool"),
        ):
            async with Turns() as turns:
                await work
            assert turns.count >= MANY
        assert listings.at_hand(whole, "tool")

        def rendered(*_: object) -> bytes:
            raise AssertionError("nothing is left to render")

        monkeypatch.setattr(Catalog, "render", rendered)
        assert listings.budget.level(scope) == "L3"
        listed = listings.listed(whole, "tool")
        assert [json.loads(item)["name"] for item in listed.items()] == [f"{name}__run_0" for name in names]
        assert len(listings.visible.callable(scope)) == SERVERS
        forms, form = ListForms(cast(Any, None), PlanGeneration()), ListForm(R2025_03_26)
        assert forms.at_hand(form, listed) is None
        async with Turns() as turns:
            older = await forms.make(form, listed)
        assert turns.count >= MANY
        assert forms.at_hand(form, listed) is older
        assert b"outputSchema" in listed.octets
        assert b"outputSchema" not in older.octets
    finally:
        await hub.stop()


async def test_sessions_over_http_open_after_the_instructions_were_found_once_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {
        f"s{number}": ServerSettings(url="http://127.0.0.1:1/mcp", start="on-demand") for number in range(SERVERS)
    }
    async with running_hub(tmp_path, servers, wait=False) as hub:
        for name in servers:
            hub.hub_app.catalog.put(make_offer(name, tools(1)))
        prepare, answer = ToolListings.prepare_introduction, ListHandler.initialize_result
        prepared: list[ListScope] = []
        at_hand: list[bool] = []

        async def prepare_noted(listings: ToolListings, list_scope: ListScope) -> None:
            async with Turns() as turns:
                await prepare(listings, list_scope)
            assert turns.count >= MANY
            prepared.append(list_scope)

        def answer_noted(handler: ListHandler, dialect: Dialect, caller: Caller, transport: str = "") -> bytes:
            scope = list_scope_for(caller.list_scope, dialect.client_info)
            at_hand.append(hub.hub_app.listings.introduction_at_hand(scope))
            return answer(handler, dialect, caller, transport)

        monkeypatch.setattr(ToolListings, "prepare_introduction", prepare_noted)
        monkeypatch.setattr(ListHandler, "initialize_result", answer_noted)
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(RawClient(hub.url + "/mcp").initialize())
        assert at_hand == [True] * 5
        assert prepared
        await RawClient(hub.url + "/mcp").initialize()
        assert len(at_hand) == 6
        assert len(prepared) <= 5, "the sixth found everything there"


async def test_a_long_page_of_a_server_is_taken_apart_in_many_turns() -> None:
    listed = tools(10 * ITEMS_AT_ONCE)
    page = b'{"ttlMs":5,"tools":[' + b", ".join(listed) + b'],"nextCursor":"\\u0061","cacheScope":"public"}'
    answer = decode_large(b'{"jsonrpc":"2.0","id":1,"result":' + page + b"}", DEFAULT, DEFAULT.answer_members)
    assert isinstance(answer, Result)
    async with Turns() as turns:
        read = await read_page("tools/list", "tools", answer.result)
    assert turns.count >= MANY
    assert [bytes(item) for item in read.items] == listed
    assert (read.cursor, read.ttl_ms, read.scope) == ("a", 5, "public")
    assert await read_page("tools/list", "tools", page) == read
    async with Turns() as turns:
        items = AudienceItems("name")
        await items.set_for_everybody(cast("Any", None), listed)
    assert turns.count >= MANY
    assert items.for_everybody == {f"run_{number}" for number in range(len(listed))}
    async with Turns() as turns:
        assert not await items.set_for("session:1", [*listed, b"not json"])
    assert turns.count >= MANY


@pytest.mark.parametrize("page", [b'{"tools":{}}', b'{"tools":"x"}', b'{"tools":[],"nextCursor":1}', b'{"tools":7}'])
@pytest.mark.parametrize("pad", [0, 70_000])
async def test_a_result_that_is_no_page_is_refused_whatever_its_size(page: bytes, pad: int) -> None:
    padded = b'{"x":"' + b"x" * pad + b'",' + page[1:]
    answer = decode_large(b'{"jsonrpc":"2.0","id":1,"result":' + padded + b"}", DEFAULT, DEFAULT.answer_members)
    assert isinstance(answer, Result)
    for result in (answer.result, bytes(answer.result)):
        with pytest.raises(Fault, match="the answer to tools/list cannot be read"):
            await read_page("tools/list", "tools", result)
    for empty in (b'{"x":1}', b'{"tools":[]}', b'{"tools":null,"nextCursor":null,"cacheScope":null}'):
        assert (await read_page("tools/list", "tools", empty)).items == []


async def test_the_tools_of_a_long_list_begin_to_wait_for_their_counts_in_many_turns() -> None:
    counts = TokenCounts(lambda: None)
    few, offer = make_offer("few", tools(1)), make_offer("many", tools(10 * OFFERED_AT_ONCE))
    of_few = steps_of(lambda: counts.count("few", few.tools.values()))
    assert steps_of(lambda: counts.count("many", offer.tools.values())) <= of_few, "nothing is gone through at once"
    async with Turns() as turns:
        await counts.settled()
    assert turns.count >= MANY
    assert counts.exact(offer.tools.values())
    await counts.close()


async def test_an_openapi_document_is_made_a_few_tools_at_a_time_and_each_tool_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described: list[str] = []

    def describe(definition: Mapping[str, Any], component: str) -> ToolPart:
        described.append(definition["name"])
        return tool_part(definition, component)

    monkeypatch.setattr(rest_documents, "tool_part", describe)
    made, more = Documents(), {"/admin/status": {"get": {}}}
    listed = tools(10 * TOOLS_AT_ONCE + 1)
    async with Turns() as turns:
        pieces = [piece async for piece in made.openapi(JoinedArray.of(listed), more)]
    assert (len(described), turns.count >= MANY) == (len(listed), True)
    expected = openapi([*map(json.loads, listed)], title="Interlock", version=VERSION, description=ABOUT_THE_HUB)
    expected["paths"] |= more
    assert json.loads(b"".join(pieces)) == expected
    assert max(piece.count(b'"call:') for piece in pieces) == TOOLS_AT_ONCE
    described.clear()
    changed = [*tools(1, "Does it otherwise."), *listed[1:]]
    async with Turns() as turns:
        again = b"".join([piece async for piece in made.openapi(JoinedArray.of(changed), {})])
    assert (described, len(json.loads(again)["paths"]), turns.count >= MANY) == (["run_0"], 2 * len(listed) + 1, True)


async def test_a_long_list_leaves_in_slices_and_is_the_same_on_every_way(tmp_path: Path) -> None:
    listed = tools(2_000)
    servers = {"many": ServerSettings(url="http://127.0.0.1:1/mcp", start="on-demand")}
    async with running_hub(tmp_path, servers, wait=False) as hub:
        hub.hub_app.catalog.put(make_offer("many", listed))
        names = [f"many__run_{number}" for number in range(len(listed))]
        status, headers, body = await RawClient(hub.url + "/tools").send("GET")
        assert (status, len(body)) == (200, int(headers["content-length"]))
        assert [tool["name"] for tool in json.loads(body)["tools"]] == names
        caller = hub.hub_app.authenticator.admit_key(None, "/mcp")
        rest = RestExchange("tools/list", b"{}", caller)
        hub.hub_app.service.serve(rest)
        joined = await rest.next()
        assert isinstance(joined, JoinedArray)
        assert joined.octets is hub.hub_app.catalog.listing(EVERYTHING, "tool"), "nobody copied the list"
        assert [msgspec.json.decode(item)["name"] for item in joined.items()] == names
        slices = [each async for each in slices_in_turns(b"{", joined.octets)]
        assert (b"".join(slices), max(map(len, slices))) == (b"{" + joined.octets, SLICE)
        closed = await RawClient(hub.url + "/servers/many/mcp").modern("tools/list")
        async with KeptHttpClient(hub.url) as kept:
            body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":%b}}' % META
            said = f"Mcp-Protocol-Version: {MODERN}\r\nMcp-Method: tools/list\r\n"
            _, answer = await kept.post(body, said, "/servers/many/mcp")
        assert json.loads(answer) == closed
        assert [tool["name"] for tool in closed["result"]["tools"]] == [f"run_{n}" for n in range(len(listed))]


async def test_a_file_that_a_command_had_read_is_not_read_once_more(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text("[hub]\n")
    hub = HubApp(load(file, home=tmp_path).config, tmp_path)
    configuration = ConfigurationOperations(hub, lambda: None)
    assert configuration.changed_since
    await configuration.look()
    assert not configuration.changed_since
    file.write_text('[hub]\nmode = "observe"\n')
    os.utime(file, ns=(1, 1))
    assert configuration.changed_since
    await configuration.look()
    assert not configuration.changed_since
