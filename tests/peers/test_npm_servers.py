"""npm's reference servers behind the hub, called by the official SDK's client."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp import MCPError, types

from .peer_hub import Mode, PeerHub, Transport, text_of

pytestmark = pytest.mark.slow


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["http", "stdio"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param  # type: ignore[no-any-return]


async def test_everything_answers_tools_resources_prompts_and_completion(
    peer_hub: PeerHub, transport: Transport, mode: Mode
) -> None:
    async with peer_hub.client(transport, mode, "everything") as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"} <= tools
        assert text_of(await client.call_tool("echo", {"message": "grüß"})) == "Echo: grüß"
        assert "42" in text_of(await client.call_tool("get-sum", {"a": 40, "b": 2}))
        weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
        assert set(weather.structured_content or {}) == {"temperature", "conditions", "humidity"}
        image = await client.call_tool("get-tiny-image", {})
        assert any(isinstance(block, types.ImageContent) for block in image.content)
        resources = (await client.list_resources()).resources
        read = (await client.read_resource(resources[0].uri)).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert len(read.text) > 100
        templates = {row.uri_template for row in (await client.list_resource_templates()).resource_templates}
        assert "demo://resource/dynamic/text/{resourceId}" in templates
        dynamic = (await client.read_resource("demo://resource/dynamic/text/7")).contents[0]
        assert isinstance(dynamic, types.TextResourceContents)
        assert "7" in dynamic.text
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert {"simple-prompt", "args-prompt", "completable-prompt"} <= prompts
        prompt = await client.get_prompt("args-prompt", {"city": "Oslo"})
        assert isinstance(prompt.messages[0].content, types.TextContent)
        assert "Oslo" in prompt.messages[0].content.text
        reference = types.PromptReference(name="completable-prompt")
        completed = await client.complete(reference, {"name": "department", "value": "E"})
        assert completed.completion.values == ["Engineering"]


async def test_links_to_resources_lead_back_through_the_hub(
    peer_hub: PeerHub, transport: Transport, mode: Mode
) -> None:
    async with peer_hub.client(transport, mode) as client:
        answer = await client.call_tool("everything__get-resource-links", {"count": 2})
        links = [block for block in answer.content if isinstance(block, types.ResourceLink)]
        assert len(links) == 2
        for link in links:
            assert link.uri.startswith("interlock://everything/")
            assert (await client.read_resource(link.uri)).contents[0].uri == link.uri


async def test_progress_of_a_long_operation_comes_through(peer_hub: PeerHub, transport: Transport, mode: Mode) -> None:
    steps: list[tuple[float, float | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async with peer_hub.client(transport, mode, "everything") as client:
        arguments = {"duration": 0.2, "steps": 4}
        await client.call_tool("trigger-long-running-operation", arguments, progress_callback=progressed)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def test_a_long_operation_that_is_given_up_holds_nobody_else(
    peer_hub: PeerHub, transport: Transport, mode: Mode
) -> None:
    begun = anyio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with peer_hub.client(transport, mode, "everything") as client:
        async with anyio.create_task_group() as tasks:

            async def operate() -> None:
                arguments = {"duration": 300, "steps": 3000}
                await client.call_tool("trigger-long-running-operation", arguments, progress_callback=progressed)

            tasks.start_soon(operate)
            with anyio.fail_after(120):
                await begun.wait()
            tasks.cancel_scope.cancel()
        assert text_of(await client.call_tool("echo", {"message": "on"})) == "Echo: on"


async def test_wrong_arguments_are_refused_with_a_reason(peer_hub: PeerHub, transport: Transport, mode: Mode) -> None:
    async with peer_hub.client(transport, mode, "everything") as client:
        answer = await client.call_tool("get-sum", {"a": "forty", "b": 2})
        assert answer.is_error
        assert "a" in json.dumps(answer.model_dump(mode="json"))


async def test_a_file_that_is_written_is_on_the_disk(peer_hub: PeerHub, transport: Transport, mode: Mode) -> None:
    folder = peer_hub.files / f"{transport}-{mode}"
    file = folder / "poem.txt"
    async with peer_hub.client(transport, mode, "filesystem") as client:
        await client.call_tool("create_directory", {"path": str(folder)})
        await client.call_tool("write_file", {"path": str(file), "content": "ein Gedicht\n"})
        assert file.read_text() == "ein Gedicht\n"
        edit = [{"oldText": "Gedicht", "newText": "Lied"}]
        await client.call_tool("edit_file", {"path": str(file), "edits": edit})
        assert file.read_text() == "ein Lied\n"
        read = await client.call_tool("read_text_file", {"path": str(file)})
        assert read.structured_content == {"content": "ein Lied\n"}
        assert "poem.txt" in text_of(await client.call_tool("list_directory", {"path": str(folder)}))
        outside = await client.call_tool("read_text_file", {"path": "/etc/hostname"})
        assert outside.is_error


async def test_a_file_of_a_megabyte_comes_back_as_it_went(peer_hub: PeerHub, transport: Transport, mode: Mode) -> None:
    file = peer_hub.files / f"large-{transport}-{mode}.txt"
    text = "0123456789abcdeé\n" * 60_000
    async with peer_hub.client(transport, mode, "filesystem") as client:
        await client.call_tool("write_file", {"path": str(file), "content": text})
        read = await client.call_tool("read_text_file", {"path": str(file)})
    assert file.read_text() == text
    assert read.structured_content == {"content": text}


async def test_the_knowledge_graph_is_kept_across_calls_and_clients(
    peer_hub: PeerHub, transport: Transport, mode: Mode
) -> None:
    ada, engine = f"Ada {transport} {mode}", f"Engine {transport} {mode}"
    async with peer_hub.client(transport, mode, "memory") as client:
        entities = [
            {"name": ada, "entityType": "person", "observations": ["wrote the first program"]},
            {"name": engine, "entityType": "machine", "observations": []},
        ]
        await client.call_tool("create_entities", {"entities": entities})
        relation = {"from": ada, "to": engine, "relationType": "programmed"}
        await client.call_tool("create_relations", {"relations": [relation]})
    async with peer_hub.client(transport, mode, "memory") as client:
        found = await client.call_tool("open_nodes", {"names": [ada, engine]})
        assert found.structured_content is not None
        assert {entity["name"] for entity in found.structured_content["entities"]} == {ada, engine}
        assert relation in found.structured_content["relations"]
        seen = {"entityName": ada, "contents": ["knew Babbage"]}
        await client.call_tool("add_observations", {"observations": [seen]})
        again = await client.call_tool("search_nodes", {"query": "Babbage"})
        assert ada in json.dumps(again.structured_content)
    assert "knew Babbage" in peer_hub.memory.read_text()


async def test_a_prompt_that_nobody_has_is_an_error(peer_hub: PeerHub, transport: Transport, mode: Mode) -> None:
    async with peer_hub.client(transport, mode, "filesystem") as client:
        with pytest.raises(MCPError):
            await client.get_prompt("anything", {})


async def test_the_filesystem_server_learns_the_folders_of_its_client(peer_hub: PeerHub, transport: Transport) -> None:
    """It asks for roots right after it was started, which the first call does: that call must not be their end."""
    folder = peer_hub.files / f"root-{transport}"
    folder.mkdir(exist_ok=True)

    async def rooted(context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=folder.as_uri())])  # type: ignore[arg-type]

    async with peer_hub.client(transport, "legacy", "filesystem", list_roots_callback=rooted) as client:
        with anyio.fail_after(120):
            while str(folder) not in text_of(await client.call_tool("list_allowed_directories", {})):
                await anyio.sleep(0.05)
