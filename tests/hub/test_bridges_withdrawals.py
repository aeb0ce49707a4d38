"""The hub passes on a withdrawal as it was sent, both ways: its reason and its `_meta`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from .legacy_client import LegacyClient
from .running_hub import child, running_hub, text_of, until
from .test_bridges_questions import ALL, Answerer, asks, instructed_hub, listen, steps, tells

META = {"com.example/why": {"code": 7}, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
SAID: list[dict[str, Any]] = [{"reason": "never mind", "_meta": META}, {"_meta": META}, {"reason": "never mind"}, {}]


async def cancel(client: LegacyClient, said: dict[str, Any]) -> None:
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, **said}}
    assert (await client.post(json.dumps(notice).encode()))[0] == 202


def without_id(params: Any) -> Any:
    return {name: value for name, value in params.items() if name != "requestId"}


@pytest.mark.parametrize("said", SAID)
async def test_a_server_is_told_what_its_client_said_in_cancelling(tmp_path: Path, said: dict[str, Any]) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        client = LegacyClient(hub.url + "/mcp", {})
        await client.initialize(ALL)
        call = asyncio.ensure_future(client.call("a__do", steps({"until": "notifications/cancelled"})))
        await until(lambda: bool(instructed.asked("tools/call")))
        await cancel(client, said)
        await until(lambda: bool(instructed.asked("notifications/cancelled")))
        call.cancel()
        assert [without_id(params) for params in instructed.asked("notifications/cancelled")] == [said]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("said", SAID)
async def test_so_is_a_server_on_standard_streams(tmp_path: Path, era: Any, said: dict[str, Any]) -> None:
    async with running_hub(tmp_path, {"a": child("noting_server.py", era=era)}) as hub:
        client = LegacyClient(hub.url + "/mcp", {})
        await client.initialize({})
        call = asyncio.ensure_future(client.call("a__wait", {}))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        await asyncio.wait_for(started(client), 120)
        await cancel(client, said)
        heard = json.loads(
            text_of(await LegacyClient.request(client, "tools/call", {"name": "a__heard", "arguments": {}}, 2))
        )
        call.cancel()
        assert [without_id(params) for params in heard] == [said]


async def started(client: LegacyClient) -> None:
    """Until the server has a call that waits."""
    params = {"name": "a__begun", "arguments": {}}
    while text_of(await client.request("tools/call", params, 3)) != "1":
        pass


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("said", SAID)
async def test_a_client_is_told_what_its_server_said_in_withdrawing_a_question(
    tmp_path: Path, said: dict[str, Any], beside: bool
) -> None:
    async with instructed_hub(tmp_path) as (hub, _):
        client = Answerer(hub.url + "/mcp", lambda asked: {"roots": []} if asked["method"] == "roots/list" else None)
        await client.initialize(ALL)
        withdrawn = tells("notifications/cancelled", {"requestId": "q", **said}, beside=beside)
        roots = (asks(1, "roots/list", {}), {"wait": 1})
        read = (asks("p", "ping", {}, beside=beside), {"wait": "p"})
        await client.call("a__do", steps(asks("q", beside=beside), withdrawn, *read, *roots))
        assert [without_id(params) for params in client.told("notifications/cancelled")] == [said]


@pytest.mark.parametrize("said", SAID)
async def test_so_is_a_client_that_was_asked_in_no_call(tmp_path: Path, said: dict[str, Any]) -> None:
    async with running_hub(tmp_path, {"a": child("instructed_server.py", era="legacy")}) as hub:
        client = Answerer(hub.url + "/mcp", lambda asked: None)
        await client.initialize(ALL)
        heard: list[Any] = []
        listening = asyncio.ensure_future(listen(client, heard))
        withdrawn = tells("notifications/cancelled", {"requestId": 1, **said})
        await client.call("a__do", {"steps": [], "afterwards": [asks(1, "roots/list", {}), withdrawn]})
        await until(lambda: len(heard) == 2)
        listening.cancel()
        assert without_id(heard[1]["params"]) == said
