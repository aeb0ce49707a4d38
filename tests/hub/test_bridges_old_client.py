"""A client of the handshake era with a server of the stateless one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import HubSettings, LimitSettings, TimeoutSettings

from .asking_server import FORM
from .legacy_client import LegacyClient, answers
from .running_hub import RawClient, child, messages, running_hub, text_of

ALL = {"sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
MODERN = child("asking_server.py", era="modern")


def asked(legacy_client: LegacyClient, method: str) -> list[Any]:
    return [message["params"] for message in legacy_client.heard if message.get("method") == method]


async def test_a_form_reaches_the_client_whole_and_its_answer_the_tool(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        legacy_client = LegacyClient(hub.url + "/mcp", answers("ada"))
        await legacy_client.initialize(ALL)
        action, value = json.loads(text_of(await legacy_client.call("a__order")))
        assert (action, value["name"]) == ("accept", "ada")
        (params,) = asked(legacy_client, "elicitation/create")
        assert params["requestedSchema"] == FORM
        assert params["mode"] == "form"


async def test_questions_of_one_round_are_asked_together_and_rounds_follow_each_other(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        legacy_client = LegacyClient(hub.url + "/mcp", answers("ada"))
        await legacy_client.initialize(ALL)
        answer = await legacy_client.call("a__everything")
        assert json.loads(text_of(answer)) == ["accept", "hello from ada", "file:///ada", "accept"]
        assert answer["result"]["structuredContent"] == {"result": json.loads(text_of(answer))}
        order = [message.get("method", "answer") for message in legacy_client.heard]
        assert set(order[:3]) == {"elicitation/create", "sampling/createMessage", "roots/list"}
        assert order[3:] == ["elicitation/create", "answer"]


async def test_a_visit_gets_an_id_and_is_told_to_be_complete_when_the_call_went_through(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        legacy_client = LegacyClient(hub.url + "/mcp", {"elicitation/create": {"action": "accept"}})
        await legacy_client.initialize(ALL)
        assert text_of(await legacy_client.call("a__visit")) == "accept"
        (visit,) = asked(legacy_client, "elicitation/create")
        assert (visit["mode"], visit["url"]) == ("url", "https://example.org/login")
        assert asked(legacy_client, "notifications/elicitation/complete") == [{"elicitationId": visit["elicitationId"]}]
        declined = LegacyClient(hub.url + "/mcp", {"elicitation/create": {"action": "decline"}})
        await declined.initialize(ALL)
        assert text_of(await declined.call("a__visit")) == "decline"
        assert asked(declined, "notifications/elicitation/complete") == []


async def test_everything_said_about_sampling_arrives_unharmed(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        legacy_client = LegacyClient(hub.url + "/mcp", answers("ada"))
        await legacy_client.initialize(ALL)
        assert text_of(await legacy_client.call("a__think")) == "hello from ada"
        (params,) = asked(legacy_client, "sampling/createMessage")
        assert params["includeContext"] == "thisServer"
        assert params["modelPreferences"] == {"hints": [{"name": "claude"}], "costPriority": 0.2}
        assert params["tools"] == [{"name": "look", "inputSchema": {"type": "object"}}]
        assert params["toolChoice"] == {"mode": "auto"}
        assert (params["maxTokens"], params["temperature"], params["stopSequences"]) == (7, 0.5, ["."])


async def test_the_sessions_word_on_its_client_goes_with_every_request(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        rich, poor = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        await rich.initialize(ALL)
        await poor.initialize({"sampling": {}})
        call = {"name": "a__who", "arguments": {}}
        said = [json.loads(text_of(await client.legacy("tools/call", call))) for client in (rich, poor)]
        assert said[0] == {"client": "raw", "sampling": True, "form": True, "roots": True}
        assert said[1] == {"client": "raw", "sampling": True, "form": False, "roots": False}


async def test_what_the_client_did_not_declare_is_refused_in_a_number_it_knows(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        error = (await client.legacy("tools/call", {"name": "a__order", "arguments": {}}))["error"]
        assert error["code"] == -32600
        assert error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}


async def test_a_client_that_refuses_is_told_so_and_a_person_who_cannot_be_asked_has_cancelled(tmp_path: Path) -> None:
    class Refuser(LegacyClient):
        async def _answer(self, message: Any) -> None:
            error = {"code": -1, "message": "User rejected sampling request"}
            await self.post(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "error": error}))

    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        refuser = Refuser(hub.url + "/mcp", {})
        await refuser.initialize(ALL)
        error = (await refuser.call("a__think"))["error"]
        assert error["code"] == -1
        assert "User rejected" in error["message"]
        assert json.loads(text_of(await refuser.call("a__order", id=2)))[0] == "cancel"
        assert hub.hub_app.hub.open_calls == 0


async def test_a_server_that_asks_without_end_is_stopped(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        legacy_client = LegacyClient(hub.url + "/mcp", answers("ada"))
        await legacy_client.initialize(ALL)
        assert "more than 10 times" in (await legacy_client.call("a__nag"))["error"]["message"]
        assert len(asked(legacy_client, "elicitation/create")) == 10
        assert hub.hub_app.hub.open_calls == 0


async def test_resources_and_prompts_ask_too(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        legacy_client = LegacyClient(hub.url + "/mcp", answers("ada"))
        await legacy_client.initialize(ALL)
        read = await legacy_client.request("resources/read", {"uri": "interlock://a/secret://plan"})
        assert read["result"]["contents"][0]["text"] == "plan for {'name': 'ada'}"
        got = await legacy_client.request("prompts/get", {"name": "a__letter"}, id=2)
        assert got["result"]["messages"][0]["content"]["text"] == "Write to {'name': 'ada'}"


async def test_a_level_once_set_goes_with_every_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a__report", "arguments": {}}}

        async def heard() -> list[str]:
            _, _, answer = await client.post(msgspec.json.encode(body))
            return [m["params"]["data"] for m in messages(answer) if m.get("method") == "notifications/message"]

        assert await heard() == []
        await client.legacy("logging/setLevel", {"level": "info"})
        assert await heard() == ["at info", "at error"]


async def test_cancelling_while_the_client_is_asked_ends_the_call_at_the_server(tmp_path: Path) -> None:
    class SilentClient(LegacyClient):
        async def _answer(self, message: Any) -> None:
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            await self.post(msgspec.json.encode(cancel))

    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        silent = SilentClient(hub.url + "/mcp", {})
        await silent.initialize(ALL)
        with pytest.raises(ConnectionError):
            await silent.call("a__order", {"mark": "x"})
        assert hub.hub_app.hub.open_calls == 0
        withdrawn = asked(silent, "notifications/cancelled")
        assert [w["requestId"] for w in withdrawn] == [m["id"] for m in silent.heard if "id" in m]


@pytest.mark.parametrize(
    ("version", "schema", "structured", "kinds"),
    [
        ("2025-11-25", {"type": "integer"}, {"result": 42}, ["text", "audio", "resource_link"]),
        ("2025-06-18", {"type": "integer"}, {"result": 42}, ["text", "audio", "resource_link"]),
        ("2025-03-26", None, None, ["text", "audio", "text"]),
        ("2024-11-05", None, None, ["text", "text", "text"]),
    ],
)
async def test_results_are_what_the_older_revision_can_carry(
    tmp_path: Path, version: str, schema: Any, structured: Any, kinds: list[str]
) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize(version=version)
        tools = {tool["name"]: tool for tool in (await client.legacy("tools/list"))["result"]["tools"]}
        listed = tools["a__number"].get("outputSchema")
        assert (listed and listed["properties"]["result"]) == schema
        answer = await client.legacy("tools/call", {"name": "a__number", "arguments": {}})
        assert answer["result"].get("structuredContent") == structured
        assert text_of(answer) == "42"
        loud = (await client.legacy("tools/call", {"name": "a__loud", "arguments": {}}))["result"]
        assert [piece["type"] for piece in loud["content"]] == kinds
        assert "resultType" not in loud


async def test_a_missing_resource_has_the_old_number(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        old, new = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        await old.initialize()
        uri = {"uri": "interlock://a/text://nowhere"}
        assert (await old.legacy("resources/read", uri))["error"]["code"] == -32002
        assert (await new.modern("resources/read", uri))["error"]["code"] == -32602


async def test_many_clients_are_each_asked_their_own_questions(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": MODERN}) as hub:
        names = [f"agent{number}" for number in range(12)]
        legacy_clients = [LegacyClient(hub.url + "/mcp", answers(name), hub.key(name)) for name in names]
        await asyncio.gather(*(legacy_client.initialize(ALL) for legacy_client in legacy_clients))
        said = await asyncio.gather(*(legacy_client.call("a__everything") for legacy_client in legacy_clients))
        assert [json.loads(text_of(answer))[1] for answer in said] == [f"hello from {name}" for name in names]
        for legacy_client, name in zip(legacy_clients, names, strict=True):
            assert not any(f"{other}" + chr(34) in json.dumps(legacy_client.heard) for other in names if other != name)


class SilentClient(LegacyClient):
    """One that is asked and does not answer."""

    async def _answer(self, message: object) -> None:
        self.heard.append(message)


async def test_a_client_that_does_not_answer_in_time_has_its_call_ended(tmp_path: Path) -> None:
    settings = HubSettings(
        timeouts=TimeoutSettings(start_s=30, discovery_s=10, tool_s=20), limits=LimitSettings(parked_s=0.3)
    )
    async with running_hub(tmp_path, {"a": MODERN}, hub=settings) as hub:
        silent = SilentClient(hub.url + "/mcp", {})
        await silent.initialize(ALL)
        answer = await silent.call("a__order")
        assert answer["error"]["data"]["name"] == "TIMEOUT"
        assert "within 0.3 s" in answer["error"]["message"]
        assert hub.hub_app.hub.open_calls == 0
