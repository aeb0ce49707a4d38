"""Lists, pages, resources, prompts, completions, and who hears of changes."""

from __future__ import annotations

import asyncio
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer import Peer, Refusal

from cases import each_case
from interlock.server import Completion, Message, NotFound, Prompt, Resource, Server, Text, Tool
from interlock.server.definitions.uri_template import parse
from interlock.signatures import DefinitionError
from interlock.wire.seal import Seal


async def nothing() -> None: ...


def stocked(tools: int = 5, **options: Any) -> Server:
    """A server with some of everything."""
    server = Server("test", **options)
    for number in range(tools):
        server.add_tool(Tool(nothing, name=f"tool-{number}"))

    @server.resource("fixed://one", title="One", description="The one", mime_type="text/plain", size=3, ttl_ms=5000)
    async def one() -> str:
        return "one"

    @server.resource("fixed://bytes")
    async def raw() -> bytes:
        return b"\0\xff"

    @server.resource("item://{number}/part/{name}", scope="public")
    async def item(number: int, name: str) -> dict[str, object]:
        if name == "gone":
            raise NotFound(name)
        return {"number": number, "name": name}

    @server.prompt(title="Greet")
    async def greet(name: str, times: int | None = 1) -> list[Message | str]:
        """Greets."""
        return [Message(Text(f"hello {name} " * (times or 0)), "assistant"), "and you"]

    @server.completion("greet", "name")
    async def names(value: str, others: dict[str, str]) -> list[str]:
        return [value + others.get("times", "")] * 150

    @server.completion("item://{number}/part/{name}", "name")
    def parts(value: str) -> Completion:
        return Completion([value], total=9, has_more=True)

    return server


async def pages(peer: Peer, method: str, member: str) -> list[list[str]]:
    """Every page's names, following the cursors."""
    found: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await peer.call(method, **cursor)
        found.append([row["name"] for row in page[member]])
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


@pytest.mark.parametrize(("count", "sizes"), [(0, [3, 3]), (1, [1]), (3, [3]), (4, [3, 1]), (7, [3, 3, 1])])
async def test_a_long_list_comes_in_pages(count: int, sizes: list[int]) -> None:
    tools = count or 6
    peer = Peer(stocked(tools, page_size=3))
    found = await pages(peer, "tools/list", "tools")
    assert [len(page) for page in found] == sizes
    assert [name for page in found for name in page] == [f"tool-{number}" for number in range(tools)]


async def test_a_cursor_outlives_changes_to_other_items() -> None:
    server = stocked(4, page_size=2)
    peer = Peer(server)
    cursor = (await peer.call("tools/list"))["nextCursor"]
    server.remove_tool("tool-0")
    server.add_tool(Tool(nothing, name="late"))
    page = await peer.call("tools/list", cursor=cursor)
    assert [tool["name"] for tool in page["tools"]] == ["tool-2", "tool-3"]


async def test_a_cursor_that_was_not_given_is_refused() -> None:
    server = stocked(4, page_size=2)
    peer = Peer(server)
    good = (await peer.call("tools/list"))["nextCursor"]
    other_list = "resources/list"
    for method, cursor in [("tools/list", good[:-1]), ("tools/list", ""), ("tools/list", "é"), (other_list, good)]:
        with pytest.raises(Refusal) as refusal:
            await peer.call(method, cursor=cursor)
        assert refusal.value.code == -32602
    server.remove_tool("tool-1")
    with pytest.raises(Refusal):
        await peer.call("tools/list", cursor=good)


@given(st.binary(max_size=40), st.text(alphabet=string.ascii_letters + string.digits + "-_=", max_size=120))
def test_a_seal_opens_what_it_closed_and_nothing_else(payload: bytes, guess: str) -> None:
    seal = Seal(b"test", b"secret")
    token = seal.close(payload)
    assert seal.open(token) == payload
    assert Seal(b"other", b"secret").open(token) is None
    if guess != token:
        assert seal.open(guess) is None


