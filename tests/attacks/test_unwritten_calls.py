"""T34: the hub makes no calls while it cannot record them, and `/readyz` says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from hub.instructed_server import InstructedServer
from hub.legacy_client import LegacyClient, answers
from hub.people import read_and_answer
from hub.running_hub import RawClient, RunningHub, child, running_hub
from hub.test_bridges_questions import ALL, FORM
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    RequestSettings,
    ServerSettings,
    TimeoutSettings,
)
from interlock.hub.audit import write_failures
from interlock.hub.audit.record import NOT_SENT, Record
from interlock.hub.audit.search import search
from interlock.hub.auth.grants import GRANTS, Grant, grant_id
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.commit_waits import CommitWaits
from interlock.hub.calls.dispatch.forwarder import Forwarder
from interlock.hub.calls.plan import Plan
from interlock.store import sqlite as sqlite_module
from interlock.store.documents import Change
from interlock.store.records import Search
from waiting import until

pytestmark = pytest.mark.anyio

ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}
WITHIN_S = 60.0


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    """A database that another program writes to and does not let go."""
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def call(hub: RunningHub, key: str | None = None) -> Any:
    return await RawClient(hub.url + "/mcp", key).modern("tools/call", ECHO)


async def waiting_for_its_commit(hub: RunningHub, key: str | None = None) -> asyncio.Task[Any]:
    """A call that waits for the commit of its intent, since the database is locked."""
    recorder = hub.hub_app.recorder
    async with asyncio.timeout(WITHIN_S):
        while True:
            held = asyncio.create_task(call(hub, key))
            await until(lambda done=held.done: done() or bool(recorder.strict_calls))
            if not held.done():
                return held


def deny_echo(hub: RunningHub, agent: str) -> None:
    """Deny the tool to an agent, as another hub on the same store does."""
    id_ = grant_id(agent, "busy", "echo", "deny")
    grant = Grant("tool_grant", agent, "busy", "deny", "echo", id=id_)
    hub.hub_app.store.deliver([Change(GRANTS.name, id_, 10**6, 10**6, GRANTS.encode(grant))])


async def ended_calls(hub: RunningHub, agent: str) -> list[Record]:
    """The calls of an agent that have an outcome, newest first."""
    await hub.hub_app.recorder.flushed()
    found = await hub.hub_app.store.read(lambda database: search(database, Search(actor=agent), 1_000))
    return [entry.record for entry in found if entry.record.outcome is not None]


async def readiness(hub: RunningHub) -> tuple[int, Any]:
    status, _, body = await RawClient(hub.url + "/readyz").send("GET")
    return status, json.loads(body)


async def is_ready(hub: RunningHub, wanted: bool) -> bool:
    return ((await readiness(hub))[0] == 200) is wanted


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite waits for the other program for longer than any test runs."""
    monkeypatch.setattr(sqlite_module, "BUSY_S", 600.0)


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the product. Other tests have a longer one."""
    monkeypatch.setattr(write_failures, "MAX_UNWRITTEN_S", 1.0)


async def test_t34_calls_wait_for_their_entries_when_the_oldest_is_older_than_promised(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    hub_settings = HubSettings(timeouts=TimeoutSettings(start_s=120))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        recorder, executed = hub.hub_app.recorder, 0
        with locked(tmp_path / "home" / "hub.db"):
            async with asyncio.timeout(WITHIN_S):
                while not recorder.strict_calls:
                    held = asyncio.ensure_future(call(hub))
                    while not held.done() and not recorder.strict_calls:
                        await asyncio.sleep(0.01)
                    executed += 1
            # It is not sent before its intent is in the database, and the hub is still ready for calls.
            assert hub.hub_app.hub.open_calls == 1
            assert not held.done()
            assert (await readiness(hub))[0] == 200
        async with asyncio.timeout(WITHIN_S):
            assert "result" in await held
        assert "result" in await call(hub)
        await recorder.flushed()
        wanted = Search(event="TOOL_EXECUTED", result="SUCCESS")
        found = await hub.hub_app.store.read(lambda database: search(database, wanted, 10_000))
        assert len(found) == executed + 1


@pytest.mark.parametrize("mode", ["batched", "strict"])
async def test_t34_readiness_is_what_a_call_meets(
    tmp_path: Path, patient: None, mode: Literal["batched", "strict"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 0.0)
    hub_settings = HubSettings(audit=mode, timeouts=TimeoutSettings(start_s=120))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        assert (await readiness(hub))[0] == 200
        waiting = None
        with locked(tmp_path / "home" / "hub.db"):
            waiting = asyncio.ensure_future(call(hub))
            await until(lambda: is_ready(hub, False))
            status, told = await readiness(hub)
            assert (status, told["ready"], told["reason"]) == (503, False, "audit")
            assert told["message"] == "the audit log cannot be written"
            refused = (await call(hub))["error"]
            assert (refused["data"]["name"], refused["data"]["retry_after_ms"]) == ("RESOURCE_EXHAUSTED", 1000)
            assert "audit log: the database has not committed an entry for 1 s" in refused["message"]
            assert "load of the machine" in (await hub.operate("status"))["warnings"][0]["hint"]
        assert "result" in await waiting
        await until(lambda: is_ready(hub, True))
        assert "result" in await call(hub)


@pytest.mark.parametrize("mode", ["batched", "strict"])
async def test_a_call_that_was_denied_while_it_waited_for_its_entry_is_not_sent(
    tmp_path: Path, patient: None, mode: Literal["batched", "strict"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    hub_settings = HubSettings(audit=mode, timeouts=TimeoutSettings(start_s=120))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        key = await hub.new_key("bob")
        with locked(tmp_path / "home" / "hub.db"):
            held = await waiting_for_its_commit(hub, key)
            deny_echo(hub, "bob")
            assert not held.done()
        async with asyncio.timeout(WITHIN_S):
            assert (await held)["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert hub.hub_app.hub.open_calls == 0
        assert (await ended_calls(hub, "bob"))[0].outcome == NOT_SENT


async def test_a_call_that_waits_for_its_entry_and_then_for_a_new_session_is_judged_again(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    hub_settings = HubSettings(audit="strict", timeouts=TimeoutSettings(start_s=120))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        recorder, key = hub.hub_app.recorder, await hub.new_key("bob")
        (connection,) = hub.hub_app.upstreams["busy"].pool.connections()
        with locked(tmp_path / "home" / "hub.db"):
            held = await waiting_for_its_commit(hub, key)
            opened = asyncio.Event()
            connection.reopening = asyncio.ensure_future(_wait_for(opened))
        await until(lambda: not recorder.strict_calls)
        deny_echo(hub, "bob")
        connection.reopening = None
        opened.set()
        async with asyncio.timeout(WITHIN_S):
            assert (await held)["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert hub.hub_app.hub.open_calls == 0
        assert (await ended_calls(hub, "bob"))[0].outcome == NOT_SENT


async def test_a_call_that_a_person_is_asked_about_after_its_entry_was_written_is_recorded_anew(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    hub_settings = HubSettings(
        audit="strict", timeouts=TimeoutSettings(start_s=120, tool_s=120), approvals=ApprovalSettings(hold_s=600.0)
    )
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        hub_app, key = hub.hub_app, await hub.new_key("bob")
        (connection,) = hub_app.upstreams["busy"].pool.connections()
        with locked(tmp_path / "home" / "hub.db"):
            held = await waiting_for_its_commit(hub, key)
            opened = asyncio.Event()
            connection.reopening = asyncio.ensure_future(_wait_for(opened))
        await until(lambda: not hub_app.recorder.strict_calls)
        before = len(await ended_calls(hub, "bob"))
        await hub_app.apply(msgspec.structs.replace(hub_app.config, agents={"bob": AgentSettings(ask=("busy__echo",))}))
        connection.reopening = None
        opened.set()
        (decision,) = await until(lambda: hub_app.inbox.all(only_open=True))
        assert hub_app.hub.open_calls == 0, "while a person is asked, the call has no place"
        await read_and_answer(hub_app.inbox, decision.id, "once", Principal("person:ada", "person"))
        async with asyncio.timeout(WITHIN_S):
            assert (await held)["result"]["content"]
        outcomes = [record.outcome for record in await ended_calls(hub, "bob")]
        assert len(outcomes) == before + 2
        assert [outcome == NOT_SENT for outcome in outcomes[:2]] == [False, True]


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def test_the_place_of_a_database_that_cannot_be_written_is_told_to_operators_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_module, "BUSY_S", 0.1)
    database = tmp_path / "home" / "hub.db"
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        with locked(database):
            async with asyncio.timeout(WITHIN_S):
                while "error" not in (refused := await call(hub)):
                    await asyncio.sleep(0.01)
            assert "cannot write the audit log: database is locked" in refused["error"]["message"]
            assert str(tmp_path) not in json.dumps(refused)
            assert "other program" not in json.dumps(refused)
            problems = str((await hub.operate("status"))["warnings"])
            assert str(database) in problems
            assert "other program" in problems


async def test_a_call_waits_for_its_entry_no_longer_than_for_its_server(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    hub_settings = HubSettings(audit="strict", timeouts=TimeoutSettings(start_s=120, tool_s=0.5))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        key = await hub.new_key("bob")
        with locked(tmp_path / "home" / "hub.db"):
            async with asyncio.timeout(WITHIN_S):
                refused = (await call(hub, key))["error"]
            assert refused["data"]["name"] == "RESOURCE_EXHAUSTED"
            assert "has not committed the entry of this call within 0.5 s" in refused["message"]
            assert hub.hub_app.hub.open_calls == 0
        (ended,) = await ended_calls(hub, "bob")
        assert ended.outcome == NOT_SENT


@pytest.mark.parametrize("mode", ["batched", "strict"])
async def test_a_call_whose_client_left_while_it_waited_for_its_entry_is_not_sent(
    tmp_path: Path, patient: None, mode: Literal["batched", "strict"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    hub_settings = HubSettings(audit=mode, timeouts=TimeoutSettings(start_s=120))
    waiting: list[Call] = []
    sent: list[Forwarder] = []
    begin, send = CommitWaits.begin, Forwarder.send

    def begin_noted(waits: CommitWaits, call: Call, plan: Plan, forward: Callable[[Plan], None]) -> None:
        waiting.append(call)
        begin(waits, call, plan, forward)

    def send_noted(forwarder: Forwarder) -> None:
        sent.append(forwarder)
        send(forwarder)

    monkeypatch.setattr(CommitWaits, "begin", begin_noted)
    monkeypatch.setattr(Forwarder, "send", send_noted)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        with locked(tmp_path / "home" / "hub.db"):
            held = await waiting_for_its_commit(hub)
            sent.clear()
            held.cancel()
            await until(lambda: not waiting[-1].exchange.open)
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        await hub.hub_app.recorder.flushed()
        assert sent == []


async def test_a_call_that_was_denied_while_its_approval_was_used_up_is_not_sent(tmp_path: Path, patient: None) -> None:
    hub_settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0.0))
    agents = {"careful": AgentSettings(ask=("busy__echo",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings, agents=agents) as hub:
        key = hub.key("careful")
        asked = (await call(hub, key))["result"]["_meta"]["dev.interlock/error"]["decision"]
        await read_and_answer(hub.hub_app.inbox, asked, "once", Principal("person:ada", "person"))
        with locked(tmp_path / "home" / "hub.db"):
            held = asyncio.create_task(call(hub, key))
            await until(lambda: hub.hub_app.hub.open_calls == 1)
            deny_echo(hub, "careful")
            assert not held.done()
        async with asyncio.timeout(WITHIN_S):
            assert (await held)["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert hub.hub_app.hub.open_calls == 0


async def test_a_request_to_a_client_that_was_denied_while_it_waited_for_its_entry_is_not_sent(
    tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_failures, "MAX_WAIT_S", 600.0)
    go: Any = {"jsonrpc": "2.0", "method": "go"}
    asked = {"id": "q", "method": "elicitation/create", "params": FORM}
    steps = [{"until": "go"}, {"ask": asked}, {"wait": "q"}]
    hub_settings = HubSettings(audit="strict", timeouts=TimeoutSettings(start_s=120, tool_s=120))
    async with InstructedServer().http() as instructed:
        settings = ServerSettings(url=instructed.url, era="legacy")
        async with running_hub(tmp_path, {"instructed": settings}, hub=hub_settings) as hub:
            client = LegacyClient(hub.url + "/mcp", answers("ada"))
            await client.initialize(ALL)
            calling = asyncio.create_task(client.call("instructed__do", {"steps": steps}))
            await until(lambda: bool(instructed.asked("tools/call")))
            with locked(tmp_path / "home" / "hub.db"):
                await instructed.take(go, print, print)
                await until(lambda: bool(hub.hub_app.recorder.strict_calls))
                denied = msgspec.structs.replace(settings, requests=RequestSettings(elicitation="deny"))
                config = msgspec.structs.replace(hub.hub_app.config, servers={"instructed": denied})
                await hub.hub_app.apply(config)
            async with asyncio.timeout(WITHIN_S):
                await calling
            assert "error" in instructed.answer_to("q")[0]
            assert not [message for message in client.heard if message.get("method") == "elicitation/create"]
