"""The four pairs of eras, with the official SDK's client at one end of the hub and its server at the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

import forking
from interlock.config.home import socket_path
from interlock.config.settings import ServerSettings
from interlock.hub.admin.operations import Operations
from interlock.web.control import ControlSocket

from .pairs import FEATURES, PAIRS, TRANSPORTS, Era, Transport, documented
from .running_hub import HERE, SOURCE, RunningHub, running_hub, until

NOTE = "interlock://o/note://one"


class OfficialClient:
    """The official client, and what it was asked and told."""

    def __init__(self, hub: RunningHub, era: Era, transport: Transport) -> None:
        self.hub = hub
        self.era = era
        self.transport = transport
        self.asked: list[Any] = []
        self.logged: list[Any] = []
        self.told: list[str] = []
        self.updated: list[str] = []

    @contextlib.asynccontextmanager
    async def connected(self, **more: Any) -> AsyncIterator[Client]:
        """On the hub, in its era, with everything it can answer."""
        async with Client(
            self.hub.url + "/mcp" if self.transport == "http" else over_stdio(self.hub),
            mode="legacy" if self.era == "old" else "2026-07-28",
            elicitation_callback=self._elicited,
            sampling_callback=self._sampled,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            list_roots_callback=self._rooted,
            logging_callback=self._log,
            message_handler=self._message,
            **more,
        ) as client:
            yield client

    async def call(self, client: Client, name: str, **arguments: Any) -> str:
        """A tool's text."""
        result = await client.call_tool(f"o__{name}", arguments)
        assert isinstance(result.content[0], types.TextContent)
        assert not result.is_error, result.content[0].text
        return result.content[0].text

    async def _elicited(self, context: object, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return types.ElicitResult(action="accept", content={"name": "ada"} if params.mode == "form" else None)

    async def _sampled(self, context: object, params: Any) -> types.CreateMessageResult:
        self.asked.append(params)
        said = types.TextContent(type="text", text="hello")
        return types.CreateMessageResult(role="assistant", content=said, model="scripted")

    async def _rooted(self, context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # type: ignore[arg-type]

    async def _log(self, params: Any) -> None:
        self.logged.append(params.data)

    async def _message(self, message: object) -> None:
        self.told.append(type(message).__name__)
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))


def over_stdio(hub: RunningHub) -> StdioServerParameters:
    """The command of a client that speaks with the hub over standard streams."""
    variables = {"PYTHONPATH": str(SOURCE), "INTERLOCK_HOME": str(hub.hub_app.home)}
    program, *arguments = forking.command("-m", "interlock.cli", "stdio")
    return StdioServerParameters(command=program, args=arguments, env=variables)


async def sampling(official_client: OfficialClient) -> None:
    async with official_client.connected() as client:
        assert await official_client.call(client, "think") == "hello"
    (params,) = official_client.asked
    assert (params.max_tokens, params.include_context, params.temperature) == (7, "none", 0.5)
    assert params.model_preferences.hints[0].name == "claude"
    assert params.model_preferences.cost_priority == 0.2
    assert [tool.name for tool in params.tools] == ["look"]
    assert params.tool_choice.mode == "auto"


async def form(official_client: OfficialClient) -> None:
    async with official_client.connected() as client:
        assert await official_client.call(client, "order") == "accept name='ada' size='M' count=2"
    schema = official_client.asked[-1].requested_schema
    assert schema["properties"]["size"]["enum"] == ["S", "M", "L"]
    assert schema["properties"]["size"]["default"] == "M"
    assert schema["properties"]["count"]["default"] == 2


async def visit(official_client: OfficialClient) -> None:
    async with official_client.connected() as client:
        assert await official_client.call(client, "visit") == "accept"
    assert official_client.asked[-1].url == "https://example.org/login"


async def roots(official_client: OfficialClient) -> None:
    async with official_client.connected() as client:
        assert await official_client.call(client, "places") in ("file:///work", "file:///work/")


async def progress(official_client: OfficialClient) -> None:
    heard: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with official_client.connected() as client:
        await client.call_tool("o__steps", {}, progress_callback=progressed)
    assert heard == [1, 2, 3]


async def logging(official_client: OfficialClient) -> None:
    async with official_client.connected(log_level="info") as client:
        if official_client.era == "old":
            await client.set_logging_level("info")
        assert await official_client.call(client, "speak") == "spoke"
        await until(lambda: official_client.logged)
    assert official_client.logged == ["spoken"]