@given(st.data())
def test_any_change_to_a_sealed_token_shows(data: st.DataObject) -> None:
    seal = Seal(b"test", b"secret")
    token = seal.close(data.draw(st.binary(max_size=40)))
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda char: char != token[place]))
    for altered in (token[:place] + other + token[place + 1 :], token[:place] + token[place + 1 :], token + other):
        assert seal.open(altered) is None


async def test_discovery_says_what_is_offered_and_for_how_long() -> None:
    peer = Peer(stocked(instructions="Be kind."))
    said = await peer.call("server/discover")
    assert said["supportedVersions"] == ["2026-07-28"]
    assert set(said["capabilities"]) == {"logging", "tools", "resources", "prompts", "completions"}
    assert said["instructions"] == "Be kind."
    assert (said["ttlMs"], said["cacheScope"]) == (60_000, "private")
    opened = await peer.legacy("2025-06-18")
    assert opened["protocolVersion"] == "2025-06-18"
    assert opened["capabilities"] == said["capabilities"]
    assert opened["serverInfo"] == {"name": "test", "version": "0.1.0"}


async def test_what_is_not_offered_is_not_served() -> None:
    peer = Peer(Server("empty"))
    assert "completions" not in (await peer.call("server/discover"))["capabilities"]
    for method in ("completion/complete", "no/such"):
        with pytest.raises(Refusal) as refusal:
            await peer.call(method)
        assert refusal.value.code == -32601


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_list_that_is_empty_for_now_is_a_list(era: str) -> None:
    """Its contents may change at any time, and a client without a notification would never look again."""
    server = Server("growing")
    peer = Peer(server)
    said = await peer.legacy() if era == "legacy" else await peer.call("server/discover")
    assert {"tools", "resources", "prompts"} <= set(said["capabilities"])
    lists = {
        "tools": "tools",
        "resources": "resources",
        "resources/templates": "resourceTemplates",
        "prompts": "prompts",
    }
    for method, member in lists.items():
        assert (await peer.call(f"{method}/list"))[member] == []

    @server.tool
    async def late() -> str:
        return "here"

    assert [tool["name"] for tool in (await peer.call("tools/list"))["tools"]] == ["late"]
    server.remove_tool("late")
    assert (await peer.call("tools/list"))["tools"] == []
    with pytest.raises(Refusal) as refusal:
        await peer.tool("late")
    assert refusal.value.code == -32602


async def test_a_stream_hears_of_the_first_tool_of_a_server() -> None:
    server = Server("growing")
    peer = Peer(server)
    _, stream = peer.start("subscriptions/listen", notifications={"toolsListChanged": True})
    await stream.noted.wait()
    assert stream.notes[0][1]["notifications"] == {"toolsListChanged": True}
    stream.noted.clear()

    @server.tool
    async def late() -> str:
        return "here"

    await stream.noted.wait()
    assert stream.notes[1][0] == "notifications/tools/list_changed"


async def test_resources_are_read_as_text_bytes_or_json() -> None:
    peer = Peer(stocked())
    (one, raw) = (await peer.call("resources/list"))["resources"]
    assert one == {
        "uri": "fixed://one",
        "name": "one",
        "title": "One",
        "description": "The one",
        "mimeType": "text/plain",
        "size": 3,
    }
    assert raw["uri"] == "fixed://bytes"
    text = await peer.call("resources/read", uri="fixed://one")
    assert text["contents"] == [{"uri": "fixed://one", "mimeType": "text/plain", "text": "one"}]
    assert (text["ttlMs"], text["cacheScope"]) == (5000, "private")
    blob = await peer.call("resources/read", uri="fixed://bytes")
    assert blob["contents"] == [{"uri": "fixed://bytes", "mimeType": "application/octet-stream", "blob": "AP8="}]


