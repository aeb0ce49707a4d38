"""A request whose background task fails is answered, and what it held is given back.

No peer is known to make such a task fail, so the tests put the failure where the task waits. The client is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from interlock.config.settings import AgentSettings, ServerSettings
from interlock.hub.calls.dispatch.result_tokens import ResultTokens
from interlock.hub.calls.pipeline.call_approvals import CallApprovals
from interlock.hub.catalog.target import Approval
from interlock.hub.handlers.resource_subscriptions import ResourceSubscriptions
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tool_search.list_budget import ListBudget
from interlock.hub.upstreams.upstream import Upstream

from .raw_server import RawHttpServer
from .running_hub import RawClient, running_hub, text_of, until

OK: dict[str, Any] = {"name": "web__ok", "arguments": {"text": "x"}}
LOGGER = "interlock.hub.calls.background_tasks"


async def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("a bug")


async def stray(*args: object, **kwargs: object) -> None:
    """Waits for something that another part of the hub cancels."""
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    await cancelled


@pytest.mark.parametrize("failure", [broken, stray])
async def test_a_call_that_waits_for_its_connection_is_answered_and_gives_its_place_back(
    tmp_path: Path, failure: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    async with RawHttpServer() as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url)}) as hub:
        client = RawClient(hub.url + "/mcp")
        with patch.object(Upstream, "open_connection", failure):
            pool = hub.hub_app.upstreams["web"].pool
            shared, pool.shared = pool.shared, None
            answer = await client.modern("tools/call", OK)
            pool.shared = shared
        assert answer["error"]["data"]["name"] == "INTERNAL_ERROR"
        assert hub.hub_app.hub.open_calls == 0
        assert hub.hub_app.upstreams["web"].open_calls == 0
        assert [record.name for record in caplog.records if record.exc_info] == [LOGGER]
        assert text_of(await client.modern("tools/call", OK)) == "fine"


@pytest.mark.parametrize("step", ["settle", "take"])
async def test_a_call_whose_approval_fails_is_answered_and_not_made(tmp_path: Path, step: str) -> None:
    agents = {"ci": AgentSettings(ask=("web__ok",))}
    given = Approval("", "a person", "ticket")
    async with (
        RawHttpServer() as web,
        running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, agents=agents) as hub,
    ):
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        with (
            patch.object(CallApprovals, step, broken),
            patch.object(CallApprovals, "existing", lambda *_: given if step == "take" else None),
        ):
            answer = await client.modern("tools/call", OK)
        assert answer["error"]["data"]["name"] == "INTERNAL_ERROR"
        assert hub.hub_app.hub.open_calls == 0
        assert hub.hub_app.hub.pipeline.waiting == 0
        assert web.called == 0


async def test_a_list_that_cannot_be_made_is_answered(tmp_path: Path) -> None:
    async with RawHttpServer() as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url)}) as hub:
        client = RawClient(hub.url + "/mcp")
        with patch.object(ListBudget, "settled", lambda *_: False), patch.object(ListBudget, "settle", broken):
            answer = await client.modern("tools/list")
        assert answer["error"]["data"]["name"] == "INTERNAL_ERROR"
        assert "tools" in (await client.modern("tools/list"))["result"]


async def test_a_stream_that_cannot_be_opened_is_answered_and_forgotten(tmp_path: Path) -> None:
    async with RawHttpServer() as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url)}) as hub:
        wanted = {"notifications": {"toolsListChanged": True}}
        with patch.object(TaskHandler, "watch", broken):
            answer = await RawClient(hub.url + "/mcp").modern("subscriptions/listen", wanted)
        assert answer["error"]["data"]["name"] == "INTERNAL_ERROR"
        assert not hub.hub_app.hub.clients.streams


async def test_a_subscription_that_fails_is_answered(tmp_path: Path) -> None:
    async with RawHttpServer() as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url)}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        with (
            patch.object(ResourceSubscriptions, "add", broken),
            patch.object(
                type(hub.hub_app.hub.pipeline), "reach", lambda *_: type("T", (), {"server": "web", "name": "x:y"})
            ),
        ):
            answer = await client.legacy("resources/subscribe", {"uri": "x:y"})
        assert answer["error"]["code"] == -32603


async def test_a_long_result_that_cannot_be_divided_is_cut_by_bytes_and_flagged(tmp_path: Path) -> None:
    async with RawHttpServer() as web:
        server = ServerSettings(url=web.url, max_result_tokens=1)
        async with running_hub(tmp_path, {"web": server}) as hub:
            with patch.object(ResultTokens, "divide", broken):
                answer = await RawClient(hub.url + "/mcp").modern("tools/call", OK)
            assert "[Cut here" in text_of(answer)
            assert hub.hub_app.hub.open_calls == 0


async def test_a_call_that_waits_when_the_hub_closes_is_answered(tmp_path: Path) -> None:
    async with RawHttpServer() as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url)}) as hub:

        async def waits(*args: object) -> None:
            await asyncio.Event().wait()

        with patch.object(Upstream, "open_connection", waits):
            hub.hub_app.upstreams["web"].pool.shared = None
            call = asyncio.ensure_future(RawClient(hub.url + "/mcp").modern("tools/call", OK))
            await until(lambda: hub.hub_app.hub.open_calls == 1)
            await hub.hub_app.hub.close()
            assert (await call)["error"]["data"]["name"] == "SERVER_DRAINING"
        assert hub.hub_app.hub.open_calls == 0
