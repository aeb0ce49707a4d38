"""The four pairs of eras, with the official SDK's client at one end of the hub and its server at the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from mcp.client.subscriptions import ToolsListChanged

from interlock.config.settings import Server

from .house import HERE, House, house, until
from .pairs import FEATURES, MISSING, PAGE, PAIRS, PART, TRANSPORTS, Era, Transport, table


class Guest:
    """The official client, and what it was asked and told."""

    def __init__(self, hub: House, era: Era) -> None:
        self.hub = hub
        self.era = era
        self.asked: list[Any] = []
        self.logged: list[Any] = []
        self.told: list[str] = []

    @contextlib.asynccontextmanager
    async def connected(self, **more: Any) -> AsyncIterator[Client]:
        """On the hub, in its era, with everything it can answer."""
        async with Client(
            self.hub.url + "/mcp",
            mode="legacy" if self.era == "old" else "2026-07-28",
            elicitation_callback=self._elicited,
            sampling_callback=self._sampled,
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


async def sampling(guest: Guest) -> None:
    async with guest.connected() as client:
        assert await guest.call(client, "think") == "hello"
    (params,) = guest.asked
    assert (params.max_tokens, params.include_context, params.temperature) == (7, "none", 0.5)
    assert params.model_preferences.hints[0].name == "claude"


async def form(guest: Guest) -> None:
    async with guest.connected() as client:
        assert await guest.call(client, "order") == "accept name='ada' size='M' count=2"
    schema = guest.asked[-1].requested_schema
    assert schema["properties"]["size"]["enum"] == ["S", "M", "L"]
    assert schema["properties"]["size"]["default"] == "M"
    assert schema["properties"]["count"]["default"] == 2


async def visit(guest: Guest) -> None:
    async with guest.connected() as client:
        assert await guest.call(client, "visit") == "accept"
    assert guest.asked[-1].url == "https://example.org/login"


async def roots(guest: Guest) -> None:
    async with guest.connected() as client:
        assert await guest.call(client, "places") in ("file:///work", "file:///work/")


async def progress(guest: Guest) -> None:
    heard: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with guest.connected() as client:
        await client.call_tool("o__steps", {}, progress_callback=progressed)
    assert heard == [1, 2, 3]


async def logging(guest: Guest) -> None:
    async with guest.connected(log_level="info") as client:
        if guest.era == "old":
            await client.set_logging_level("info")
        assert await guest.call(client, "speak") == "spoke"
        await until(lambda: bool(guest.logged), 5)
    assert guest.logged == ["spoken"]


async def changes(guest: Guest) -> None:
    name = f"fresh_{guest.era}"
    async with guest.connected() as client:
        if guest.era == "new":
            async with client.listen(tools_list_changed=True) as heard:
                await grown(guest, name)
                assert isinstance(await asyncio.wait_for(anext(heard), 10), ToolsListChanged)
        else:
            await client.list_tools()
            await grown(guest, name)
            await until(lambda: "ToolListChangedNotification" in guest.told, 10)
        listed = {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
        assert f"o__{name}" in listed


async def grown(guest: Guest, name: str) -> None:
    """Have somebody without a session of their own change the server's list."""
    async with Client(guest.hub.url + "/mcp", mode="2026-07-28") as other:
        await other.call_tool("o__grow", {"name": name})


async def cancellation(guest: Guest) -> None:
    async with guest.connected() as client:

        async def listed(where: str) -> None:
            while guest.era not in json.loads(await guest.call(client, "ended"))[where]:
                await asyncio.sleep(0.02)

        task = asyncio.create_task(client.call_tool("o__hang", {"mark": guest.era}))
        await asyncio.wait_for(listed("begun"), 10)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.wait_for(listed("cancelled"), 10)


CHECKS: dict[str, Callable[[Guest], Awaitable[None]]] = {
    "sampling": sampling,
    "form": form,
    "visit": visit,
    "roots": roots,
    "progress": progress,
    "logging": logging,
    "changes": changes,
    "cancellation": cancellation,
}


@contextlib.asynccontextmanager
async def official(era: Era, transport: Transport) -> AsyncIterator[Server]:
    """The official server, in one era over one transport."""
    pin: Any = "legacy" if era == "old" else "modern"
    command = (sys.executable, str(HERE / "official_server.py"))
    if transport == "stdio":
        yield Server(command=command, era=pin)
        return
    process = await asyncio.create_subprocess_exec(*command, "http", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield Server(url=f"http://127.0.0.1:{port}/mcp", era=pin)
    finally:
        process.terminate()
        await process.wait()


def test_every_feature_has_its_check() -> None:
    assert list(CHECKS) == list(FEATURES)


def test_the_table_in_the_documentation_is_this_one() -> None:
    found = PART.search(PAGE.read_text())
    assert found is not None
    assert found[0] == f"<!-- pairs -->\n{table()}\n<!-- /pairs -->", "run `python tests/hub/pairs.py`"


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_what_the_table_says_is_so(tmp_path: Path, client: Era, server: Era, transport: Transport) -> None:
    warnings.simplefilter("ignore")
    failed: dict[str, str] = {}
    async with official(server, transport) as upstream, house(tmp_path, {"o": upstream}) as hub:
        for feature, check in CHECKS.items():
            try:
                async with asyncio.timeout(30):
                    await check(Guest(hub, client))
            except (Exception, asyncio.CancelledError) as cause:
                failed[feature] = repr(cause)[:300]
        assert failed.keys() == MISSING.get((client, server, transport), frozenset()), failed
        assert hub.assembly.hub.open_calls == 0