async def test_a_template_reads_typed_variables_from_the_address() -> None:
    peer = Peer(stocked())
    (template,) = (await peer.call("resources/templates/list"))["resourceTemplates"]
    assert template["uriTemplate"] == "item://{number}/part/{name}"
    read = await peer.call("resources/read", uri="item://7/part/a%20b")
    assert read["contents"][0]["text"] == '{"number":7,"name":"a b"}'
    assert read["cacheScope"] == "public"


@pytest.mark.parametrize("uri", ["item://x/part/a", "item://7/part/gone", "item://7/part/a/b", "other://", ""])
async def test_an_address_with_nothing_there_is_not_found_in_the_words_of_each_era(uri: str) -> None:
    peer = Peer(stocked())
    with pytest.raises(Refusal) as modern:
        await peer.call("resources/read", uri=uri)
    assert (modern.value.code, modern.value.data["uri"]) == (-32602, uri)
    await peer.legacy()
    with pytest.raises(Refusal) as legacy:
        await peer.call("resources/read", uri=uri)
    assert legacy.value.code == -32002


@each_case("uri", ["notes", "a b://c", "1note://x", "note://a b", "note://a\nb", "note://<x>", "//x/y", "{name} x"])
def test_what_is_no_address_is_refused_when_it_is_written(uri: str) -> None:
    async def read(name: str = "") -> str:
        return name

    with pytest.raises(DefinitionError, match="is no address"):
        Resource(uri, read)


@each_case("uri", ["urn:isbn:1", "note://x?q=1#f", "file:///a%20b", "{name}://about", "ui://x/{name}", "n:ü"])
def test_addresses_of_every_scheme_are_taken(uri: str) -> None:
    async def read(name: str = "") -> str:
        return name

    assert Resource(uri, read).key == uri


def test_a_template_must_fit_its_function() -> None:
    async def item(number: int) -> str:
        return ""

    with pytest.raises(DefinitionError, match="gives"):
        Resource("item://{other}", item)
    for text in ("a://{x}{y}", "a://{x}/{x}", "a://{?q}", "a://{x", "a://{x*}"):
        with pytest.raises(ValueError):
            parse(text)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(min_size=1), min_size=3))
def test_what_a_template_expands_it_matches_again(values: dict[str, str]) -> None:
    template = parse("x://{a}/mid/{+b}/end#-{c}")
    a, c = (quote(values[name], safe="") for name in "ac")
    assert template.match(f"x://{a}/mid/b/end#-{c}") == {**values, "b": "b"}


@given(st.text(alphabet="ab/{}%?#", max_size=40))
def test_matching_any_address_is_quick_and_never_fails(uri: str) -> None:
    for template in map(parse, ("a/{x}/b", "{+x}/a/{+y}", "a{#f}", "a")):
        matched = template.match(uri)
        assert matched is None or set(matched) == set(template.names)


async def test_prompts_are_listed_and_filled_in() -> None:
    peer = Peer(stocked())
    (prompt,) = (await peer.call("prompts/list"))["prompts"]
    assert prompt == {
        "name": "greet",
        "title": "Greet",
        "description": "Greets.",
        "arguments": [{"name": "name", "required": True}, {"name": "times", "required": False}],
    }
    got = await peer.call("prompts/get", name="greet", arguments={"name": "Ada", "times": "2"})
    assert got["messages"] == [
        {"role": "assistant", "content": {"type": "text", "text": "hello Ada hello Ada "}},
        {"role": "user", "content": {"type": "text", "text": "and you"}},
    ]
    assert got["description"] == "Greets."
    wrong: list[dict[str, Any]] = [
        {"name": "greet"},
        {"name": "greet", "arguments": {"name": "x", "times": "many"}},
        {"name": "greet", "arguments": {"name": 1}},
        {"name": "greet", "arguments": {"name": "x", "more": "y"}},
        {"name": "nobody"},
        {},
    ]
    for params in wrong:
        with pytest.raises(Refusal) as refusal:
            await peer.call("prompts/get", **params)
        assert refusal.value.code == -32602


