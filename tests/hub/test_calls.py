"""Calls through a whole hub, over real HTTP, to real servers in either era."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.upstreams.states import ServerState

from .busy_server import busy_server
from .running_hub import RawClient, child, running_hub, text_of, until

Era = Literal["modern", "legacy"]


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param  # type: ignore[no-any-return]


async def test_a_client_of_either_era_calls_a_server_of_either_era(tmp_path: Path, era: Era) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        new = RawClient(hub.url + "/mcp")
        answer = await new.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "hé"}}, id="x")
        assert answer["id"] == "x"
        assert text_of(answer) == "hé"
        assert answer["result"]["resultType"] == "complete"
        old = RawClient(hub.url + "/mcp")
        await old.initialize()
        answer = await old.legacy("tools/call", {"name": "busy__echo", "arguments": {"text": "hé"}}, id=7)
        assert answer["id"] == 7
        assert text_of(answer) == "hé"
        assert "resultType" not in answer["result"]


async def test_everything_a_server_offers_is_listed_and_reached_under_the_hubs_names(tmp_path: Path, era: Era) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        client = RawClient(hub.url + "/mcp")
        tools = (await client.modern("tools/list"))["result"]
        assert {tool["name"] for tool in tools["tools"]} >= {"busy__echo", "busy__add"}
        assert tools["cacheScope"] == "private"
        prompt = await client.modern("prompts/get", {"name": "busy__greet", "arguments": {"name": "Ada"}})
        assert prompt["result"]["messages"][0]["content"]["text"] == "Greet Ada"
        (resource,) = (await client.modern("resources/list"))["result"]["resources"]
        assert resource["uri"] == "interlock://busy/text://one"
        read = await client.modern("resources/read", {"uri": resource["uri"]})
        assert read["result"]["contents"][0]["text"] == "1"
        assert read["result"]["contents"][0]["uri"] == resource["uri"]
        (template,) = (await client.modern("resources/templates/list"))["result"]["resourceTemplates"]
        uri = template["uriTemplate"].replace("{name}", "x")
        assert (await client.modern("resources/read", {"uri": uri}))["result"]["contents"][0]["text"] == "x"
        ref = {"type": "ref/prompt", "name": "busy__greet"}
        completed = await client.modern("completion/complete", {"ref": ref, "argument": {"name": "name", "value": "A"}})
        assert completed["result"]["completion"]["values"] == ["Ada", "Alan"]


async def test_a_view_of_one_server_shows_bare_names(tmp_path: Path) -> None:
    servers = {"busy": child("busy_server.py"), "other": child("busy_server.py")}
    async with running_hub(tmp_path, servers) as hub:
        client = RawClient(hub.url + "/servers/busy/mcp")
        names = {tool["name"] for tool in (await client.modern("tools/list"))["result"]["tools"]}
        assert "echo" in names
        assert not any("__" in name for name in names)
        assert text_of(await client.modern("tools/call", {"name": "echo", "arguments": {"text": "a"}})) == "a"
        assert (await client.modern("resources/read", {"uri": "text://one"}))["result"]["contents"][0]["text"] == "1"
        missing = await client.modern("tools/call", {"name": "other__echo", "arguments": {"text": "a"}})
        assert missing["error"]["data"]["name"] == "TOOL_NOT_FOUND"


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "busy__nothing"}, "TOOL_NOT_FOUND"),
        ("tools/call", {"name": "nobody__echo"}, "TOOL_NOT_FOUND"),
        ("tools/call", {"name": "echo"}, "TOOL_NOT_FOUND"),
        ("prompts/get", {"name": "busy__nothing"}, "PROMPT_NOT_FOUND"),
        ("resources/read", {"uri": "text://one"}, "RESOURCE_NOT_FOUND"),
        ("resources/read", {"uri": "interlock://nobody/text://one"}, "RESOURCE_NOT_FOUND"),
        ("tools/list", {"cursor": "made up"}, "INVALID_PARAMS"),
        ("completion/complete", {"ref": {"type": "ref/else"}}, "INVALID_PARAMS"),
    ],
)
async def test_what_is_not_there_is_said_in_the_errors_own_name(
    tmp_path: Path, method: str, params: dict[str, object], name: str
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        answer = await RawClient(hub.url + "/mcp").modern(method, params)
        assert answer["error"]["data"]["name"] == name
        assert answer["error"]["code"] == -32602


async def test_arguments_that_do_not_fit_are_told_to_the_model_and_never_sent(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        answer = await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "busy__add", "arguments": {"a": "x"}})
        result = answer["result"]
        assert result["isError"] is True
        assert result["resultType"] == "complete"
        assert result["_meta"]["dev.interlock/error"]["gate"] == "schema"
        assert "a" in result["content"][0]["text"]


@pytest.mark.parametrize("arguments", ['{"a":1,"a":2}', '{"a":1,"b":{"c":1,"c":2}}', '{"a":1,"\\u0061":2}'])
async def test_ambiguous_arguments_are_refused(tmp_path: Path, arguments: str) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        body = (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"busy__add","arguments":' + arguments + "}}"
        )
        _, _, answer = await client.post(body.encode())
        assert b"duplicate member" in answer


async def test_a_server_that_cannot_start_delays_nobody_and_says_how_to_fix_it(tmp_path: Path) -> None:
    servers = {
        "gone": ServerSettings(command=("/no/such/program",)),
        "hangs": ServerSettings(command=("sleep", "60")),
        "busy": child("busy_server.py"),
    }
    async with running_hub(tmp_path, servers, wait=False) as hub:
        client = RawClient(hub.url + "/mcp")
        assert (await client.modern("tools/list"))["result"]["tools"] is not None
        await until(lambda: hub.hub_app.catalog.offer("busy").tools != {})  # type: ignore[union-attr]
        assert text_of(await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "a"}})) == "a"
        problem = hub.hub_app.upstreams["gone"].problem
        assert problem is not None
        assert "/no/such/program" in problem.message


async def test_a_call_whose_server_dies_in_the_middle_ends_with_an_error_and_the_server_comes_back(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp")
        answer = await client.modern("tools/call", {"name": "busy__die", "arguments": {}})
        assert answer["error"]["data"]["name"] == "OUTCOME_UNKNOWN"
        await until(lambda: hub.hub_app.upstreams["busy"].restarts.total == 1)
        await hub.state("busy", ServerState.CONNECTED)
        assert text_of(await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "b"}})) == "b"
        assert hub.hub_app.hub.open_calls == 0


async def test_an_on_demand_server_is_started_once_to_be_known_and_then_with_the_first_call(tmp_path: Path) -> None:
    settings = child("busy_server.py", start="on-demand")
    echo = {"name": "busy__echo", "arguments": {"text": "a"}}
    async with running_hub(tmp_path, {"busy": settings}) as hub:
        await until(lambda: hub.hub_app.upstreams["busy"].lists.known)
        assert text_of(await RawClient(hub.url + "/mcp").modern("tools/call", echo)) == "a"
    async with running_hub(tmp_path, {"busy": settings}, wait=False) as hub:
        client = RawClient(hub.url + "/mcp")
        assert "busy__echo" in [tool["name"] for tool in (await client.modern("tools/list"))["result"]["tools"]]
        assert hub.hub_app.upstreams["busy"].pid is None
        assert text_of(await client.modern("tools/call", echo)) == "a"
        assert hub.hub_app.upstreams["busy"].pid is not None


async def test_a_call_to_a_server_that_is_only_just_starting_says_so_to_whoever_may_reach_it(tmp_path: Path) -> None:
    hasty = HubSettings(timeouts=TimeoutSettings(tool_s=0.2))
    async with running_hub(tmp_path, {"slow": ServerSettings(command=("sleep", "60"))}, wait=False, hub=hasty) as hub:
        await hub.deny("stranger", "slow")
        await hub.state("slow", ServerState.CONNECTING)
        asked = {"name": "slow__do", "arguments": {}}
        early = (await RawClient(hub.url + "/mcp").modern("tools/call", asked))["error"]["data"]
        assert (early["name"], early["retry_after_ms"]) == ("SERVER_NOT_READY", 1000)
        stranger = RawClient(hub.url + "/mcp", await hub.new_key("stranger"))
        assert (await stranger.modern("tools/call", asked))["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        other = (await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "none__do", "arguments": {}}))["error"]
        assert other["data"]["name"] == "TOOL_NOT_FOUND"


async def test_progress_reaches_the_caller_under_its_own_token(tmp_path: Path, era: Era) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        import msgspec

        from .running_hub import messages

        body = {
            "jsonrpc": "2.0",
            "id": 5,
            "method": "tools/call",
            "params": {"name": "busy__report", "arguments": {}, "_meta": {"progressToken": "mine"}},
        }
        _, _, stream = await client.post(msgspec.json.encode(body))
        *change_notifier, answer = messages(stream)
        steps = [notice["params"] for notice in change_notifier if notice["method"] == "notifications/progress"]
        assert [step["progress"] for step in steps] == [1, 2, 3]
        assert {step["progressToken"] for step in steps} == {"mine"}
        assert text_of(answer) == "reported"


async def begun(client: RawClient, mark: str) -> None:
    """Wait until the server itself has begun a call: one that never began has nothing to cancel."""
    marks = ""
    while mark not in marks:
        marks = text_of(await client.modern("tools/call", {"name": "busy__begun_marks", "arguments": {}}))


async def test_a_client_that_goes_away_cancels_its_call_at_the_server(tmp_path: Path, era: Era) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        client = RawClient(hub.url + "/mcp")
        hanging = asyncio.ensure_future(
            client.modern("tools/call", {"name": "busy__hang", "arguments": {"mark": "gone"}})
        )
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        await begun(RawClient(hub.url + "/mcp"), "gone")
        hanging.cancel()
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        marks = ""
        while "gone" not in marks:
            marks = text_of(await client.modern("tools/call", {"name": "busy__cancelled_marks", "arguments": {}}))


async def test_a_cancelled_notification_cancels_in_a_session(tmp_path: Path, era: Era) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        hanging = asyncio.ensure_future(
            client.legacy("tools/call", {"name": "busy__hang", "arguments": {"mark": "told"}}, id=9)
        )
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        await begun(RawClient(hub.url + "/mcp"), "told")
        await client.post(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}')
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        hanging.cancel()
        marks = ""
        while "told" not in marks:
            marks = text_of(await client.legacy("tools/call", {"name": "busy__cancelled_marks", "arguments": {}}))


async def test_a_call_ends_by_its_deadline(tmp_path: Path) -> None:
    settings = child("busy_server.py", timeout_s=0.5)
    async with running_hub(tmp_path, {"busy": settings}) as hub:
        answer = await RawClient(hub.url + "/mcp").modern(
            "tools/call", {"name": "busy__hang", "arguments": {"mark": "late"}}
        )
        assert answer["error"]["data"]["name"] == "UPSTREAM_TIMEOUT"
        assert hub.hub_app.hub.open_calls == 0


async def test_a_server_over_http_works_like_one_over_standard_streams(tmp_path: Path, era: Era) -> None:
    async with busy_server().http() as address:
        async with running_hub(tmp_path, {"busy": ServerSettings(url=address.url, era=era)}) as hub:
            client = RawClient(hub.url + "/mcp")
            assert text_of(await client.modern("tools/call", {"name": "busy__add", "arguments": {"a": 4}})) == "5"
            read = await client.modern("resources/read", {"uri": "interlock://busy/text://one"})
            assert read["result"]["contents"][0]["text"] == "1"
