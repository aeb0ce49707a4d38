"""A client of the stateless era with a server of the handshake one: parked calls, and the tokens that lead to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import ServerSettings
from interlock.protocols.mcp.input_requests import QUESTION_KEY

from .asking_server import FORM, asking_server
from .legacy_client import answers
from .modern_client import LOG_LEVEL, ModernClient
from .running_hub import RawClient, RunningHub, child, messages, running_hub, text_of, until
from .test_bridges_questions import FORM as QUESTION
from .test_bridges_questions import instructed_hub

LEGACY = child("asking_server.py", era="legacy")


@contextlib.asynccontextmanager
async def web_hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    """A hub whose one server is reached over HTTP, in the handshake era."""
    async with (
        asking_server().http() as address,
        running_hub(tmp_path, {"a": ServerSettings(url=address.url, era="legacy")}) as hub,
    ):
        yield hub


async def counted(hub: RunningHub) -> Any:
    """The server's counters, read on a connection that no call uses."""
    answer = await RawClient(hub.url + "/mcp", hub.key("auditor")).modern("tools/call", {"name": "a__counted"})
    return answer["result"]["structuredContent"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_question_parks_the_call_and_the_retry_brings_it_to_its_end(tmp_path: Path, transport: str) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) if transport == "stdio" else web_hub(tmp_path) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        action, value = json.loads(text_of(await client.call("a__order")))
        assert (action, value["name"]) == ("accept", "ada")
        (asked,) = client.asked
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["requestedSchema"] == FORM
        done = await client.call("a__everything")
        assert done["result"]["structuredContent"] == {"result": ["accept", "hello from ada", "file:///ada", "accept"]}
        assert done["result"]["resultType"] == "complete"
        assert hub.hub_app.hub.open_calls == 0


async def test_an_old_server_names_its_questions_and_an_answer_that_came_before_counts_once(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, _):
        client = ModernClient(hub.url + "/mcp", answers("ada"))

        def asking(id: str, key: object) -> list[Any]:
            asked = {"method": "elicitation/create", "params": {**QUESTION, "_meta": {QUESTION_KEY: key}}}
            return [{"ask": {"id": id, **asked}}, {"wait": id}]

        early = {"inputResponses": {"user_name": client.answers["elicitation/create"], "other": {}}}
        call = {"name": "a__do", "arguments": {"steps": asking("1", "user_name")}}
        done = await client.ask("tools/call", dict(call), **early)
        assert json.loads(text_of(done))[0]["result"]["action"] == "accept"

        twice = {"name": "a__do", "arguments": {"steps": asking("2", "user_name") + asking("3", "user_name")}}
        first = (await client.ask("tools/call", dict(twice), **early))["result"]
        assert list(first["inputRequests"]) == ["user_name"], "an answer is good for one question"
        assert "_meta" not in first["inputRequests"]["user_name"]["params"]
        done = await client.ask("tools/call", dict(twice), **client.reply(first))
        assert [each["result"]["action"] for each in json.loads(text_of(done))] == ["accept", "accept"]

        for number, unusable in enumerate(("a b", "", "x" * 65, 7)):
            first = await client.start("a__do", {"steps": asking(f"u{number}", unusable)})
            assert list(first["inputRequests"]) == ["elicitation-1"]