async def test_removed_resources_templates_and_prompts_are_offered_no_longer() -> None:
    server = Server("test")
    server.resource("x://it")(lambda: "it")
    server.resource("x://by/{name}")(lambda name: name)
    server.prompt(name="greet")(lambda: "hello")
    peer = Peer(server)
    assert (await peer.call("resources/read", uri="x://by/ada"))["contents"][0]["text"] == "ada"
    server.remove_resource("x://it")
    server.remove_resource("x://by/{name}")
    server.remove_prompt("greet")
    for uri in ("x://it", "x://by/ada"):
        with pytest.raises(Refusal):
            await peer.call("resources/read", uri=uri)
    assert (await peer.call("resources/list"))["resources"] == []
    assert (await peer.call("resources/templates/list"))["resourceTemplates"] == []
    assert (await peer.call("prompts/list"))["prompts"] == []


async def test_a_function_that_fails_says_so_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.prompt
    async def prompt() -> str:
        raise RuntimeError("hunter2")

    @server.resource("x://it")
    def resource() -> str:
        raise RuntimeError("hunter2")

    @server.completion("x://it", "a")
    def suggest(value: str) -> list[str]:
        raise RuntimeError("hunter2")

    peer = Peer(server)
    ref = {"type": "ref/resource", "uri": "x://it"}
    for asked in (
        peer.call("prompts/get", name="prompt"),
        peer.call("resources/read", uri="x://it"),
        peer.call("completion/complete", ref=ref, argument={"name": "a", "value": ""}),
    ):
        with pytest.raises(Refusal) as refusal:
            await asked
        assert refusal.value.code == -32603
        assert "hunter2" not in str(refusal.value) + str(refusal.value.data)
    assert caplog.text.count("RuntimeError: hunter2") == 3


async def test_completions_are_cut_to_a_hundred() -> None:
    peer = Peer(stocked())
    greet = {"type": "ref/prompt", "name": "greet"}
    context = {"arguments": {"times": "3"}}
    said = await peer.call("completion/complete", ref=greet, argument={"name": "name", "value": "A"}, context=context)
    assert said["completion"] == {"values": ["A3"] * 100, "total": 150, "hasMore": True}
    template = {"type": "ref/resource", "uri": "item://{number}/part/{name}"}
    said = await peer.call("completion/complete", ref=template, argument={"name": "name", "value": "A"})
    assert said["completion"] == {"values": ["A"], "total": 9, "hasMore": True}
    said = await peer.call("completion/complete", ref=template, argument={"name": "number", "value": "A"})
    assert said["completion"] == {"values": [], "total": 0, "hasMore": False}
    for ref in ({"type": "ref/prompt", "name": "x"}, {"type": "ref/resource", "uri": "x"}, {"type": "ref/tool"}, 1):
        with pytest.raises(Refusal) as refusal:
            await peer.call("completion/complete", ref=ref, argument={"name": "name", "value": ""})
        assert refusal.value.code == -32602


async def test_a_stream_is_acknowledged_first_and_hears_what_it_asked_for() -> None:
    server = stocked()
    peer = Peer(server)
    handle, stream = peer.start(
        "subscriptions/listen",
        notifications={"toolsListChanged": True, "resourceSubscriptions": ["fixed://one", "no://such"]},
    )
    await asyncio.wait_for(stream.noted.wait(), 120)
    meta = {"io.modelcontextprotocol/subscriptionId": handle}
    granted = {"toolsListChanged": True, "resourceSubscriptions": ["fixed://one"]}
    assert stream.notes == [
        ("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": granted}),
    ]
    server.add_prompt(Prompt(nothing, name="other"))
    server.add_tool(Tool(nothing, name="new"))
    server.remove_tool("new")
    server.resource_updated("fixed://bytes")
    server.resource_updated("fixed://one")
    await peer.call("tools/list")
    assert stream.notes[1:] == [
        ("notifications/tools/list_changed", {"_meta": meta}),
        ("notifications/resources/updated", {"_meta": meta, "uri": "fixed://one"}),
    ]
    server.close()
    assert await stream.answer == {"resultType": "complete", "_meta": meta}


