"""Addresses in what a server asks: a link leads a client back through the hub, and comes to its server as its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from interlock.client import Client, Handlers
from interlock.config.settings import ServerSettings as Settings
from interlock.server import Context, Message, NotFound, Server, TaskLimits

from .legacy_client import LegacyClient
from .modern_client import ModernClient
from .running_hub import RawClient, child, running_hub, text_of, until
from .test_bridges_questions import ALL, Answerer, asks, instructed_hub, listen, steps

Era = Literal["old", "new"]
PAIRS: list[tuple[Era, Era]] = [("old", "old"), ("old", "new"), ("new", "old"), ("new", "new")]


def found(at: str) -> dict[str, Any]:
    """A tool's result, as a model gets it: a link, a resource, and text that names an address."""
    return {
        "type": "tool_result",
        "toolUseId": "u1",
        "content": [
            {"type": "resource_link", "uri": f"{at}note://one", "name": "one"},
            {"type": "resource", "resource": {"uri": f"{at}note://two", "text": "see note://one"}},
            {"type": "text", "text": "note://one", "_meta": {"uri": "note://one"}},
        ],
        "structuredContent": {"uri": "note://one"},
    }


def sampling(at: str) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "u1", "name": "look", "input": {"uri": "note://one"}}
    return {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Look"}},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [found(at)]},
            {"role": "user", "content": found(at)},
        ],
        "tools": [{"name": "look", "inputSchema": {"type": "object"}}],
        "maxTokens": 7,
    }


def wrote(at: str) -> dict[str, Any]:
    return {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "ok"}, found(at)]}


async def ask_through(hub: Any, client: Era, server: Era, view: str, answer: Any) -> tuple[Any, Any]:
    """The question to the client, and the answer to the server."""
    url, tool = f"{hub.url}{view}", "do" if "servers" in view else "a__do"
    question = {"q": {"method": "sampling/createMessage", "params": sampling("")}}
    step = asks("q", "sampling/createMessage", sampling(""))
    call = {"rounds": [{"inputRequests": question}]} if server == "new" else steps(step, {"wait": "q"})
    if client == "new":
        modern_client = ModernClient(url, {"sampling/createMessage": answer})
        got = await modern_client.call(tool, call)
        asked = modern_client.asked[0]["params"]
    else:
        legacy_client = LegacyClient(url, {"sampling/createMessage": answer})
        await legacy_client.initialize(ALL)
        got = await legacy_client.call(tool, call)
        (asked,) = [said["params"] for said in legacy_client.heard if said.get("method") == "sampling/createMessage"]
    (told,) = json.loads(text_of(got)).values() if server == "new" else [json.loads(text_of(got))[0]["result"]]
    return asked, told


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_a_link_in_a_question_leads_through_the_hub_and_back(tmp_path: Path, client: Era, server: Era) -> None:
    at = "interlock://a/"
    async with instructed_hub(tmp_path, "modern" if server == "new" else "legacy") as (hub, _):
        asked, told = await ask_through(hub, client, server, "/mcp", wrote(at))
        assert asked == sampling(at)
        assert told == wrote("")
        asked, told = await ask_through(hub, client, server, "/servers/a/mcp", wrote(""))
        assert (asked, told) == (sampling(""), wrote(""))


async def test_nothing_else_of_a_round_is_touched(tmp_path: Path) -> None:
    asked = {
        "q": {"method": "sampling/createMessage", "params": sampling(""), "com.example/more": 1},
        "r": {"method": "roots/list", "com.example/more": {"uri": "note://one"}},
    }
    async with instructed_hub(tmp_path, "modern") as (hub, _):
        client = ModernClient(hub.url + "/mcp", {})
        first = await client.start("a__do", {"rounds": [{"inputRequests": asked}]})
        expected = {**asked, "q": {**asked["q"], "params": sampling("interlock://a/")}}
        assert first["inputRequests"] == expected


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_an_address_of_another_server_comes_back_as_it_is(tmp_path: Path, client: Era, server: Era) -> None:
    async with instructed_hub(tmp_path, "modern" if server == "new" else "legacy") as (hub, _):
        _, told = await ask_through(hub, client, server, "/mcp", wrote("interlock://b/"))
        assert told == wrote("interlock://b/")


async def test_a_link_in_a_question_that_belongs_to_no_call_leads_through_the_hub_too(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child("instructed_server.py", era="legacy")}) as hub:
        client = Answerer(hub.url + "/mcp", lambda asked: None)
        await client.initialize(ALL)
        heard: list[Any] = []
        listening = asyncio.ensure_future(listen(client, heard))
        question = asks(1, "sampling/createMessage", sampling(""))
        await client.call("a__do", {"steps": [], "afterwards": [question]})
        await until(lambda: bool(heard))
        listening.cancel()
        assert heard[0]["params"] == sampling("interlock://a/")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_link_in_what_a_task_asks_leads_through_the_hub_and_back(
    tmp_path: Path, era: Literal["legacy", "modern"]
) -> None:
    server, at, asked, told = Server("tasks", tasks=TaskLimits(poll_ms=20)), "interlock://a/", [], []

    @server.tool(task="required")
    async def think(ctx: Context) -> None:
        use = {"type": "tool_use", "id": "u1", "name": "look", "input": {}}
        messages = [Message("Look"), Message([use], "assistant"), Message([found("")])]
        told.append((await ctx.sample(messages)).content)

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["messages"][-1]["content"])
        return wrote(at)

    async with server.http() as address, running_hub(tmp_path, {"a": Settings(url=address.url, era=era)}) as hub:
        handlers = Handlers(sampling=sample, sampling_tools=True)
        async with Client(hub.url + "/mcp", era=era, handlers=handlers) as client:
            await (await client.start_tool("a__think")).result()
    assert asked == [[found(at)]]
    assert told == [wrote("")["content"]]


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_what_is_not_there_is_named_as_the_client_asked_for_it(tmp_path: Path, client: Era, server: Era) -> None:
    """The error for a resource that is not there carries its address (2026-07-28, Resources: Error Handling)."""
    own, era = Server("notes"), "modern" if server == "new" else "legacy"

    @own.resource("note://{name}")
    async def note(name: str) -> str:
        raise NotFound

    async with own.http() as address, running_hub(tmp_path, {"a": Settings(url=address.url, era=era)}) as hub:  # type: ignore[arg-type]
        for view, at in (("/mcp", "interlock://a/"), ("/servers/a/mcp", "")):
            raw = RawClient(f"{hub.url}{view}")
            if client == "old":
                await raw.initialize()
            read = raw.legacy if client == "old" else raw.modern
            error = (await read("resources/read", {"uri": f"{at}note://gone"}))["error"]
            assert (error["code"], error["data"]["uri"]) == (-32002 if client == "old" else -32602, f"{at}note://gone")