async def test_everything_said_about_sampling_arrives_unharmed(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        assert text_of(await client.call("a__think")) == "hello from ada"
        params = client.asked[0]["params"]
        assert params["includeContext"] == "thisServer"
        assert params["modelPreferences"] == {"hints": [{"name": "claude"}], "costPriority": 0.2}
        assert params["tools"] == [{"name": "look", "inputSchema": {"type": "object"}}]
        assert params["toolChoice"] == {"mode": "auto"}


async def test_a_visit_crosses_without_the_id_that_the_new_revision_does_not_know(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        client = ModernClient(hub.url + "/mcp", {"elicitation/create": {"action": "accept"}})
        assert text_of(await client.call("a__visit")) == "accept"
        assert client.asked[0]["params"] == {"mode": "url", "message": "Log in", "url": "https://example.org/login"}


async def test_resources_and_prompts_are_parked_too(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        read = await client.request("resources/read", {"uri": "interlock://a/secret://plan"})
        assert read["result"]["contents"][0]["text"] == "plan for {'name': 'ada'}"
        got = await client.request("prompts/get", {"name": "a__letter"})
        assert got["result"]["messages"][0]["content"]["text"] == "Write to {'name': 'ada'}"


async def test_each_principal_and_each_set_of_capabilities_has_a_session_of_its_own(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        callers: list[tuple[str, dict[str, Any]]] = [
            ("ada", {"sampling": {}}),
            ("ada", {"roots": {}}),
            ("bob", {}),
            ("ada", {"roots": {}}),
        ]
        said = []
        for name, capabilities in callers:
            client = ModernClient(hub.url + "/mcp", {}, hub.key(name))
            client.capabilities = capabilities
            said.append(json.loads(text_of(await client.call("a__who"))))
        assert [answer["sampling"] for answer in said] == [True, False, False, False]
        assert [answer["roots"] for answer in said] == [False, True, False, True]
        upstream = hub.hub_app.upstreams["a"]
        assert len(upstream.pool.private.open_connections()) == 2


async def test_a_retry_that_is_the_same_joins_and_one_that_differs_is_refused(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        asked = await client.start("a__order", {"mark": "x"})
        params = {"name": "a__order", "arguments": {"mark": "x"}}
        reply = client.reply(asked)
        same = await asyncio.gather(*(client.ask("tools/call", dict(params), **reply) for _ in range(5)))
        assert len({text_of(answer) for answer in same}) == 1
        late = await client.ask("tools/call", dict(params), **reply)
        assert text_of(late) == text_of(same[0])
        other = ModernClient(hub.url + "/mcp", answers("bob")).reply(asked)
        refused = await client.ask("tools/call", dict(params), **other)
        assert refused["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"
        assert await counted(hub) == {"runs": {"x": 1}, "ended": {"answered x": 1}}


async def test_a_token_is_good_for_its_principal_its_call_and_unaltered_alone(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as hub:
        ada, bob = (ModernClient(hub.url + "/mcp", answers(name), hub.key(name)) for name in ("ada", "bob"))
        asked = await ada.start("a__order", {"mark": "x"})
        reply = ada.reply(asked)
        token = reply["requestState"]
        params = {"name": "a__order", "arguments": {"mark": "x"}}
        attempts = [
            (bob, params, reply),
            (ada, {"name": "a__order", "arguments": {"mark": "y"}}, reply),
            (ada, {"name": "a__order_slowly", "arguments": {"mark": "x"}}, reply),
            (ada, params, {**reply, "requestState": token[:-1] + ("A" if token[-1] != "A" else "B")}),
            (ada, params, {**reply, "requestState": token + "A"}),
            (ada, params, {**reply, "requestState": ""}),
            (ada, params, {**reply, "requestState": "made up"}),
        ]
        for client, said, given in attempts:
            answer = await client.ask("tools/call", dict(said), **given)
            assert answer["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"
        assert (await counted(hub))["runs"] == {"x": 1}
        assert json.loads(text_of(await ada.ask("tools/call", dict(params), **reply)))[0] == "accept"


async def test_a_client_that_goes_in_mid_retry_cancels_the_call_at_the_server(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        reply = client.reply(await client.start("a__order_slowly", {"mark": "x"}))
        params = {"name": "a__order_slowly", "arguments": {"mark": "x"}}
        retry = asyncio.ensure_future(client.ask("tools/call", dict(params), **reply))

        async def ended(mark: str) -> bool:
            return mark in (await counted(hub))["ended"]

        await until(lambda: ended("waiting x"))
        retry.cancel()
        await until(lambda: ended("cancelled x"))
        again = await client.ask("tools/call", dict(params), **reply)
        assert again["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"
        assert len(hub.hub_app.parking) == 0
        assert hub.hub_app.hub.open_calls == 0


async def test_log_messages_reach_the_request_that_asked_for_them_alone(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as hub:
        client = ModernClient(hub.url + "/mcp", {})
        body: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "a__report",
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "a__report"}

        async def heard(level: str | None) -> list[str]:
            if level is not None:
                body["params"]["_meta"][LOG_LEVEL] = level
            _, _, answer = await client.post(json.dumps(body).encode(), headers)
            return [m["params"]["data"] for m in messages(answer) if m.get("method") == "notifications/message"]

        assert await heard(None) == []
        assert await heard("info") == ["at info", "at error"]
        assert await heard("error") == ["at error"]


async def test_what_a_server_asks_in_no_call_or_in_one_of_several_is_refused(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        hanging = asyncio.ensure_future(client.start("a__hang", {"mark": "x"}))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        answer = await client.ask("tools/call", {"name": "a__places"})
        assert "attributed" in json.dumps(answer)
        hanging.cancel()
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        assert text_of(await client.call("a__places")) == "file:///ada"


async def test_a_question_is_taken_for_the_only_call_that_waits_for_nothing_else(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        left = [await client.start("a__order", {"mark": mark}) for mark in ("x", "y")]
        assert text_of(await client.call("a__places")) == "file:///ada"
        assert hub.hub_app.hub.open_calls == 2, "those that were left wait on"
        params = {"name": "a__order", "arguments": {"mark": "y"}}
        assert "accept" in text_of(await client.ask("tools/call", params, **client.reply(left[1])))


async def test_an_old_servers_wish_for_a_page_first_becomes_a_question_where_the_client_can_open_one(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"a": LEGACY}) as hub:
        client = ModernClient(hub.url + "/mcp", {"elicitation/create": {"action": "accept"}})
        assert text_of(await client.call("a__paywall", {"mark": "x"})) == "in"
        assert [asked["params"]["url"] for asked in client.asked] == ["https://example.org/pay"]
        unwilling = ModernClient(hub.url + "/mcp", {"elicitation/create": {"action": "decline"}})
        assert (await unwilling.call("a__paywall", {"mark": "y"}))["error"]["data"][
            "name"
        ] == "URL_ELICITATION_REQUIRED"
        unable = ModernClient(hub.url + "/mcp", {})
        unable.capabilities = {}
        error = (await unable.call("a__paywall", {"mark": "z"}))["error"]
        assert error["code"] == -32603
        assert error["data"]["elicitations"][0]["url"] == "https://example.org/pay"