async def test_a_cancelled_stream_hears_nothing_more() -> None:
    server = stocked()
    peer = Peer(server)
    handle, stream = peer.start("subscriptions/listen", notifications={"toolsListChanged": True})
    await asyncio.wait_for(stream.noted.wait(), 120)
    peer.link.cancel(handle, "")
    server.remove_tool("tool-1")
    await peer.call("tools/list")
    assert len(stream.notes) == 1
    for params in ({}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}}):
        with pytest.raises(Refusal) as refusal:
            await peer.call("subscriptions/listen", **params)
        assert refusal.value.code == -32602


async def test_a_session_hears_of_lists_and_of_what_it_subscribed_to() -> None:
    server = stocked()
    peer = Peer(server)
    await peer.legacy()
    assert await peer.call("resources/subscribe", uri="fixed://one") == {}
    with pytest.raises(Refusal):
        await peer.call("resources/subscribe", uri="no://such")
    server.resource_updated("fixed://one")
    server.resource_updated("fixed://bytes")
    server.remove_tool("tool-1")
    await peer.call("tools/list")
    assert sorted(peer.heard) == [
        ("notifications/resources/updated", {"uri": "fixed://one"}),
        ("notifications/tools/list_changed", {}),
    ]
    await peer.call("resources/unsubscribe", uri="fixed://one")
    server.resource_updated("fixed://one")
    await peer.call("tools/list")
    assert len(peer.heard) == 2
    await peer.link.close()
    server.remove_tool("tool-2")


@pytest.mark.parametrize(
    "uri",
    [
        *("note://..%2Fsecret", "note://%2e%2e%2fsecret", "note://..%5Csecret", "note://a%2F..%2F..%2Fsecret"),
        *("tree:///../secret", "tree:///a/../../secret", "tree:///a%2F..%2F..%2Fsecret", "tree:///..%5c..%5csecret"),
        *("tree:////etc/secret", "tree:///%2Fetc%2Fsecret", "note://%2Fetc%2Fsecret", "note://%5C%5Chost%5Cshare"),
        *("note://C:%5Csecret", "tree:///c:/secret", "note://a%00b"),
    ],
)
async def test_a_variable_that_climbs_out_of_its_place_is_no_address(uri: str) -> None:
    server = Server("test")

    @server.resource("note://{name}")
    @server.resource("tree:///{+name}")
    async def read(name: str) -> str:
        return name

    peer = Peer(server)
    with pytest.raises(Refusal) as refusal:
        await peer.call("resources/read", uri=uri)
    assert refusal.value.code == -32602
    await peer.legacy()
    with pytest.raises(Refusal) as subscribed:
        await peer.call("resources/subscribe", uri=uri)
    assert subscribed.value.code == -32002


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        *(("note://a..b", "a..b"), ("note://v1...v2", "v1...v2"), ("note://a%2Fb", "a/b"), ("note://c:1", "c:1")),
        *(("tree:///a/../b", "a/../b"), ("tree:///a//b", "a//b"), ("file:///etc/hosts", "/etc/hosts")),
    ],
)
async def test_a_variable_that_stays_in_its_place_is_read(uri: str, name: str) -> None:
    server = Server("test")

    @server.resource("note://{name}")
    @server.resource("tree:///{+name}")
    @server.resource("file://{+name}")
    async def read(name: str) -> str:
        return name

    assert (await Peer(server).call("resources/read", uri=uri))["contents"][0]["text"] == name
