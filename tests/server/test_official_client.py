"""The official SDK's client as the judge: both eras, over HTTP and over standard streams."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from judged_server import judged_server
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

import forking

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
Mode = Literal["legacy", "auto"]


@pytest.fixture(params=["http", "stdio"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def connected(transport: str, mode: Mode, **callbacks: Any) -> AsyncIterator[Client]:
    """The official client, on our server."""
    warnings.simplefilter("ignore")
    if transport == "http":
        async with judged_server().http() as address, Client(address.url, mode=mode, **callbacks) as client:
            yield client
    else:
        program, *arguments = forking.command(str(HERE / "judged_server.py"))
        child = StdioServerParameters(command=program, args=arguments, env={**os.environ, "PYTHONPATH": str(SOURCE)})
        async with Client(child, mode=mode, **callbacks) as client:
            yield client


async def test_it_lists_and_calls_everything(transport: str, mode: Mode) -> None:
    async with connected(transport, mode) as client:
        assert client.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[mode]
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("judged", "1.2.3")
        assert client.instructions == "For judges."
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert {"add", "shout", "person", "report", "interview"} <= listed
        wrap = (lambda value: {"result": value}) if mode == "legacy" else (lambda value: value)
        assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == wrap(5)
        assert (await client.call_tool("shout", {"text": "hey"})).structured_content == wrap("HEY")
        assert (await client.call_tool("person", {"name": "Ada"})).structured_content == {"name": "Ada", "age": 42}
        assert (await client.call_tool("add", {"a": "x"})).is_error
        with pytest.raises(MCPError):
            await client.call_tool("nothing", {})
        assert [resource.uri for resource in (await client.list_resources()).resources] == ["text://one"]
        templates = await client.list_resource_templates()
        assert [row.uri_template for row in templates.resource_templates] == ["text://many/{name}"]
        read = (await client.read_resource("text://many/x")).contents[0]
        assert isinstance(read, types.BlobResourceContents)
        with pytest.raises(MCPError):
            await client.read_resource("text://none")
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        assert isinstance(prompt.messages[0].content, types.TextContent)
        completed = await client.complete(types.PromptReference(name="greet"), {"name": "name", "value": "A"})
        assert completed.completion.values == ["Ada", "Alan"]


async def test_it_hears_progress_and_log_messages(transport: str, mode: Mode) -> None:
    steps: list[float] = []
    logged: list[str] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(str(params.data))

    async with connected(transport, mode, logging_callback=log, log_level="warning") as client:
        await client.call_tool("report", progress_callback=progressed)
    assert steps == [1, 2, 3]
    assert logged == ["step 1", "step 2", "step 3"]


async def test_it_answers_every_question_of_a_tool(transport: str, mode: Mode) -> None:
    async def elicited(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        content: dict[str, Any] | None = {"name": "Ada", "age": 36} if params.mode == "form" else None
        return types.ElicitResult(action="accept", content=content)

    async def sampled(context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        said = types.TextContent(type="text", text="hello")
        return types.CreateMessageResult(role="assistant", content=said, model="scripted")

    async def rooted(context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # type: ignore[arg-type]

    callbacks: dict[str, Any] = {
        "elicitation_callback": elicited,
        "sampling_callback": sampled,
        "list_roots_callback": rooted,
    }
    async with connected(transport, mode, **callbacks) as client:
        answer = await client.call_tool("interview")
    assert not answer.is_error, answer
    said = answer.structured_content if mode == "auto" else answer.structured_content["result"]  # type: ignore[index]
    assert said == ["Person(name='Ada', age=36)", "hello", "file:///work", "accept"]


async def test_a_tool_that_needs_what_it_did_not_declare_is_refused(transport: str, mode: Mode) -> None:
    async with connected(transport, mode) as client:
        with pytest.raises(MCPError) as refusal:
            await client.call_tool("interview")
    assert refusal.value.error.code == {"legacy": -32600, "auto": -32021}[mode]


async def test_it_listens_to_changes(transport: str) -> None:
    async with connected(transport, "auto") as client:
        async with client.listen(tools_list_changed=True, resource_subscriptions=["text://one"]) as changes:
            await client.call_tool("grow")
            heard = {type(await anext(changes)) for _ in range(2)}
    assert heard == {ToolsListChanged, ResourceUpdated}


async def test_a_session_hears_of_changes() -> None:
    heard: list[str] = []

    async def take(message: object) -> None:
        heard.append(type(message).__name__)

    async with connected("stdio", "legacy", message_handler=take) as client:
        await client.subscribe_resource("text://one")
        await client.call_tool("grow")
        await client.call_tool("add", {"a": 1, "b": 1})
    assert {"ResourceUpdatedNotification", "ToolListChangedNotification"} <= set(heard)
