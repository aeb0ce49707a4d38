"""Access through a whole hub: what the key permits and the grants allow is there, and nothing else is."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from interlock.config.load import load
from interlock.config.settings import AgentSettings, HubSettings, Rate, TimeoutSettings, ToolSettings
from interlock.protocols.mgp.access import AccessEntry, decide

from .running_hub import MODERN, RawClient, RunningHub, child, last_message, running_hub, text_of

Says = tuple[str, ...]

SAID: list[Says] = [(), ("allow",), ("deny",), ("allow", "deny"), ("gone",)]
"""The entries that one level can have; `gone` is a denial that has expired."""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    servers = {
        "open": child("busy_server.py"),
        "shut": child("busy_server.py", access="opt-in", tools=ToolSettings(rate={"pid": Rate(per_minute=1)})),
    }
    async with running_hub(tmp_path, servers, agents={"asked": AgentSettings(ask=("open__add",))}) as running:
        yield running


async def call(client: RawClient, tool: str, **arguments: Any) -> Any:
    return await client.modern("tools/call", {"name": tool, "arguments": arguments})


async def names(client: RawClient) -> set[str]:
    return {tool["name"] for tool in (await client.modern("tools/list"))["result"]["tools"]}


async def say(hub: RunningHub, agent: str, server: str, tool: str | None, said: Says) -> None:
    for permission in said:
        if permission == "gone":
            before = hub.hub_app.access.now
            hub.hub_app.access.now = lambda: datetime(2020, 1, 1, tzinfo=UTC)
            await hub.deny(agent, server, tool, expires_at="2020-01-02T00:00:00Z")
            hub.hub_app.access.now = before
        else:
            await hub.give(permission, agent, server, tool)


def modelled(server: str, on_tool: Says, on_server: Says) -> str:
    """MGP, Access Control Hierarchy, as one would say it aloud."""
    for said in (on_tool, on_server):
        live = [permission for permission in said if permission != "gone"]
        if live:
            return "deny" if "deny" in live else "allow"
    return "allow" if server == "open" else "deny"


async def test_t31_every_precedence_of_grants_holds_for_real_calls_lists_and_queries(hub: RunningHub) -> None:
    for number, (server, on_tool, on_server) in enumerate(product(("open", "shut"), SAID, SAID)):
        agent = f"agent{number}"
        client = RawClient(hub.url + "/mcp", hub.key(agent))
        await say(hub, agent, server, "echo", on_tool)
        await say(hub, agent, server, None, on_server)
        expected = modelled(server, on_tool, on_server)
        answer = await call(client, f"{server}__echo", text="x")
        assert ("result" in answer) == (expected == "allow"), (server, on_tool, on_server, answer)
        asked = await client.modern("mgp/access/query", {"server_id": server, "tool_name": "echo"})
        assert asked["result"]["permission"] == expected
        assert (f"{server}__echo" in await names(client)) == (expected == "allow")


def test_the_model_and_the_decision_agree() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for server, on_tool, on_server in product(("open", "shut"), SAID, SAID):
        entries = [
            AccessEntry(
                "tool_grant" if tool else "server_grant",
                "a",
                server,
                "deny" if permission == "gone" else permission,  # type: ignore[arg-type]
                tool,
                expires_at=now if permission == "gone" else None,
            )
            for tool, said in (("echo", on_tool), (None, on_server))
            for permission in said
        ]
        default = "opt-out" if server == "open" else "opt-in"
        assert decide(entries, "echo", default, now).permission == modelled(server, on_tool, on_server)  # type: ignore[arg-type]


async def test_what_is_forbidden_looks_as_if_it_were_not_there(hub: RunningHub) -> None:
    await hub.deny("a", "open")
    client = RawClient(hub.url + "/mcp", hub.key("a"))
    pairs = [
        ("tools/call", {"name": "open__echo", "arguments": {"text": "x"}}, {"name": "nope__echo", "arguments": {}}),
        ("tools/call", {"name": "shut__echo", "arguments": {}}, {"name": "shut__nope", "arguments": {}}),
        ("tools/validate", {"name": "open__echo", "arguments": {}}, {"name": "nope__echo", "arguments": {}}),
        ("prompts/get", {"name": "open__greet"}, {"name": "nope__greet"}),
        ("resources/read", {"uri": "interlock://open/text://one"}, {"uri": "interlock://nope/text://one"}),
    ]
    for method, forbidden, absent in pairs:
        one, two = await client.modern(method, forbidden), await client.modern(method, absent)
        told = [json.dumps(answer["error"]) for answer in (one, two)]
        for word in ("name", "uri"):
            told = [
                text.replace(str(params.get(word)), "?") for text, params in zip(told, (forbidden, absent), strict=True)
            ]
        one_data, two_data = (json.loads(text) for text in told)
        for data in (one_data, two_data):
            data["data"].pop("trace_id", None)
            data["data"].pop("timestamp", None)
            data["data"].get("details", {}).pop("trace_id", None)
        assert one_data == two_data
    for ref in ({"type": "ref/prompt", "name": "open__greet"}, {"type": "ref/resource", "uri": "interlock://open/t"}):
        answer = await client.modern("completion/complete", {"ref": ref, "argument": {"name": "name", "value": "A"}})
        assert "error" in answer
    for method, member in (("prompts/list", "prompts"), ("resources/list", "resources"), ("tools/list", "tools")):
        assert (await client.modern(method))["result"][member] == []
    found = await call(client, "find_tools", query="echo say it again")
    assert found["result"]["structuredContent"]["tools"] == []
    assert found["result"]["structuredContent"]["total_available"] == 0
    inner = await call(client, "call_tool", name="open__echo", arguments={"text": "x"})
    assert inner["error"]["data"]["name"] == "TOOL_NOT_FOUND"
    gone, _, body = await RawClient(hub.url + "/servers/open/mcp", client.key).post(b"{}")
    never, _, other = await RawClient(hub.url + "/servers/nope/mcp", client.key).post(b"{}")
    assert gone == never == 404
    assert body.replace(b"open", b"nope") == other
    session = RawClient(hub.url + "/mcp", client.key)
    assert "instructions" not in (await session.initialize())["result"]
    refused = await session.legacy("resources/subscribe", {"uri": "interlock://open/text://one"})
    assert refused["error"]["data"]["name"] == "RESOURCE_NOT_FOUND"


async def test_who_may_list_all_sees_it_and_is_told_why_not(hub: RunningHub) -> None:
    await hub.deny("lister", "open", "echo")
    client = RawClient(hub.url + "/mcp", await hub.new_key("lister", permissions=("invoke:**", "list_all")))
    assert {"open__echo", "shut__echo"} <= await names(client)
    refused = (await call(client, "open__echo", text="x"))["error"]["data"]
    assert (refused["name"], refused["gate"]) == ("ACCESS_DENIED", "access")
    assert refused["rule"] == "tool_grant deny by person:tester"
    assert "interlock grants revoke lister open echo" in refused["hint"]


async def test_key_and_grant_must_both_allow(hub: RunningHub) -> None:
    narrow = RawClient(hub.url + "/mcp", await hub.new_key("narrow", permissions=("invoke:*__echo", "read:open__add")))
    assert "result" in await call(narrow, "open__echo", text="x")
    assert (await call(narrow, "shut__echo", text="x"))["error"]["data"]["name"] == "TOOL_NOT_FOUND"
    await hub.allow("narrow", "shut")
    assert "result" in await call(narrow, "shut__echo", text="x")
    assert await names(narrow) == {"open__echo", "shut__echo", "open__add"}
    assert (await call(narrow, "open__add", a=1))["error"]["data"]["name"] == "ACCESS_DENIED"
    assert (await narrow.modern("resources/list"))["result"]["resources"] == []


async def test_t31_a_revocation_holds_for_the_next_call_of_an_open_session(hub: RunningHub) -> None:
    client = RawClient(hub.url + "/mcp", hub.key("a"))
    await client.initialize()
    params = {"name": "shut__echo", "arguments": {"text": "x"}}
    await hub.allow("a", "shut", "echo")
    assert text_of(await client.legacy("tools/call", params)) == "x"
    assert await hub.take("a", "shut", "echo") == 1
    assert (await client.legacy("tools/call", params))["error"]["data"]["name"] == "TOOL_NOT_FOUND"
    listed = (await client.legacy("tools/list"))["result"]["tools"]
    assert "shut__echo" not in {tool["name"] for tool in listed}
    await hub.allow("a", "shut")
    assert text_of(await client.legacy("tools/call", params)) == "x"


async def test_agents_without_grants_share_one_list(hub: RunningHub) -> None:
    listings = hub.hub_app.listings
    callers = [hub.hub_app.authenticator.admit_key(hub.key(name), "/mcp") for name in ("a", "b", "c")]
    await hub.deny("c", "open", "echo")
    one, two, three = (listings.listing(caller.list_scope, "tool") for caller in callers)
    assert one is two
    assert b'"open__echo"' in one
    assert b'"open__echo"' not in three


async def test_grants_are_given_by_people_alone_and_in_their_own_name(hub: RunningHub) -> None:
    said = {"entry_type": "server_grant", "agent_id": "a", "server_id": "shut", "permission": "allow"}
    agent = RawClient(hub.url + "/mcp", hub.key("a"))
    service = RawClient(hub.url + "/mcp", await hub.new_key("s", "service", permissions=("admin_write",)))
    for client in (agent, service):
        for method in ("mgp/access/grant", "mgp/access/revoke"):
            refused = (await client.modern(method, {**said, "granted_by": "admin"}))["error"]
            assert (refused["code"], refused["data"]["name"]) == (1000, "PERMISSION_DENIED")
            assert refused["data"]["_mgp"] == {"category": "security", "retryable": False}
    other = await agent.modern("mgp/access/query", {"agent_id": "b", "server_id": "open"})
    assert other["error"]["code"] == 1000
    person = RawClient(hub.url + "/mcp", await hub.new_key("ada", "person"))
    given = await person.modern("mgp/access/grant", {**said, "granted_by": "somebody else", "justification": "why not"})
    assert given["result"]["granted_by"] == "ada"
    asked = (await person.modern("mgp/access/query", {"agent_id": "a", "server_id": "shut"}))["result"]
    assert (asked["permission"], asked["source"], asked["granted_by"]) == ("allow", "server_grant", "ada")
    [kept] = hub.hub_app.grants.of_agent("a")
    assert kept.justification == "why not"
    assert (await person.modern("mgp/access/revoke", said))["result"]["revoked"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"entry_type": "tool_grant"},
        {"tool_name": "echo"},
        {"expires_at": "2026-01-01T00:00:00"},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"permission": "maybe"},
        {"agent_id": ""},
        {"justification": "x" * 2001},
    ],
)
async def test_a_grant_that_means_nothing_is_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    said = {"entry_type": "server_grant", "agent_id": "a", "server_id": "s", "permission": "allow", **wrong}
    async with running_hub(tmp_path, {}) as hub:
        person = RawClient(hub.url + "/mcp", await hub.new_key("ada", "person"))
        assert (await person.modern("mgp/access/grant", said))["error"]["data"]["name"] == "INVALID_PARAMS"
        assert hub.hub_app.grants.list() == []


async def test_t3_a_wrong_credential_is_never_taken_for_none(hub: RunningHub) -> None:
    stale = await hub.new_key("stale", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    gone = await hub.new_key("gone")
    await hub.hub_app.keys.revoke("gone")
    bound = await hub.new_key("bound", profile="other-tenant")
    credentials = {"garbage": 401, "": 401, "ilk_" + "A" * 43: 401, stale: 401, gone: 401, bound: 404}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    routes = ["/mcp", "/servers/open/mcp", "/profiles/none/mcp", "/sse", "/tools", "/tools/open__echo", "/openapi.json"]
    for route, (credential, expected) in product(routes, credentials.items()):
        for method in ("POST", "GET", "DELETE"):
            status, _, _ = await RawClient(hub.url + route, credential).send(method, body if method == "POST" else b"")
            assert status in (expected, 404, 405), (route, credential[:8], method, status)
    assert b"AUTH_EXPIRED" in (await RawClient(hub.url + "/mcp", stale).post(body))[2]


async def test_without_anonymous_callers_every_route_needs_a_key(tmp_path: Path) -> None:
    settings = HubSettings(anonymous=False, timeouts=TimeoutSettings(start_s=30, discovery_s=10, tool_s=20))
    async with running_hub(tmp_path, {"open": child("busy_server.py")}, hub=settings) as hub:
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'
        for route in ("/mcp", "/servers/open/mcp", "/profiles/none/mcp"):
            assert (await RawClient(hub.url + route).post(body))[0] == 401
        for route in ("/tools", "/tools/open__echo", "/openapi.json", "/sse"):
            assert (await RawClient(hub.url + route).send("GET"))[0] in (401, 404, 405)


async def test_a_revoked_key_ends_an_open_session_and_a_stream_of_standard_io(hub: RunningHub) -> None:
    key = await hub.new_key("a")
    client = RawClient(hub.url + "/mcp", key)
    await client.initialize()
    caller = hub.hub_app.authenticator.admit_key(key, "/mcp")
    assert (await hub.hub_app.hub.calls.judge(caller, "open__echo", b'{"text":"x"}')).outcome == "allowed"
    await hub.hub_app.keys.revoke("a")
    assert (await client.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))[0] == 401
    assert (await hub.hub_app.hub.calls.judge(caller, "open__echo", b'{"text":"x"}')).error == "AUTH_REQUIRED"
    assert hub.hub_app.listings.listing(caller.list_scope, "tool") == b"[]"


async def test_why_equals_the_outcome_of_the_real_call(hub: RunningHub) -> None:
    chance = random.Random(4)
    for number in range(60):
        agent = "asked" if number % 7 == 0 else f"why{number}"
        server = chance.choice(("open", "shut"))
        await say(hub, agent, server, chance.choice(("echo", "add", None)), chance.choice(SAID))
        permissions = chance.choice((None, ("invoke:**", "list_all"), ("invoke:open__*",), ("list_all",)))
        client = RawClient(hub.url + "/mcp", await hub.new_key(agent, permissions=permissions))
        tool = chance.choice(("echo", "add", "nope"))
        arguments = chance.choice(({"text": "x"}, {"a": 1}, {}, {"a": "one"}))
        caller = hub.hub_app.authenticator.admit_key(client.key, "/mcp")
        judged = await hub.hub_app.hub.calls.judge(caller, f"{server}__{tool}", json.dumps(arguments).encode())
        answer = await call(client, f"{server}__{tool}", **arguments)
        failed = answer.get("error", {}).get("data") or answer.get("result", {}).get("_meta", {}).get(
            "dev.interlock/error"
        )
        if judged.outcome == "allowed":
            assert failed is None, (number, answer)
            assert not answer["result"].get("isError")
        elif judged.outcome == "asked":
            assert failed is not None
            assert failed["gate"] == judged.gate == "confirm"
        else:
            assert failed is not None, (number, judged)
            assert failed["name"] == judged.error
            if judged.gate != "resolve":
                last = hub.hub_app.hub.pipeline.refusals.latest.last()
                assert last is not None
                assert (last.gate, last.rule, last.agent) == (judged.gate, judged.rule, agent)
                assert failed.get("gate") == (None if judged.hidden else judged.gate)
        await hub.hub_app.keys.revoke(agent)


async def test_rates_of_key_agent_tool_and_hub_refuse_with_the_time_to_wait(hub: RunningHub) -> None:
    client = RawClient(hub.url + "/mcp", await hub.new_key("fast", rate=Rate(per_minute=2)))
    other = RawClient(hub.url + "/mcp", await hub.new_key("slow", "person"))
    for _ in range(2):
        assert "result" in await call(client, "open__echo", text="x")
    refused = (await call(client, "open__echo", text="x"))["error"]
    assert refused["data"]["name"] == "RATE_LIMITED"
    assert 0 < refused["data"]["retry_after_ms"] <= 60_000
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "open__echo", "arguments": {}}}
    session = RawClient(hub.url + "/mcp", client.key)
    await session.initialize()
    body["params"] = {"name": "open__echo", "arguments": {"text": "x"}}
    _, headers, _ = await session.post(json.dumps(body).encode())
    assert 0 < int(headers["retry-after"]) <= 60
    assert "result" in await call(other, "open__echo", text="x"), "one key's rate is not another's"
    assert "result" in await call(other, "shut__pid")
    assert (await call(other, "shut__pid"))["error"]["data"]["rule"] == "rate of the tool: 1 per minute"
    caller = hub.hub_app.authenticator.admit_key(client.key, "/mcp")
    assert (await hub.hub_app.hub.calls.judge(caller, "open__echo", b'{"text":"x"}')).gate == "rates"


async def test_a_server_that_is_not_there_is_one_that_has_to_be_granted(hub: RunningHub) -> None:
    agent = RawClient(hub.url + "/mcp", hub.key("a"))
    told = [
        (await agent.modern("mgp/access/query", {"server_id": server, "tool_name": "echo"}))["result"]
        for server in ("shut", "nowhere")
    ]
    assert told[0] == told[1]
    assert (told[0]["permission"], told[0]["source"]) == ("deny", "default_policy")


async def test_a_rate_that_is_used_up_is_429_and_when_to_come_back(hub: RunningHub) -> None:
    key = await hub.new_key("limited", rate=Rate(per_hour=1))
    call = {"name": "open__echo", "arguments": {"text": "x"}}
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call, "_meta": meta}}).encode()
    said = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "open__echo"}
    client = RawClient(hub.url + "/mcp", key)
    assert (await client.post(body, said))[0] == 200
    status, headers, answer = await client.post(body, said)
    data = last_message(answer)["error"]["data"]
    assert (status, data["name"]) == (429, "RATE_LIMITED")
    assert 0 < data["retry_after_ms"] <= int(headers["retry-after"]) * 1000 <= 3_600_000
    # In the handshake era any other status than 200 would end the session.
    await client.initialize()
    status, headers, answer = await client.post(
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).encode()
    )
    assert (status, last_message(answer)["error"]["data"]["name"]) == (200, "RATE_LIMITED")
    assert int(headers["retry-after"]) > 0


@pytest.mark.parametrize("rewritten", ["", 'listen = "127.0.0.1:7420"', "anonymous = true"])
async def test_t3_a_hub_beyond_this_machine_lets_nobody_in_because_its_file_says_otherwise_now(
    tmp_path: Path, rewritten: str
) -> None:
    """Where it listens is settled at the start, and who is let in without a key goes by that."""
    file = tmp_path / "interlock.toml"
    file.write_text('[hub]\nlisten = "0.0.0.0:7420"\n')
    async with running_hub(tmp_path, {}) as hub:
        await hub.hub_app.apply(load(file, home=hub.hub_app.home).config)
        anonymous = RawClient(hub.url + "/mcp")
        assert (await anonymous.post(b"{}"))[0] == 401
        file.write_text(f"[hub]\n{rewritten}\n")
        told = await hub.operate("reload")
        assert told["applied"]
        assert "restart the hub" in str(told["problems"])
        assert (await anonymous.post(b"{}"))[0] == 401
