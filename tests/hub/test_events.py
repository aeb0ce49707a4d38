"""Every event of a running hub, published when it happens, in order, and to whoever subscribes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from interlock.client import Client
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ServerSettings, TimeoutSettings
from interlock.events import EventFilter, Subscription
from interlock.events.types import (
    EVENTS,
    AgentWoken,
    ApprovalChanged,
    AuditAppended,
    AuditCommitted,
    ConfigurationReloaded,
    Event,
    ListChanged,
    LogWritten,
    PolicyChanged,
    ResourceUpdated,
    ServerStateChanged,
    SessionEnded,
    SessionOpened,
    TaskChanged,
    ToolRequestDecided,
)
from interlock.hub.admin.operations import Operations
from interlock.hub.audit.entries import event_record
from interlock.hub.auth.principals import Principal
from interlock.hub.handlers.notifications import AT_ONCE
from interlock.hub.upstreams.commands import Command, Reason
from interlock.web.control import ControlSocket

from .people import read_and_answer
from .running_hub import RawClient, RunningHub, child, running_hub, until
from .task_server import Jobs, task_server

ADA = Principal("ada", "person")
ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}
E = TypeVar("E", bound=Event)


class Followed:
    """The events of some types that a hub published."""

    def __init__(self, hub: RunningHub, *types: type[Event]) -> None:
        self.subscription: Subscription = hub.hub_app.bus.subscribe(EventFilter.of(*types))
        self.seen: list[Event] = []

    def of(self, kind: type[E]) -> list[E]:
        for each in self.subscription.take():
            assert isinstance(each, Event), "nothing was lost"
            self.seen.append(each)
        return [event for event in self.seen if isinstance(event, kind)]

    async def until(self, kind: type[E], count: int = 1) -> list[E]:
        await until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)


@contextlib.asynccontextmanager
async def hub_of(tmp_path: Path, **agents: AgentSettings) -> AsyncIterator[RunningHub]:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as hub:
        yield hub


async def test_a_servers_states_come_in_the_order_of_its_life(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed = Followed(hub, ServerStateChanged)
        await hub.hub_app.upstreams["busy"].supervisor.command(
            Command("restart", Reason.OPERATOR_REQUEST, ADA, "it hangs")
        )
        await until(lambda: "connected" in [event.after for event in followed.of(ServerStateChanged)])
        events = followed.of(ServerStateChanged)
        assert {event.source for event in events} == {"busy"}
        assert events[0].reason == "operator_request, by ada: it hangs"
        assert all(after.before == before.after for before, after in pairwise(events))
        assert [event.sequence for event in events] == sorted({event.sequence for event in events})


async def test_a_listed_server_and_changed_access_are_list_changes(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed = Followed(hub, ListChanged)
        await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "busy__grow", "arguments": {"name": "fresh"}})
        await until(lambda: "busy" in [event.server for event in followed.of(ListChanged)])
        assert followed.of(ListChanged)[-1].generation == hub.hub_app.catalog.generation
        await hub.allow("a", "busy")
        await until(lambda: "" in [event.server for event in followed.of(ListChanged)])


async def test_an_updated_resource_is_an_event(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed, client = Followed(hub, ResourceUpdated), RawClient(hub.url + "/mcp")
        await client.initialize()
        await client.legacy("resources/subscribe", {"uri": "interlock://busy/text://one"})
        await client.legacy("tools/call", {"name": "busy__touch", "arguments": {}})
        event = (await followed.until(ResourceUpdated))[0]
        assert (event.source, event.uri) == ("busy", "text://one")


async def test_the_audit_logs_entries_are_events_with_their_place_in_the_chain(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed = Followed(hub, AuditAppended, AuditCommitted)
        for _ in range(5):
            await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)
        await hub.hub_app.recorder.flushed()
        entries, commits = followed.of(AuditAppended), followed.of(AuditCommitted)
        numbers = [event.sequence for event in entries]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "complete and in order"
        assert numbers == [n for commit in commits for n in range(commit.first, commit.sequence + 1)]
        assert {event.source for event in (*entries, *commits)} == {hub.hub_app.recorder.chain}
        call = next(event for event in entries if event.name == "echo")
        entry = json.loads(bytes(call.entry))
        assert (call.event, call.server, call.result) == ("TOOL_EXECUTED", "busy", "SUCCESS")
        assert (entry["seq"], entry["trace"]) == (call.sequence, call.trace)


async def test_a_large_batch_of_entries_is_published_in_pieces_in_order(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        subscription = hub.hub_app.bus.subscribe(EventFilter.of(AuditAppended), 10_000)
        for _ in range(3000):
            hub.hub_app.recorder.add(event_record("com.example.x"))
        await hub.hub_app.recorder.flushed()
        numbers: list[int] = []

        def complete() -> bool:
            numbers.extend(event.sequence for event in subscription.take(10_000) if isinstance(event, AuditAppended))
            return len(numbers) >= 3000

        await until(complete)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_an_approvals_life_is_told_with_the_revisions_of_the_store(tmp_path: Path) -> None:
    async with hub_of(tmp_path, careful=AgentSettings(ask=("busy__ec*",))) as hub:
        followed, client = Followed(hub, ApprovalChanged), RawClient(hub.url + "/mcp", hub.key("careful"))
        await client.modern("tools/call", ECHO)
        (opened,) = await followed.until(ApprovalChanged)
        assert (opened.state, opened.asker, opened.target) == ("open", "careful", "busy__echo")
        assert hub.hub_app.inbox.get(opened.id).state.value == "open", "published after the commit"
        await read_and_answer(hub.hub_app.inbox, opened.id, "once", ADA)
        await client.modern("tools/call", ECHO)
        events = await followed.until(ApprovalChanged, 3)
        assert [event.state for event in events] == ["open", "approved", "used"]
        assert len({event.sequence for event in events}) == 3
        assert [event.sequence for event in events] == sorted(event.sequence for event in events)


async def test_log_lines_come_without_secrets_and_only_of_the_source_that_was_asked_for(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        mine = hub.hub_app.bus.subscribe(EventFilter.of(LogWritten, sources=frozenset({"mine"})))
        hub.hub_app.logs.add("other", "stderr", "x")
        hub.hub_app.logs.add("mine", "stderr", "password=hunter2hunter2")
        (event,) = mine.take()
        assert isinstance(event, LogWritten)
        assert (event.source, event.stream) == ("mine", "stderr")
        assert "hunter2" not in event.text


async def test_a_session_is_told_by_a_name_that_does_not_open_it(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed, client = Followed(hub, SessionOpened, SessionEnded), RawClient(hub.url + "/mcp", hub.key("a"))
        await client.initialize()
        assert client.session
        await client.send("DELETE", headers={"mcp-session-id": client.session})
        (opened,), (ended,) = await followed.until(SessionOpened), await followed.until(SessionEnded)
        assert opened.session == ended.session
        assert opened.principal == ended.principal == "a"
        assert client.session not in opened.session
        assert opened.session not in client.session


async def test_a_reload_is_told_with_what_changed(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed = Followed(hub, ConfigurationReloaded)
        await Operations(hub.hub_app, lambda: None).configuration.read_again(ADA)
        (event,) = followed.of(ConfigurationReloaded)
        assert "busy" in event.changed
        assert event.applied


async def test_a_change_of_the_policy_is_told_with_its_version(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        followed, before = Followed(hub, PolicyChanged), hub.hub_app.policy_version.number
        await hub.allow("a", "busy")
        await hub.new_key("ci")
        events = followed.of(PolicyChanged)
        assert [event.collection for event in events] == ["grants", "keys"]
        assert before < events[0].sequence < events[1].sequence == hub.hub_app.policy_version.number


async def test_a_task_is_told_of_by_the_hubs_id_and_without_its_result(tmp_path: Path) -> None:
    jobs = Jobs()
    async with (
        task_server(jobs).http() as address,
        running_hub(tmp_path, {"t": ServerSettings(url=address.url)}) as hub,
    ):
        followed = Followed(hub, TaskChanged)
        async with Client(hub.url + "/mcp", era="modern") as client:
            task = await client.start_tool("t__work", {"mark": "a"})
            await task.watch()
            await client.call_tool("t__release")
            await task.result()
            await until(lambda: "completed" in [event.status for event in followed.of(TaskChanged)])
        events = followed.of(TaskChanged)
        assert {(event.source, event.task) for event in events} == {("t", task.id)}
        assert "a worked" not in str(events)


async def test_a_decided_request_for_tools_names_who_asked(tmp_path: Path) -> None:
    agents = {"asker": AgentSettings(request=("busy__ech*",))}
    servers = {"busy": child("busy_server.py", access="opt-in")}
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0))
    async with running_hub(tmp_path, servers, hub=settings, agents=agents) as hub:
        followed, client = Followed(hub, ToolRequestDecided), RawClient(hub.url + "/mcp", hub.key("asker"))
        need = {"context": "x", "reason": "capability_gap", "requirements": {"capabilities": ["echo text"]}}
        asked = (await client.modern("mgp/tools/request", need))["result"]
        assert asked["status"] == "pending_approval", asked
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        await hub.hub_app.inbox.answer(decision.id, "no", ADA, "terminal")
        (event,) = await followed.until(ToolRequestDecided)
        assert (event.principal, event.kind) == ("asker", "agent")
        assert json.loads(bytes(event.body))["subscription_id"] == asked["request_id"]


async def test_nothing_is_made_while_nobody_listens(tmp_path: Path) -> None:
    """The hub itself follows few types, and none of them is published by a call."""
    async with hub_of(tmp_path) as hub:
        wanted = {kind for kind in EVENTS if hub.hub_app.bus.wants(kind)}
        assert wanted == {
            AgentWoken, ApprovalChanged, ListChanged, ResourceUpdated, ServerStateChanged, TaskChanged,
            ToolRequestDecided,
        }  # fmt: skip


# A terminal that does not read


async def test_a_terminal_that_does_not_read_gets_a_gap_line_and_costs_no_memory(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None))
        path = tmp_path / "control.sock"
        await control.listen(path)
        # The reader stops reading at twice this limit.
        reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 16)
        try:
            for number, (method, params) in enumerate(
                (("interlock/hello", {"role": "control"}), ("hub/logs", {"follow": True, "lines": 1}))
            ):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                writer.write(msgspec.json.encode(message) + b"\n")
                await reader.readline()
            await until(lambda: hub.hub_app.bus.wants(LogWritten))
            for number in range(20_000):
                hub.hub_app.logs.add("noisy", "stderr", f"{number} {'x' * 1000}")
                if number % 100 == 0:
                    await asyncio.sleep(0)
            seen: list[Any] = []
            while not seen or not seen[-1]["params"].get("text", "").startswith("19999 "):
                seen.append(json.loads(await asyncio.wait_for(reader.readline(), 30)))
            gaps = [message["params"] for message in seen if message["method"] == "hub/gap"]
            assert [(gap["event"], gap["source"]) for gap in gaps] == [("LogWritten", "noisy")] * len(gaps)
            assert gaps
            numbers = [int(m["params"]["text"].split()[0]) for m in seen if m["method"] == "hub/log"]
            assert numbers == sorted(numbers)
            kept, in_transport, in_sockets = 1024, (1 << 20) // 1000, 1000
            assert len(numbers) < kept + in_transport + in_sockets, "the hub keeps no more lines for a slow reader"
        finally:
            writer.close()
            await control.close()
        await until(lambda: not hub.hub_app.bus.wants(LogWritten))


async def test_ten_thousand_clients_are_notified_of_a_changed_list_in_small_turns(tmp_path: Path) -> None:
    async with hub_of(tmp_path) as hub:
        scope = hub.hub_app.authenticator.admit_principal(Principal("a", "agent"), "/mcp").list_scope
        in_turn = notified = most = 0

        class CountingClient:
            list_scope = scope

            def list_changed(self, which: str) -> None:
                nonlocal in_turn, notified
                in_turn, notified = in_turn + 1, notified + 1

            def on_tool_request(self, event: bytes) -> None: ...

        for _ in range(10_000):
            hub.hub_app.change_notifier.listen(CountingClient())
        await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "busy__grow", "arguments": {"name": "fresh"}})
        while notified < 10_000:
            in_turn = 0
            await asyncio.sleep(0)
            most = max(most, in_turn)
        assert 0 < most <= 2 * AT_ONCE


async def test_clients_read_again_after_a_gap(tmp_path: Path) -> None:
    """A server that reports more updates than the hub keeps costs its subscribers nothing they cannot read again."""
    async with hub_of(tmp_path) as hub:
        notified: list[str] = []
        notifier = hub.hub_app.change_notifier
        for uri in ("text://one", "text://two"):
            notifier.subscribe("busy", uri, uri, lambda uri=uri: notified.append(uri), None)  # type: ignore[misc]
        bus = hub.hub_app.bus
        bus.publish(ResourceUpdated("busy", bus.next(), 0, "text://one"))
        for _ in range(10_000):
            bus.publish(ResourceUpdated("busy", bus.next(), 0, "text://else"))
        await until(lambda: {"text://one", "text://two"} <= set(notified))
