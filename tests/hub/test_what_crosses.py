"""A client reads exactly the fields that its server sends, in every pair of eras. Beyond that it may rely on growing
progress and on hints about caching that are never too wide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock.config.settings import ServerSettings

from .preset_server import PresetServer, Say
from .running_hub import RawClient, RunningHub, messages, running_hub, until

Era = Literal["old", "new"]
REVISIONS: dict[Era, str] = {"old": "2025-11-25", "new": "2026-07-28"}
PAIRS: list[tuple[Era, Era]] = [("old", "old"), ("old", "new"), ("new", "old"), ("new", "new")]

# Values of the schema's types, each member optional where the schema says so.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = st.text("abcdefghij-_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
metas = st.dictionaries(st.sampled_from(["com.example/mark", "dev.a-b.c/", "plain", "x.y/z_1"]), values, max_size=3)
dates = st.sampled_from(["2025-01-12T15:00:58Z", "2026-07-28T00:00:00+02:00"])
mime_types = st.sampled_from(["text/plain", "image/png", "audio/wav", "text/html;profile=mcp-app"])
base64s = st.sampled_from(["", "aGk=", "AP8="])


def some(needed: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with every needed member and some of the optional ones."""
    return st.fixed_dictionaries(needed, optional={**optional, "_meta": metas, "x-vendor": values})


annotations = st.fixed_dictionaries(
    {},
    optional={
        "audience": st.lists(st.sampled_from(["user", "assistant"]), max_size=2, unique=True),
        "priority": st.floats(0, 1),
        "lastModified": dates,
    },
)
icons = st.lists(
    st.fixed_dictionaries(
        {"src": st.sampled_from(["https://e.example/i.png", "data:image/png;base64,aGk="])},
        optional={
            "mimeType": mime_types,
            "sizes": st.lists(st.sampled_from(["48x48", "any"]), max_size=2),
            "theme": st.sampled_from(["light", "dark"]),
        },
    ),
    max_size=2,
)
uris = st.builds("note://{}".format, words)
shown = {"title": texts, "description": texts, "icons": icons}
addressed = {**shown, "mimeType": mime_types, "annotations": annotations, "size": st.integers(0, 2**53 - 1)}
contents = st.one_of(
    some({"uri": uris, "text": texts}, mimeType=mime_types),
    some({"uri": uris, "blob": base64s}, mimeType=mime_types),
)
blocks = st.one_of(
    some({"type": st.just("text"), "text": texts}, annotations=annotations),
    some({"type": st.just("image"), "data": base64s, "mimeType": mime_types}, annotations=annotations),
    some({"type": st.just("audio"), "data": base64s, "mimeType": mime_types}, annotations=annotations),
    some({"type": st.just("resource_link"), "uri": uris, "name": texts}, **addressed),
    some({"type": st.just("resource"), "resource": contents}, annotations=annotations),
)
results = {
    "tools/call": some(
        {"content": st.lists(blocks, max_size=3)},
        structuredContent=st.dictionaries(words, values, max_size=3),
        isError=st.booleans(),
    ),
    "prompts/get": some(
        {
            "messages": st.lists(
                st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": blocks}), max_size=3
            )
        },
        description=texts,
    ),
    "resources/read": some({"contents": st.lists(contents, max_size=3)}),
    "completion/complete": some(
        {
            "completion": st.fixed_dictionaries(
                {"values": st.lists(texts, max_size=3)},
                optional={"total": st.integers(0, 2**31), "hasMore": st.booleans()},
            )
        }
    ),
}
requests = {
    "tools/call": st.fixed_dictionaries({"name": st.just("t"), "arguments": st.dictionaries(words, values)}),
    "prompts/get": st.fixed_dictionaries({"name": st.just("p"), "arguments": st.dictionaries(words, texts)}),
    "resources/read": st.fixed_dictionaries({"uri": uris}),
    "completion/complete": st.fixed_dictionaries(
        {
            "ref": st.one_of(
                some({"type": st.just("ref/prompt"), "name": st.just("p")}, title=texts),
                st.fixed_dictionaries({"type": st.just("ref/resource"), "uri": st.just("note://{name}")}),
            ),
            "argument": st.fixed_dictionaries({"name": words, "value": texts}),
        },
        optional={"context": st.fixed_dictionaries({"arguments": st.dictionaries(words, texts, max_size=2)})},
    ),
}
exchanges = st.sampled_from(sorted(results)).flatmap(
    lambda method: st.tuples(st.just(method), requests[method], metas, results[method])
)

