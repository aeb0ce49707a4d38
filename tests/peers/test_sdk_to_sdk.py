"""The official SDK on both sides of the hub, in straight pairs: each era, each transport, on either side."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, types
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

from .peer_hub import Mode, PeerHub, Transport, text_of

pytestmark = pytest.mark.slow

VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
ERAS = {"legacy": "legacy", "auto": "modern"}


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["http", "stdio"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, mode: Mode) -> str:
    """The SDK's server behind the hub, in the client's era."""
    return f"sdk-{request.param}-{ERAS[mode]}"


async def test_it_lists_and_calls_everything(peer_hub: PeerHub, transport: Transport, mode: Mode, server: str) -> None:
    async with peer_hub.client(transport, mode, server) as client:
        assert client.protocol_version == VERSIONS[mode]
        assert "Be kind to peers." in (client.instructions or "")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"add", "person", "count", "elicit"} <= set(tools)
        assert tools["person"].output_schema is not None
        somebody = await client.call_tool("person", {"name": "Ada"})
        assert somebody.structured_content == {"name": "Ada", "age": 42}
        assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}
        failed = await client.call_tool("fail", {})
        assert failed.is_error
        with pytest.raises(MCPError):
            await client.call_tool("no-such-tool", {})
        assert "peer://note" in {resource.uri for resource in (await client.list_resources()).resources}
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["peer://letter/{name}"]
        assert await text_at(client, "peer://note") == "remember the milk"
        assert await text_at(client, "peer://letter/Grace") == "Dear Grace"
        with pytest.raises(MCPError):
            await client.read_resource("peer://nothing")
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        assert isinstance(prompt.messages[0].content, types.TextContent)
        assert prompt.messages[0].content.text == "Greet Ada warmly."
        completed = await client.complete(types.PromptReference(name="greet"), {"name": "name", "value": "A"})
        assert completed.completion.values == ["Ada", "Alan"]


async def test_progress_comes_through_in_order(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with peer_hub.client(transport, mode, server) as client:
        answer = await client.call_tool("count", {"to": 5}, progress_callback=progressed)
    assert text_of(answer) == "counted"
    assert steps == [(number, 5, f"at {number}") for number in range(1, 6)]


async def test_log_messages_come_at_the_level_asked_for(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    logged: list[tuple[str, str]] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append((params.level, str(params.data)))

    async with peer_hub.client(transport, mode, server, logging_callback=log, log_level="warning") as client:
        if mode == "legacy":
            await client.set_logging_level("warning")
        await client.call_tool("talk", {})
    # The SDK's server of the old era does not filter by itself.
    assert logged == [("warning", "a word of warning"), ("error", "a word of error")]


async def test_nobody_hears_log_messages_that_they_did_not_ask_for(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    logged: list[object] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async with peer_hub.client(transport, mode, server, logging_callback=log) as client:
        await client.call_tool("talk", {})
        await client.call_tool("add", {"a": 1, "b": 1})
    assert logged == []


async def test_questions_of_the_server_reach_the_client_and_its_answers_the_server(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    async with peer_hub.client(transport, mode, server, **answers()) as client:
        assert text_of(await client.call_tool("elicit", {})) == "Ada"
        assert text_of(await client.call_tool("sample", {})) == "something"
        assert text_of(await client.call_tool("roots", {})) == "file:///work"


async def test_a_question_that_is_declined_stays_declined(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    async def declined(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with peer_hub.client(transport, mode, server, elicitation_callback=declined) as client:
        assert text_of(await client.call_tool("elicit", {})) == "decline"


async def test_a_call_that_is_given_up_is_cancelled_on_the_server(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    name = f"{transport} {mode} {server}"
    begun = anyio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with peer_hub.client(transport, mode, server) as client:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                await client.call_tool("wait", {"name": name}, progress_callback=progressed)

            tasks.start_soon(wait)
            with anyio.fail_after(120):
                await begun.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(120):
            while name not in (await client.call_tool("waited", {})).structured_content["result"]:
                await anyio.sleep(0.02)
        assert text_of(await client.call_tool("add", {"a": 1, "b": 1})) == "2"


async def test_a_tool_that_is_new_is_announced_and_can_be_called(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    name = f"grown_{transport}_{mode}_{server.replace('-', '_')}"
    changed = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async with peer_hub.client(transport, mode, server, message_handler=hear) as client:
        before = {tool.name for tool in (await client.list_tools()).tools}
        assert name not in before
        with anyio.fail_after(120):
            if mode == "auto":
                async with client.listen(tools_list_changed=True) as changes:
                    await client.call_tool("grow", {"name": name})
                    assert isinstance(await anext(changes), ToolsListChanged)
            else:
                await client.call_tool("grow", {"name": name})
                await changed.wait()
        assert name in {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        assert text_of(await client.call_tool(name, {})) == "grown"


async def test_a_resource_that_is_watched_is_announced_when_it_changes(
    peer_hub: PeerHub, transport: Transport, mode: Mode, server: str
) -> None:
    changed = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and str(message.params.uri) == "peer://note":
            changed.set()

    async with peer_hub.client(transport, mode, server, message_handler=hear) as client:
        with anyio.fail_after(120):
            if mode == "auto":
                async with client.listen(resource_subscriptions=["peer://note"]) as changes:
                    await client.call_tool("touch", {})
                    assert await anext(changes) == ResourceUpdated(uri="peer://note")
            else:
                await client.subscribe_resource("peer://note")
                await client.call_tool("touch", {})
                await changed.wait()


async def test_everything_is_on_one_endpoint_under_each_servers_name(
    peer_hub: PeerHub, transport: Transport, mode: Mode
) -> None:
    async with peer_hub.client(transport, mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        for server in ("sdk-stdio-legacy", "sdk-stdio-modern", "sdk-http-legacy", "sdk-http-modern"):
            assert f"{server}__add" in names
            answer = await client.call_tool(f"{server}__person", {"name": server})
            assert answer.structured_content == {"name": server, "age": 42}
        assert {"everything__echo", "filesystem__write_file", "memory__read_graph"} <= names


def answers() -> dict[str, Any]:
    """A client that answers whatever a server may ask."""

    async def elicited(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sampled(context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        said = types.TextContent(text="something")
        return types.CreateMessageResult(role="assistant", content=said, model="scripted")

    async def rooted(context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # type: ignore[arg-type]

    return {"elicitation_callback": elicited, "sampling_callback": sampled, "list_roots_callback": rooted}


async def text_at(client: Client, uri: str) -> str:
    """A resource's text."""
    contents = (await client.read_resource(uri)).contents[0]
    assert isinstance(contents, types.TextResourceContents)
    return contents.text
