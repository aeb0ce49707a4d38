"""A server of the library and the hub as its host: declared, enabled, pushed, switched off, over both transports."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import ServerSettings as Settings
from interlock.server import Server
from interlock.signatures import DefinitionError

from .pushing_server import server as pushing
from .running_hub import RunningHub, child, running_hub, until
from .test_live_clients import client, texts, use


@contextlib.asynccontextmanager
async def hub_with(transport: str, era: Any, folder: Path) -> AsyncIterator[RunningHub]:
    async with contextlib.AsyncExitStack() as stack:
        settings = child("pushing_server.py", era=era)
        if transport == "http":
            address = await stack.enter_async_context(pushing.http())
            settings = Settings(url=address.url, era=era)
        yield await stack.enter_async_context(running_hub(folder, {"s": settings}))


async def say(hub: RunningHub, tool: str, **arguments: Any) -> Any:
    return json.loads(texts(await use(client(hub, "driver"), f"s__{tool}", **arguments))[0])


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_of_the_library_pushes_what_its_host_enabled(tmp_path: Path, transport: str, era: str) -> None:
    async with hub_with(transport, era, tmp_path) as hub:
        assert await say(hub, "build", number=1) == [], "nobody enabled it, so nothing is sent"
        rows = {row["feature"]: row["on"] for row in (await hub.operate("features.list"))["features"]}
        assert rows.items() >= {"builds.finished": False, "builds.started": False}.items()
        enable = {"server": "s", "features": ["builds.finished"], "agent": "mine"}
        await hub.operate("features.enable", terminal=True, **enable)
        assert await say(hub, "build", number=2) == [{"accepted": True}]
        assert await say(hub, "build", number=2) == [{"accepted": True}], "again"
        assert await say(hub, "build", number=3, feature="builds.started") == []
        (said,) = texts(await use(client(hub, "mine"), "read_events"))
        assert "Build 2 is done." in said
        assert await say(hub, "late")
        live = hub.hub_app.live.connections.shared("s")
        assert live is not None
        await until(lambda: "builds.late" in live.state.offer.feature_sets)
        await say(hub, "less")
        await until(lambda: "builds.late" not in live.state.offer.feature_sets)
        await hub.operate("features.disable", **enable)
        assert await say(hub, "build", number=4) == []
        assert (await say(hub, "seen"))[-2:] == [["builds.finished"], []]


def test_a_feature_set_that_no_host_could_enable_is_refused_where_it_is_declared() -> None:
    server = Server("s")
    with pytest.raises(DefinitionError, match="invalid_uses"):
        server.feature("a", "A", uses=["telepathy"])
    with pytest.raises(DefinitionError, match="invalid_name"):
        server.feature("a b", "A")