async def changes(official_client: OfficialClient) -> None:
    name = f"fresh_{official_client.era}"
    async with official_client.connected() as client:
        if official_client.era == "new":
            async with client.listen(tools_list_changed=True) as heard:
                await grown(official_client, name)
                assert isinstance(await asyncio.wait_for(anext(heard), 120), ToolsListChanged)
        else:
            await client.list_tools()
            await grown(official_client, name)
            await until(lambda: "ToolListChangedNotification" in official_client.told)
        listed = {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        assert f"o__{name}" in listed


async def updates(official_client: OfficialClient) -> None:
    async with official_client.connected() as client:
        if official_client.era == "new":
            async with client.listen(resource_subscriptions=[NOTE]) as heard:
                assert list(heard.honored.resource_subscriptions or ()) == [NOTE]
                for touch in (touched(official_client), official_client.call(client, "touch")):
                    await touch
                    event = await asyncio.wait_for(anext(heard), 120)
                    assert isinstance(event, ResourceUpdated)
                    assert event.uri == NOTE
        else:
            await client.subscribe_resource(NOTE)
            for times, change in enumerate((touched(official_client), official_client.call(client, "touch")), start=1):
                await change
                await until(lambda times=times: official_client.updated.count(NOTE) >= times)  # type: ignore[misc]
            await client.unsubscribe_resource(NOTE)


async def touched(official_client: OfficialClient) -> None:
    """Have somebody else change the note."""
    async with Client(official_client.hub.url + "/mcp", mode="2026-07-28") as other:
        await other.call_tool("o__touch", {})


async def grown(official_client: OfficialClient, name: str) -> None:
    """Have somebody without a session of their own change the server's list."""
    async with Client(official_client.hub.url + "/mcp", mode="2026-07-28") as other:
        await other.call_tool("o__grow", {"name": name})


async def cancellation(official_client: OfficialClient) -> None:
    async with official_client.connected() as client:

        async def listed(where: str) -> bool:
            return official_client.era in json.loads(await official_client.call(client, "ended"))[where]

        task = asyncio.create_task(client.call_tool("o__hang", {"mark": official_client.era}))
        await until(lambda: listed("begun"))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await until(lambda: listed("cancelled"))


CHECKS: dict[str, Callable[[OfficialClient], Awaitable[None]]] = {
    "sampling": sampling,
    "form": form,
    "visit": visit,
    "roots": roots,
    "progress": progress,
    "logging": logging,
    "changes": changes,
    "updates": updates,
    "cancellation": cancellation,
}


@contextlib.asynccontextmanager
async def official(era: Era, transport: Transport) -> AsyncIterator[ServerSettings]:
    """The official server, in one era over one transport."""
    pin: Any = "legacy" if era == "old" else "modern"
    command = forking.command(str(HERE / "official_server.py"))
    if transport == "stdio":
        yield ServerSettings(command=command, era=pin)
        return
    process = await asyncio.create_subprocess_exec(*command, "http", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield ServerSettings(url=f"http://127.0.0.1:{port}/mcp", era=pin)
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def socket_of(hub: RunningHub) -> AsyncIterator[None]:
    """The hub's control socket, which `interlock stdio` goes to."""
    path = socket_path(hub.hub_app.home)
    path.parent.mkdir(parents=True, exist_ok=True)
    control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None))
    await control.listen(path)
    try:
        yield
    finally:
        await control.close()


def test_every_feature_has_its_check() -> None:
    assert list(CHECKS) == list(FEATURES)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_what_the_documentation_says_is_so(client: Era, server: Era, transport: Transport) -> None:
    failed = await failures(client, server, transport)
    assert FEATURES.keys() - failed.keys() == documented()[client, server, transport], failed


async def failures(client: Era, server: Era, transport: Transport) -> dict[str, str]:
    """The features that fail between the two over one transport, and how they fail."""
    warnings.simplefilter("ignore")
    failed: dict[str, str] = {}
    # A socket's address has little room, and a test's own folder a long name.
    with tempfile.TemporaryDirectory(prefix="il") as home:
        async with (
            official(server, transport) as upstream,
            running_hub(Path(home), {"o": upstream}) as hub,
            socket_of(hub),
        ):
            await judge(hub, client, transport, failed)
            assert hub.hub_app.hub.open_calls == 0
    return failed


async def judge(hub: RunningHub, client: Era, transport: Transport, failed: dict[str, str]) -> None:
    """Every feature once; what fails, and how, goes into `failed`."""
    for feature, check in CHECKS.items():
        try:
            async with asyncio.timeout(120):
                await check(OfficialClient(hub, client, transport))
        except (Exception, asyncio.CancelledError) as cause:
            failed[feature] = repr(cause)[:300]
