"""The catalog: identity, names, views and lists."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.config.settings import ProfileSettings, ToolSettings
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.items import digest_of, max_bytes_of
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.resource_uris import exposed_uri, original_uri
from interlock.hub.catalog.views import EVERYTHING, Catalog, View
from interlock.judge.names import MAX_EXPOSED_CHARS, exposed_name

servers = st.from_regex(r"[a-z0-9](?:[a-z0-9-]|_(?!_)){0,20}[a-z0-9]", fullmatch=True)
names = st.text(min_size=1, max_size=80)


@given(servers, names, servers, names)
def test_different_identities_have_different_names(a: str, x: str, b: str, y: str) -> None:
    assert (exposed_name(a, x) == exposed_name(b, y)) == ((a, x) == (b, y))


@given(servers, names)
def test_an_exposed_name_is_one_that_every_model_accepts(server: str, name: str) -> None:
    exposed = exposed_name(server, name)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", exposed)
    assert len(exposed) <= MAX_EXPOSED_CHARS
    assert exposed.partition("__")[0] == server


@given(servers, st.text(min_size=1))
def test_an_exposed_address_leads_back(server: str, uri: str) -> None:
    assert original_uri(exposed_uri(server, uri)) == (server, uri)


@each_case("uri", ["", "file:///x", "interlock://", "interlock://a", "interlock://a/", "ui://a", "ui:///x"])
def test_an_address_that_was_never_exposed_leads_nowhere(uri: str) -> None:
    assert original_uri(uri) is None


def tool(name: object, **more: object) -> bytes:
    return json.dumps({"name": name, "inputSchema": {"type": "object"}, **more}).encode()


def catalog(*offers: Offer, **profiles: ProfileSettings) -> Catalog:
    made = Catalog()
    made.arrange([offer.server for offer in offers], profiles)
    for offer in offers:
        made.put(offer)
    return made


def listed(made: Catalog, view: View) -> list[str]:
    return [item["name"] for item in json.loads(made.listing(view, "tool"))]


def test_two_servers_with_the_same_tool_name_both_keep_theirs() -> None:
    made = catalog(make_offer("a", [tool("run")]), make_offer("b", [tool("run")]))
    assert listed(made, EVERYTHING) == ["a__run", "b__run"]
    assert made.tool(EVERYTHING, "b__run").server == "b"  # type: ignore[union-attr]
    assert listed(made, View(server="b")) == ["run"]
    assert made.tool(View(server="a"), "b__run") is None


def test_unknown_fields_of_a_definition_survive() -> None:
    definition = tool("run", security={"risk_level": "safe"}, **{"x-own": [1, {"a": None}]})
    (shown,) = json.loads(catalog(make_offer("a", [definition])).listing(EVERYTHING, "tool"))
    assert shown["security"] == {"risk_level": "safe"}
    assert shown["x-own"] == [1, {"a": None}]


@each_case(
    "bad",
    [
        b"5",
        b"{}",
        tool(""),
        tool(7),
        tool("x" * 2000),
        tool("hid\u200bden"),
        tool("esc\x1b[31m"),
        b'{"name":"x"}',
        b'{"name":"x","inputSchema":[]}',
        b'{"name":"\xff","inputSchema":{}}',
    ],
)
def test_a_bad_definition_leaves_out_itself_alone(bad: bytes) -> None:
    offer = make_offer("a", [tool("first"), bad, tool("last")])
    assert list(offer.tools) == ["first", "last"]
    assert len(offer.left_out) == 1


def test_a_second_tool_of_the_same_name_does_not_replace_the_first() -> None:
    offer = make_offer("a", [tool("x", description="first"), tool("x", description="second")])
    assert json.loads(offer.tools["x"].bare)["description"] == "first"
    assert offer.left_out


def test_a_tool_cannot_take_the_name_of_another_that_had_to_be_altered() -> None:
    altered = exposed_name("a", "do it")
    offer = make_offer("a", [tool("do it"), tool(altered.removeprefix("a__"))])
    assert offer.tools_by_exposed[altered].name == "do it"
    assert len(offer.tools) == 1


def test_a_server_view_cannot_shadow_the_kernels_own_tools() -> None:
    offer = make_offer("a", [tool("call_tool")])
    assert "call_tool" not in offer.tools
    (shown,) = offer.tools.values()
    assert shown.name == "call_tool"
    assert shown.shown == "a__call_tool"


def test_operators_choose_rename_and_describe() -> None:
    rules = ToolSettings(
        allow=("get_*", "drop"), deny=("get_secret",), rename={"get_a": "fetch"}, describe={"drop": "Mine."}
    )
    offer = make_offer("a", [tool("get_a"), tool("get_secret"), tool("drop"), tool("other")], rules=rules)
    assert [item.shown for item in offer.tools.values()] == ["fetch", "drop"]
    assert offer.tools["fetch"].name == "get_a"
    assert json.loads(offer.tools["drop"].full)["description"] == "Mine."


def test_a_profile_shows_its_part_under_its_own_names() -> None:
    work = ProfileSettings(
        tools=("a__*", "b__two"), deny=("a__no",), rename={"b__two": "second"}, describe={"a__yes": "Do."}
    )
    made = catalog(make_offer("a", [tool("yes"), tool("no")]), make_offer("b", [tool("two"), tool("three")]), work=work)
    view = View(profile="work")
    assert listed(made, view) == ["a__yes", "second"]
    assert made.tool(view, "second").name == "two"  # type: ignore[union-attr]
    assert made.tool(view, "a__no") is None
    assert listed(made, View(server="b", profile="work")) == ["two"]
    assert made.tool(View(server="b", profile="work"), "three") is None


def test_a_prompt_is_found_under_the_name_that_a_profile_gives_it() -> None:
    made = catalog(
        make_offer("a", [tool("x")], prompts=[b'{"name":"review"}', b'{"name":"hidden"}']),
        work=ProfileSettings(deny=("a__hidden",), rename={"a__review": "check", "a__hidden": "nothing"}),
    )
    view = View(profile="work")
    assert [item["name"] for item in json.loads(made.listing(view, "prompt"))] == ["check"]
    assert made.prompt(view, "check").name == "review"  # type: ignore[union-attr]
    assert made.prompt(view, "nothing") is None
    assert made.prompt(View(server="a", profile="work"), "review").name == "review"  # type: ignore[union-attr]
    assert made.prompt(EVERYTHING, "check") is None


def test_a_profile_reaches_resources_of_the_servers_it_reaches_at_all() -> None:
    made = catalog(
        make_offer("a", [tool("x")], resources=[b'{"uri":"file:///a","name":"a"}']),
        make_offer("b", [tool("x")], resources=[b'{"uri":"file:///b","name":"b"}']),
        only_a=ProfileSettings(tools=("a__*",)),
    )
    seen = json.loads(made.listing(View(profile="only_a"), "resource"))
    assert [item["uri"] for item in seen] == ["interlock://a/file:///a"]
    assert not made.sees_server(View(profile="only_a"), "b")


def test_an_app_is_found_behind_the_hub() -> None:
    meta = {"ui": {"resourceUri": "ui://weather/view.html"}, "other": 1}
    offer = make_offer("w", [tool("show", _meta=meta)], resources=[b'{"uri":"ui://weather/view.html","name":"v"}'])
    shown = json.loads(offer.tools["show"].full)["_meta"]
    assert shown["ui"]["resourceUri"] == offer.resources["ui://weather/view.html"].exposed
    assert shown["other"] == 1
    assert json.loads(offer.tools["show"].bare)["_meta"]["ui"]["resourceUri"] == "ui://weather/view.html"


def test_key_order_does_not_change_a_fingerprint_and_anything_else_does() -> None:
    one = make_offer("a", [b'{"name":"x","inputSchema":{"type":"object","a":1}}']).tools["x"]
    two = make_offer("a", [b'{"inputSchema":{"a":1,"type":"object"},"name":"x"}']).tools["x"]
    three = make_offer("a", [b'{"inputSchema":{"a":2,"type":"object"},"name":"x"}']).tools["x"]
    assert one.fingerprint() == two.fingerprint() != three.fingerprint()


NULLS = dict.fromkeys(
    ["title", "description", "annotations", "outputSchema", "execution", "icons", "_meta", "security"]
)


@each_case("name", list(NULLS))
def test_a_null_in_a_tool_is_read_as_absent(name: str) -> None:
    offer = make_offer("a", [tool("run", **{name: None})], tasks=True)
    assert offer.left_out == []
    assert json.loads(offer.tools["run"].full) == {"name": "a__run", "inputSchema": {"type": "object"}}


def test_nulls_are_dropped_where_members_are_optional_and_nowhere_else() -> None:
    schema = {"type": "object", "properties": {"x": {"default": None, "enum": [None, 1]}}}
    kept = {"name": "run", "inputSchema": schema, "_meta": {"a": None}, "x-own": None}
    hints = {"annotations": {"title": None, "readOnlyHint": True}, "icons": [{"src": "https://a.b/c", "sizes": None}]}
    offer = make_offer("a", [json.dumps({**kept, **hints}).encode()])
    assert json.loads(offer.tools["run"].bare) == {
        **kept,
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "https://a.b/c"}],
    }
    assert offer.tools["run"].idempotent
    prompt = {"name": "ask", "description": None, "arguments": [{"name": "x", "required": None}]}
    resource = {"uri": "a://b", "name": "b", "mimeType": None, "size": None, "annotations": {"priority": None}}
    offer = make_offer("a", prompts=[json.dumps(prompt).encode()], resources=[json.dumps(resource).encode()])
    assert json.loads(offer.prompts["ask"].bare) == {"name": "ask", "arguments": [{"name": "x"}]}
    assert json.loads(offer.resources["a://b"].bare) == {"uri": "a://b", "name": "b", "annotations": {}}


@each_case(
    ("execution", "tasks", "shown"),
    [
        ({"taskSupport": "forbidden"}, False, {"taskSupport": "forbidden"}),
        ({"taskSupport": "forbidden"}, True, {"taskSupport": "forbidden"}),
        ({"taskSupport": "optional"}, True, {"taskSupport": "optional"}),
        ({"taskSupport": "optional"}, False, None),
        ({"taskSupport": "required"}, False, None),
        ({"taskSupport": 7}, False, None),
        ("forbidden", False, None),
    ],
)
def test_a_tool_offers_tasks_only_where_its_server_takes_them(execution: object, tasks: bool, shown: object) -> None:
    offer = make_offer("a", [tool("run", execution=execution)], tasks=tasks)
    assert json.loads(offer.tools["run"].full).get("execution") == shown


@each_case(
    ("more", "pinned"),
    [
        ({}, "dc18a7879be0a7ac1354a7f715505d9bdf4676aa4cce7b9f76c61b42c0996d10"),
        (NULLS, "cb20d95a777abc9d58b0f11dfee823480bbf41d878f802415705208af860cbdd"),
        (
            {"annotations": {"readOnlyHint": True, "title": None}},
            "a643fe1028a058be434ddb99a81f850554f55591bb91c634d5b36c8d419e1b6a",
        ),
    ],
)
def test_a_fingerprint_is_that_of_the_definition_as_it_came(more: dict[str, object], pinned: str) -> None:
    assert make_offer("a", [tool("run", **more)]).tools["run"].fingerprint() == pinned


def test_a_list_is_rendered_again_only_when_something_changed() -> None:
    made = catalog(make_offer("a", [tool("x")]))
    before = made.listing(EVERYTHING, "tool")
    assert made.listing(EVERYTHING, "tool") is before
    made.put(make_offer("a", [tool("y")]))
    assert listed(made, EVERYTHING) == ["a__y"]


def test_an_offer_of_a_server_that_is_gone_is_not_taken() -> None:
    made = catalog(make_offer("a", [tool("x")]))
    made.put(make_offer("ghost", [tool("x")]))
    assert listed(made, EVERYTHING) == ["a__x"]


members = st.dictionaries(st.sampled_from(["title", "description", "icons", "x"]), st.text(max_size=20), max_size=3)


spoken = st.text(st.characters(codec="utf-8", categories=("L", "N", "S")), min_size=1, max_size=30)


@given(spoken, members, st.integers(0, 3), st.booleans())
def test_a_definition_under_its_exposed_name_is_the_same_but_for_the_name(
    name: str, more: dict[str, str], place: int, spaced: bool
) -> None:
    fields = list({**more, "inputSchema": {"type": "object"}}.items())
    fields.insert(min(place, len(fields)), ("name", name))
    separators = None if spaced else (",", ":")
    definition = json.dumps(dict(fields), ensure_ascii=spaced, separators=separators).encode()
    item = next(iter(make_offer("s", [definition]).tools.values()))
    assert json.loads(item.full) == {**dict(fields), "name": exposed_name("s", name)}
    assert list(json.loads(item.full)) == [key for key, _ in fields], "in the server's order"
    assert json.loads(item.bare) == {**dict(fields), "name": item.shown}
    assert item.digest() == digest_of(item.full)
    assert max(len(item.full), len(item.bare)) <= max_bytes_of([item])


def test_a_definition_that_is_shown_as_it_came_is_kept_once() -> None:
    definition = b'{"name":"x","description":"What it does.","inputSchema":{"type":"object"}}'
    assert make_offer("s", [definition]).tools["x"].bare is definition


Changes = list[tuple[str, list[str]]]
changes = st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from("wxyz"), unique=True)), max_size=8)


@given(changes)
def test_a_list_is_the_same_whether_it_grew_by_changes_or_was_made_at_once(changes: Changes) -> None:
    grown = catalog(Offer("a"), Offer("b"), Offer("c"))
    last = {server: Offer(server) for server in "abc"}
    for server, tools in changes:
        last[server] = make_offer(server, [tool(name) for name in tools])
        grown.put(last[server])
        assert grown.listing(EVERYTHING, "tool") == catalog(*last.values()).listing(EVERYTHING, "tool")