TOOL = {
    "name": "t",
    "title": "T",
    "description": "Does it.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {}},
    },
    "outputSchema": {"type": "object", "additionalProperties": True},
    "annotations": {"title": "T!", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": False, "x": 1},
    "icons": [{"src": "https://e.example/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    "_meta": {"com.example/mark": {"a": [1, None]}},
    "x-vendor": {"kept": True},
}
COUNTED = {
    "name": "counted",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
}
FOREIGN = {"name": "foreign", "inputSchema": {"$schema": "https://e.example/schema", "type": "object"}}
RESOURCE = {
    "uri": "note://one",
    "name": "one",
    "title": "One",
    "description": "The first.",
    "mimeType": "text/plain",
    "size": 12345,
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
    "icons": TOOL["icons"],
    "_meta": TOOL["_meta"],
}
TEMPLATE = {**{k: v for k, v in RESOURCE.items() if k not in ("uri", "size")}, "uriTemplate": "note://{name}"}
PROMPT = {
    "name": "p",
    "title": "P",
    "description": "Says it.",
    "arguments": [{"name": "a", "title": "A", "description": "First.", "required": True}, {"name": "b"}],
    "icons": TOOL["icons"],
    "_meta": TOOL["_meta"],
}
LISTED = {
    "tools/list": {"tools": [TOOL, COUNTED, FOREIGN]},
    "resources/list": {"resources": [RESOURCE]},
    "resources/templates/list": {"resourceTemplates": [TEMPLATE]},
    "prompts/list": {"prompts": [PROMPT]},
}


class EraMatrix:
    """A hub with a server of each era behind it, and a client of each before each."""

    def __init__(self, hub: RunningHub, mirrors: dict[Era, PresetServer]) -> None:
        self.hub = hub
        self.mirrors = mirrors
        self._clients: dict[tuple[Era, Era], RawClient] = {}

    async def ask(self, client: Era, server: Era, method: str, params: Any = None) -> Any:
        """A request of a client of one era to the server of another."""
        raw = self._clients.get((client, server))
        if raw is None:
            raw = self._clients[client, server] = RawClient(f"{self.hub.url}/servers/{server}/mcp")
            if client == "old":
                await raw.initialize()
        return await (raw.modern(method, params) if client == "new" else raw.legacy(method, params))

    async def stream(self, client: Era, server: Era, params: Any) -> list[Any]:
        """Everything that comes on the stream of a call."""
        raw = RawClient(f"{self.hub.url}/servers/{server}/mcp")
        params = {"name": "t", "arguments": {}, **params}
        headers = {}
        if client == "old":
            await raw.initialize()
        else:
            headers = {"mcp-protocol-version": REVISIONS["new"], "mcp-method": "tools/call", "mcp-name": "t"}
            prefix = "io.modelcontextprotocol/"
            own = {f"{prefix}protocolVersion": REVISIONS["new"], f"{prefix}clientCapabilities": {}}
            params["_meta"] = {**own, **params.get("_meta", {})}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return messages((await raw.post(json.dumps(call).encode(), headers))[2])


async def crossing(stack: AsyncExitStack, folder: Path) -> EraMatrix:
    mirrors: dict[Era, PresetServer] = {}
    for era, revision in REVISIONS.items():
        mirrors[era] = await stack.enter_async_context(PresetServer(revision))
        mirrors[era].answers |= LISTED
    servers = {era: ServerSettings(url=mirror.url) for era, mirror in mirrors.items()}
    hub = await stack.enter_async_context(running_hub(folder, servers))
    for era in servers:
        await until(lambda: (offer := hub.hub_app.catalog.offer(era)) is not None and bool(offer.prompts))  # noqa: B023
    return EraMatrix(hub, mirrors)


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[EraMatrix]:
    async with AsyncExitStack() as stack:
        yield await crossing(stack, tmp_path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, EraMatrix]]:
    """The same for a property, which is tried many times in one hub."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        yield runner, runner.run(crossing(stack, tmp_path_factory.mktemp("crossing")))
        runner.run(stack.aclose())


@pytest.mark.parametrize(("client", "server"), PAIRS)
@settings(
    max_examples=example_count(20, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(exchange=exchanges)
def test_what_one_side_says_is_what_the_other_reads(
    running: tuple[asyncio.Runner, EraMatrix], client: Era, server: Era, exchange: Any
) -> None:
    runner, crossed = running
    method, params, meta, result = exchange
    mirror = crossed.mirrors[server]
    mirror.answers[method] = result
    answer = runner.run(crossed.ask(client, server, method, {**params, "_meta": meta}))
    asked = mirror.heard[-1]["params"]
    if method == "tools/call":
        # 1e300 and 1e+300 are one number, and so are 0.0 and -0.0.
        assert asked["arguments"] == params["arguments"]
    assert {key: asked[key] for key in params} == params
    assert {key: asked["_meta"][key] for key in meta} == meta
    read = answer["result"]
    if client == "new":
        assert read.pop("resultType") == "complete"
        if method == "resources/read":
            assert (read.pop("ttlMs"), read.pop("cacheScope")) == (0, "private")
        if "_meta" not in result:
            read.pop("_meta", None)
    assert read == result


NAMED = {
    "tools/call": {"name": "t", "arguments": {}},
    "prompts/get": {"name": "p"},
    "resources/read": {"uri": "note://one"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "x"}},
}


@pytest.mark.parametrize("method", NAMED)
@pytest.mark.parametrize("server", ["old", "new"])
async def test_a_request_that_says_nothing_of_itself_in_so_many_words_is_carried(
    both: EraMatrix, server: Era, method: str
) -> None:
    mirror = both.mirrors[server]
    mirror.answers[method] = {"mine": 1}
    answer = await both.ask("old", server, method, {**NAMED[method], "_meta": None})
    assert answer["result"]["mine"] == 1, answer
    assert mirror.heard[-1]["method"] == method
    assert "traceparent" in mirror.heard[-1]["params"]["_meta"]


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_every_field_of_what_a_server_offers_is_listed(both: EraMatrix, client: Era, server: Era) -> None:
    for method, listed in LISTED.items():
        (member,) = listed
        assert (await both.ask(client, server, method))["result"][member] == listed[member]


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_progress_grows_and_is_that_of_the_call_alone(both: EraMatrix, client: Era, server: Era) -> None:
    async def report(message: Any, say: Say) -> Any:
        token = message["params"]["_meta"]["progressToken"]
        first = {"progress": 1, "total": 9, "message": "on it", "_meta": {"com.example/mark": 1}}
        for told in (first, {"progress": 1}, {"progress": 0.5}, {"progress": "2"}, {}, {"progress": 2.5}):
            say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, **told}})
        for other in ("nobody's", 10**6, None):
            params = {"progressToken": other, "progress": 7}
            say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        return {"resultType": "complete", "content": []} if server == "new" else {"content": []}

    both.mirrors[server].acts["tools/call"] = report
    *told, answer = await both.stream(client, server, {"_meta": {"progressToken": "mine"}})
    assert [notice["params"] for notice in told] == [
        {"progressToken": "mine", "progress": 1, "total": 9, "message": "on it", "_meta": {"com.example/mark": 1}},
        {"progressToken": "mine", "progress": 2.5},
    ]
    assert answer["result"]["content"] == []


@pytest.mark.parametrize("server", ["old", "new"])
@pytest.mark.parametrize(
    ("hints", "ttl"),
    [
        ({}, 0),
        ({"ttlMs": 5, "cacheScope": "public"}, 5),
        ({"ttlMs": 5}, 5),
        ({"ttlMs": -5, "cacheScope": "private"}, 0),
        ({"ttlMs": "soon", "cacheScope": "everybody"}, 0),
        ({"ttlMs": None, "cacheScope": None}, 0),
    ],
)
async def test_what_may_be_cached_says_for_how_long_and_for_its_caller_alone(
    both: EraMatrix, server: Era, hints: Any, ttl: int
) -> None:
    both.mirrors[server].answers["resources/read"] = {"contents": [], **hints}
    read = (await both.ask("new", server, "resources/read", {"uri": "note://one"}))["result"]
    # A server of the handshake era knows no caching: what it writes there means nothing.
    assert (read["ttlMs"], read["cacheScope"]) == (ttl if server == "new" else 0, "private")


async def test_a_whole_number_that_is_written_as_a_fraction_goes_into_its_header_too(both: EraMatrix) -> None:
    mirror = both.mirrors["new"]
    mirror.answers["tools/call"] = {"content": []}
    answer = await both.ask("old", "new", "tools/call", {"name": "counted", "arguments": {"n": 42.0}})
    assert "result" in answer
    assert mirror.headers["mcp-param-n"] == "42"


@pytest.mark.parametrize(
    ("said", "meant", "same"),
    [
        ("42.0", 42, True),
        ("4.2e1", 42, True),
        ("-7", -7, True),
        ("42", 42.0, True),
        ("43", 42, False),
        # Equal as floats.
        ("9007199254740993", 9007199254740992, False),
        ("9007199254740993", 9007199254740993, True),
        # Spellings that only Python reads as numbers.
        ("4_2", 42, False),
        ("=?base64?2aTZog==?=", 42, False),
        ("+42", 42, False),
        ("1e99999", 42, False),
    ],
)
async def test_a_number_in_a_header_is_exactly_the_one_in_the_body(
    both: EraMatrix, said: str, meant: float, same: bool
) -> None:
    both.mirrors["new"].answers["tools/call"] = {"content": []}
    client = RawClient(f"{both.hub.url}/servers/new/mcp")
    call = {"name": "counted", "arguments": {"n": meant}}
    answer = await client.modern("tools/call", call, **{"mcp-param-n": said})
    assert ("result" in answer) is same
    if not same:
        assert answer["error"]["code"] == -32020


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
@pytest.mark.parametrize("server", ["old", "new"])
async def test_a_link_that_is_told_in_words_leads_through_the_hub(both: EraMatrix, server: Era, revision: str) -> None:
    link = {"type": "resource_link", "uri": "note://one", "name": "one"}
    both.mirrors[server].answers["tools/call"] = {"content": [link]}
    both.mirrors[server].answers["resources/read"] = {"contents": [{"uri": "note://one", "text": "found"}]}
    client = RawClient(f"{both.hub.url}/mcp")
    await client.initialize(version=revision)
    answer = await client.legacy("tools/call", {"name": f"{server}__t", "arguments": {}})
    name, _, uri = answer["result"]["content"][0]["text"].partition(": ")
    assert (name, uri) == ("one", f"interlock://{server}/note://one")
    assert (await client.legacy("resources/read", {"uri": uri}))["result"]["contents"][0]["text"] == "found"


async def test_messages_that_a_server_sends_together_are_taken_one_by_one(tmp_path: Path) -> None:
    async with PresetServer("2025-03-26") as mirror:

        async def together(message: Any, say: Say) -> Any:
            token = message["params"]["_meta"]["progressToken"]
            told = [{"progressToken": token, "progress": step} for step in (1, 2)]
            say([{"jsonrpc": "2.0", "method": "notifications/progress", "params": params} for params in told])
            return {"content": []}

        mirror.answers |= LISTED
        mirror.acts["tools/call"] = together
        async with running_hub(tmp_path, {"old": ServerSettings(url=mirror.url)}) as hub:
            await until(lambda: (offer := hub.hub_app.catalog.offer("old")) is not None and bool(offer.prompts))
            crossed = EraMatrix(hub, {"old": mirror})
            *told, answer = await crossed.stream("old", "old", {"_meta": {"progressToken": "mine"}})
        assert [notice["params"]["progress"] for notice in told] == [1, 2]
        assert answer["result"] == {"content": []}


async def test_a_dialect_that_is_not_known_is_named_as_the_reason(both: EraMatrix) -> None:
    answer = await both.ask("new", "new", "tools/call", {"name": "foreign", "arguments": {}})
    assert "dialect that is not supported" in answer["error"]["message"]
    assert "draft-07" in answer["error"]["message"]
