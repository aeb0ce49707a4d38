"""Tools that agents write: only where the operator allowed it, judged, contained, the creator's alone, and removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from interlock.config.settings import AgentSettings, HubSettings, TimeoutSettings
from interlock.containment.backends import reports
from interlock.events import EventFilter
from interlock.events.types import RegistrationDecided
from interlock.hub.calls.call import Caller
from interlock.hub.tool_search.requested_tools import AwaitedTool
from interlock.hub.tool_search.requests import MAX_WAITING_PER_CALLER, ToolRequests
from interlock.hub.upstreams.registration.registration import REGISTRATIONS
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.hub.upstreams.states import ServerState
from interlock.store import Collection, Document, Store

from .running_hub import RawClient, RunningHub, running_hub, text_of, until
from .test_changes import listening
from .test_journal import entries, only

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        all(report.missing for report in reports()),
        reason=f"no backend serves on this machine: {[report.missing for report in reports()]}",
    ),
]

NEED = {"context": "I need the mean of numbers", "requirements": {"capabilities": ["mean of numbers"]}}
SOURCE = '''from interlock import Server

server = Server("made")


@server.tool
def mean(values: list[float]) -> float:
    """The mean of numbers."""
    return sum(values) / len(values)


if __name__ == "__main__":
    server.run()
'''
AGENTS = {
    "maker": AgentSettings(create_tools="ask"),
    "free": AgentSettings(create_tools="auto_approve"),
    "plain": AgentSettings(),
}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    timeouts = TimeoutSettings(start_s=120, discovery_s=60, tool_s=60)
    async with running_hub(tmp_path, {}, hub=HubSettings(anonymous=False, timeouts=timeouts), agents=AGENTS) as running:
        yield running


def client_of(hub: RunningHub, name: str) -> RawClient:
    return RawClient(f"{hub.url}/mcp", hub.key(name))


async def asked(client: RawClient, **more: Any) -> Any:
    return (await client.modern("mgp/tools/request", NEED | more))["result"]


async def written(client: RawClient, request_id: str, source: str = SOURCE, name: str = "mean") -> Any:
    create = {"request_id": request_id, "name": name, "source": source}
    return await client.modern("mgp/tools/request", NEED | {"create": create})


class LateStore:
    """The store of a node that reads no document before it is let."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = asyncio.Event()

    async def get(self, collection: Collection[Any], key: str) -> Document[Any] | None:
        await self.reads.wait()
        return await self._store.get(collection, key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_t28_a_person_approves_the_tool_its_creator_alone_calls_it_and_it_is_removed(hub: RunningHub) -> None:
    maker, free = client_of(hub, "maker"), client_of(hub, "free")
    app = hub.hub_app
    ours = app.registrations
    other_node, late_node = (
        Registrations(app.inbox, app.access, app.journal, lambda: app.config, app.home) for _ in range(2)
    )
    late_store = LateStore(app.store)
    await other_node.start(app.store, lambda: None)
    await late_node.start(cast(Store, late_store), lambda: None)
    async with listening(maker, **{"dev.cloto/mgp": {"tools": True}}) as stream:
        offered = await asked(maker)
        assert offered["status"] == "creating"
        assert "statistics" in offered["creation"]["code_safety"]["allowed_imports"]
        made = (await written(maker, offered["request_id"]))["result"]
        assert made["status"] == "pending_approval"
        (pending,) = made["tools_pending"]
        assert not list(app.upstreams), "nothing runs before a person has read the source"
        shown = await hub.operate("approvals.show", id=pending["decision"])
        assert SOURCE in shown["view"]
        assert "only maker may call it" in shown["view"]
        await hub.operate(
            "approvals.answer", id=pending["decision"], answer="once", view=shown["view_hash"], terminal=True
        )
        await until(lambda: any(m.get("method") == "notifications/mgp.event" for m in stream.heard))
    told = next(m["params"]["data"] for m in stream.heard if m.get("method") == "notifications/mgp.event")
    assert (told["status"], told["request_id"]) == ("fulfilled", offered["request_id"])
    (loaded,) = told["tools_loaded"]
    assert loaded["inputSchema"]["required"] == ["values"]

    await other_node.sweep()
    await other_node.close()
    granted = await entries(hub, event="ACCESS_GRANTED")
    assert len(granted) == 1, "two nodes act on one answer, and one of them grants"
    (upstream,) = app.upstreams
    settings = upstream.settings
    assert (settings.isolation, settings.access, settings.trust) == ("sandbox", "opt-in", "sandboxed")
    assert settings.sandbox.hosts == settings.sandbox.write == ()
    call = {"name": pending["tool"], "arguments": {"values": [1, 3]}}
    assert text_of(await maker.modern("tools/call", call)) == "2.0"
    assert "error" in await free.modern("tools/call", call), "the grant is the creator's"
    assert (await asked(maker))["status"] == "fulfilled", "the same request again finds the tool"

    (registration,) = app.registrations.list()
    ended = msgspec.structs.replace(registration, expires=datetime.now(UTC) - timedelta(seconds=1))
    async with app.store.transaction() as change:
        change.put(REGISTRATIONS, ended)
    await until(lambda: app.registrations.list() in ([ended], []))  # the hub's own sweep may be first
    await app.registrations.sweep()
    await until(lambda: not list(app.upstreams) and not app.grants.of_agent("maker"))
    await until(lambda: not list((app.home / "contained").glob("*/code")))
    assert "error" in await maker.modern("tools/call", call)
    with app.bus.subscribe(EventFilter.of(RegistrationDecided)) as decided:
        late_store.reads.set()
        assert isinstance(await anext(aiter(decided)), RegistrationDecided), "the late node has acted on the answer"
    await late_node.close()
    assert not ours.list(), "a late node brings nothing back that was removed"


async def test_an_open_request_outlives_the_hub_and_makes_one_tool(tmp_path: Path) -> None:
    settings = HubSettings(anonymous=False)
    async with running_hub(tmp_path, {}, hub=settings, agents=AGENTS) as hub:
        maker = client_of(hub, "maker")
        request_id = (await asked(maker))["request_id"]
        refused = await written(maker, request_id, "import socket\n\n\ndef mean(): ...\n")
        assert refused["error"]["data"]["name"] == "CODE_SAFETY_VIOLATION"
    async with running_hub(tmp_path, {}, hub=settings, agents=AGENTS) as hub:
        maker = client_of(hub, "maker")
        answers = await asyncio.gather(*(written(maker, request_id) for _ in range(3)))
        made = [answer["result"]["status"] for answer in answers if "result" in answer]
        refusals = [answer["error"]["data"]["name"] for answer in answers if "error" in answer]
        assert (made, refusals) == (["pending_approval"], ["NOT_FOUND"] * 2)
        assert len(hub.hub_app.registrations.list()) == 1


async def test_auto_approve_needs_no_person_and_a_model_corrects_refused_code_through_call_tool(
    hub: RunningHub,
) -> None:
    client = client_of(hub, "free")

    async def request(**more: Any) -> Any:
        inner = {"name": "request_tools", "arguments": NEED | more}
        return (await client.modern("tools/call", {"name": "call_tool", "arguments": inner}))["result"]

    offered = (await request())["structuredContent"]
    assert offered["status"] == "creating"
    create = {"request_id": offered["request_id"], "name": "mean", "source": f"import socket\n{SOURCE}"}
    refused = await request(create=create)
    assert refused["isError"] is True
    assert refused["structuredContent"]["status"] == "rejected"
    assert refused["structuredContent"]["violations"]
    made = (await request(create={**create, "source": SOURCE}))["structuredContent"]
    assert made["status"] == "creating"
    assert not hub.hub_app.inbox.open_count
    await until(lambda: any(each.state is ServerState.CONNECTED for each in hub.hub_app.upstreams))
    (pending,) = made["tools_pending"]
    await until(lambda: hub.hub_app.catalog.offer(pending["tool"].partition("__")[0]) is not None)
    call = {"name": pending["tool"], "arguments": {"values": [2, 4]}}
    assert text_of(await client.modern("tools/call", call)) == "3.0"
    assert (await only(hub, "CODE_REJECTED")).result == "BLOCKED"


async def test_every_created_tool_is_followed_and_none_for_ever() -> None:
    told: list[str] = []
    requested_tools = SimpleNamespace(settle=lambda waiting: not told.append(waiting.name))
    requests = ToolRequests(*[cast(Any, None)] * 6, requested_tools=cast(Any, requested_tools))
    caller = cast(Caller, SimpleNamespace(principal_name="agent:free"))
    for number in range(MAX_WAITING_PER_CALLER + 1):
        requests.wait(AwaitedTool(caller, None, "r", None, f"made-{number}__mean", "", False))
    requests.recheck()
    assert told == [f"made-{number}__mean" for number in range(1, MAX_WAITING_PER_CALLER + 1)]


async def test_t28_nobody_creates_a_tool_without_the_operators_word_or_with_anothers_request(hub: RunningHub) -> None:
    maker, plain, free = (client_of(hub, name) for name in ("maker", "plain", "free"))
    assert (await asked(plain))["status"] == "unavailable"
    offered = (await asked(maker))["request_id"]
    for other in (plain, free):
        assert (await written(other, offered))["error"]["data"]["name"] == "NOT_FOUND"
    assert (await written(maker, "0" * 16))["error"]["data"]["name"] == "NOT_FOUND"
    assert (await written(maker, offered, name="other"))["error"]["data"]["name"] == "INVALID_PARAMS"
    assert (await written(maker, offered, source="eval('1')\n" + SOURCE))["error"]["data"]["rejection"]["violations"]
    assert (hub.hub_app.registrations.list(), hub.hub_app.inbox.open_count) == ([], 0)
    for _ in range(7):
        await written(maker, offered, source="eval('1')\n" + SOURCE)
    assert (await written(maker, offered))["error"]["data"]["name"] == "NOT_FOUND", "attempts are bounded"


async def test_t28_without_isolation_no_tool_is_created(hub: RunningHub, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = [report._replace(missing="is not installed") for report in await asyncio.to_thread(reports)]
    monkeypatch.setattr("interlock.hub.tool_search.creations.reports", lambda: nowhere)
    found = await asked(client_of(hub, "free"))
    assert found["status"] == "unavailable"
    assert "is not installed" in found["note"]
