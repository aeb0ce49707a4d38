"""Every call is in the record: who, what, how it ended, what was refused and why; and the record can be verified."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Literal

import pytest

from interlock.config.settings import AgentSettings, HubSettings, TimeoutSettings
from interlock.hub.audit import search as records
from interlock.hub.audit.head import read_head
from interlock.hub.audit.search import FoundEntry
from interlock.hub.audit.verify import verify
from interlock.store.records import Search

from .running_hub import RawClient, RunningHub, child, running_hub, text_of, until


@pytest.fixture(params=["batched", "strict"])
def mode(request: pytest.FixtureRequest) -> Literal["batched", "strict"]:
    return request.param  # type: ignore[no-any-return]


def hub_of(mode: Literal["batched", "strict"]) -> HubSettings:
    return HubSettings(audit=mode, timeouts=TimeoutSettings(start_s=30, tool_s=20))


async def entries(hub: RunningHub, **wanted: Any) -> list[FoundEntry]:
    await hub.hub_app.recorder.flushed()
    return (await hub.hub_app.store.read(lambda database: records.search(database, Search(**wanted), 1000)))[::-1]


async def test_a_call_is_recorded_with_who_what_and_how_it_ended(
    tmp_path: Path, mode: Literal["batched", "strict"]
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_of(mode)) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("cursor"))
        trace = "0af7651916cd43dd8448eb211c80319c"
        meta = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        call = {"name": "busy__echo", "arguments": {"text": "a"}, "_meta": meta}
        assert text_of(await client.modern("tools/call", call)) == "a"
        await client.modern("resources/read", {"uri": "interlock://busy/text://one"})
        found = await entries(hub, actor="cursor")
        ended = [entry for entry in found if entry.record.outcome is not None]
        assert [(e.record.event, e.record.server, e.record.name, e.result) for e in ended] == [
            ("TOOL_EXECUTED", "busy", "echo", "SUCCESS"),
            ("dev.interlock.resource_read", "busy", "text://one", "SUCCESS"),
        ]
        assert ended[0].record.trace == trace
        assert ended[0].record.duration_us is not None


async def test_refusals_errors_and_cancellations_are_told_apart(tmp_path: Path) -> None:
    agents = {"careful": AgentSettings(ask=("busy__add",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, agents=agents, hub=hub_of("batched")) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": 5}})
        await client.modern("tools/call", {"name": "nobody__echo", "arguments": {}})
        await client.modern("tools/call", {"name": "busy__die", "arguments": {}})
        blocked = await entries(hub, result="BLOCKED")
        assert [(entry.record.gate, entry.record.name) for entry in blocked] == [
            ("schema", "echo"),
            ("resolve", "nobody__echo"),
        ]
        assert "text" in blocked[0].record.reason
        (died,) = [entry for entry in await entries(hub, name="die") if entry.record.outcome is not None]
        assert died.record.outcome is not None
        assert died.record.outcome.transport == "lost"


async def test_a_cancelled_call_is_recorded_as_cancelled(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_of("batched")) as hub:
        client = RawClient(hub.url + "/mcp")
        call = {"name": "busy__hang", "arguments": {"mark": "x"}}
        hanging = asyncio.ensure_future(client.modern("tools/call", call))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        hanging.cancel()
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        ended = [entry for entry in await entries(hub, name="hang") if entry.record.outcome is not None]
        assert [entry.record.outcome.transport for entry in ended] == ["cancelled"]  # type: ignore[union-attr]


async def test_secrets_stay_out_of_the_record(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_of("batched")) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.modern("tools/call", {"name": "busy__add", "arguments": {"a": secret}})
        await client.modern("tools/call", {"name": secret, "arguments": {}})
        await hub.hub_app.recorder.flushed()
        exported = await hub.hub_app.store.read(lambda database: b"".join(records.export(database)))
        assert secret.encode() not in exported


async def test_the_record_goes_on_after_a_restart_and_verifies(
    tmp_path: Path, mode: Literal["batched", "strict"]
) -> None:
    for turn in range(2):
        async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_of(mode)) as hub:
            client = RawClient(hub.url + "/mcp")
            await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": str(turn)}})
            await hub.hub_app.recorder.flushed()
            head = read_head(hub.hub_app.home / "audit.head")
            assert head is not None
            report = await hub.hub_app.store.read(lambda database, head=head: verify(database, {"hub": head}))
            assert report.sound
            executed = [entry for entry in await entries(hub, name="echo") if entry.record.outcome is not None]
            assert len(executed) == turn + 1


async def test_no_call_is_made_while_it_cannot_be_recorded(tmp_path: Path, mode: Literal["batched", "strict"]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(
            running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_of(mode))
        )
        client = RawClient(hub.url + "/mcp")
        from interlock.store import StoreFull

        await hub.hub_app.recorder.flushed()
        hub.hub_app.recorder.write_error = StoreFull("the disk is full", "make room")
        answer = await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "a"}})
        assert answer["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
        assert hub.hub_app.hub.open_calls == 0
        hub.hub_app.recorder.write_error = None
        assert text_of(await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": "a"}})) == "a"
