"""Servers are started, stopped, drained and restarted by command, each with its reason, and stay as they were told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import HubSettings, RequestSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams import connection_pool, draining
from interlock.hub.upstreams.commands import Command, Reason, Verb
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream
from interlock.server import Server as ToolServer
from interlock.wire.errors import Fault

from .running_hub import RawClient, RunningHub, child, running_hub, text_of, until
from .test_journal import entries

ADA = Principal("person:ada", "person")
PATIENT = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=3600))
"""No call ends by its deadline."""
ECHO: dict[str, Any] = {"name": "busy__echo", "arguments": {"text": "a"}}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as running:
        yield running


class Gate:
    """A server within the test: its call ends when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.server = ToolServer("gate")

        @self.server.tool
        async def wait() -> str:
            self.begun.set()
            await self.open.wait()
            return "waited"


@contextlib.asynccontextmanager
async def gated(tmp_path: Path) -> AsyncIterator[tuple[Gate, RunningHub, asyncio.Task[Any]]]:
    """A hub with a call under way."""
    gate = Gate()
    async with (
        gate.server.http() as address,
        running_hub(tmp_path, {"gate": ServerSettings(url=address.url)}, hub=PATIENT) as hub,
    ):
        calling = asyncio.create_task(
            RawClient(hub.url + "/mcp").modern("tools/call", {"name": "gate__wait", "arguments": {}})
        )
        await gate.begun.wait()
        yield gate, hub, calling
        gate.open.set()
        await asyncio.gather(calling, return_exceptions=True)


async def echo(hub: RunningHub) -> Any:
    return await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)


async def status(hub: RunningHub) -> Any:
    return (await hub.operate("status"))["servers"][0]


def pid(hub: RunningHub) -> int:
    found = hub.hub_app.upstreams["busy"].pid
    assert found is not None
    return found


async def test_a_stopped_server_stays_stopped_and_says_who_stopped_it(hub: RunningHub) -> None:
    process = pid(hub)
    answer = await hub.operate("servers.stop", ADA, server="busy", because="it costs too much")
    assert answer == {"server": "busy", "state": "disconnected"}
    await until(lambda: not _lives(process))
    for _ in range(3):
        refused = (await echo(hub))["error"]
        assert refused["message"] == "server busy was stopped by person:ada: it costs too much"
        assert refused["data"]["hint"] == "run `interlock start busy`"
        assert refused["data"]["name"] == "SERVER_NOT_READY"
    shown = await status(hub)
    assert (shown["state"], shown["problem"]) == ("disconnected", refused["message"])
    assert shown["hint"] == "run `interlock start busy`"
    await hub.hub_app.apply(hub.hub_app.config)
    hub.hub_app.upstreams["busy"].supervisor.want()
    assert not hub.hub_app.upstreams["busy"].supervisor.try_again()
    assert "error" in await echo(hub)
    assert (await hub.operate("servers.start", ADA, server="busy"))["server"] == "busy"
    assert text_of(await echo(hub)) == "a"
    assert (await status(hub))["problem"] is None


async def test_a_mistyped_server_is_answered_with_the_one_that_was_meant(hub: RunningHub) -> None:
    for operation in ("servers.restart", "logs"):
        with pytest.raises(Fault, match="no server 'bussy'") as refused:
            await hub.operate(operation, server="bussy")
        assert refused.value.hint == "did you mean `busy`?"


async def test_a_new_configuration_of_a_stopped_server_starts_it(hub: RunningHub) -> None:
    await hub.operate("servers.stop", server="busy")
    config = hub.hub_app.config
    settings = config.servers["busy"]
    changed = msgspec.structs.replace(settings, env={**settings.env, "CHANGED": "1"})
    await hub.hub_app.apply(msgspec.structs.replace(config, servers={"busy": changed}))
    assert text_of(await echo(hub)) == "a"


async def test_other_rules_for_its_requests_to_clients_do_not_restart_a_server(hub: RunningHub) -> None:
    before, config = pid(hub), hub.hub_app.config
    asks = msgspec.structs.replace(config.servers["busy"], requests=RequestSettings(sampling="deny"))
    await hub.hub_app.apply(msgspec.structs.replace(config, servers={"busy": asks}))
    assert hub.hub_app.upstreams["busy"].settings.requests.sampling == "deny"
    assert pid(hub) == before


async def test_the_hub_itself_does_not_start_what_a_person_stopped(hub: RunningHub) -> None:
    await hub.operate("servers.stop", server="busy")
    upstream = hub.hub_app.upstreams["busy"]
    commands: tuple[tuple[Verb, Reason], ...] = (
        ("restart", Reason.CONFIGURATION_CHANGE),
        ("drain", Reason.RESOURCE_LIMIT),
    )
    for verb, reason in commands:
        await upstream.supervisor.command(Command(verb, reason))
        assert upstream.state is ServerState.DISCONNECTED
        assert upstream.stopped is not None, "the next call does not start it either"
    await hub.operate("servers.restart", server="busy")
    assert text_of(await echo(hub)) == "a"


async def test_a_restart_gives_a_new_process_and_passes_through_restarting(hub: RunningHub) -> None:
    before = pid(hub)
    await hub.operate("servers.restart", ADA, server="busy", because="new version")
    assert text_of(await echo(hub)) == "a"
    assert pid(hub) != before
    assert not _lives(before)
    states = [entry.record for entry in await entries(hub, server="busy") if "to" in entry.record.details]
    passed = [record.details["to"] for record in states]
    assert passed[-3:] == ["draining", "restarting", "connected"]
    for record in states[-3:]:
        assert (record.actor, record.details["reason"], record.reason) == (
            ADA.id,
            "operator_request",
            "new version",
        )


async def test_draining_lets_the_open_call_finish_and_refuses_new_ones(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gate, hub, calling):
        stopping = asyncio.create_task(hub.operate("servers.stop", ADA, server="gate"))
        await hub.state("gate", ServerState.DRAINING)
        refused = (await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "gate__wait", "arguments": {}}))[
            "error"
        ]
        assert refused["data"]["name"] == "SERVER_DRAINING"
        assert not stopping.done()
        gate.open.set()
        assert text_of(await calling) == "waited"
        assert (await stopping)["state"] == "disconnected"
        assert [entry.record.details["reason"] for entry in await entries(hub, event="SERVER_DISCONNECTED")] == [
            "operator_request"
        ]


async def test_draining_ends_although_a_call_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "DRAIN_S", 0.05)
    async with gated(tmp_path) as (_, hub, calling):
        assert (await hub.operate("servers.stop", server="gate"))["state"] == "disconnected"
        assert "error" in await calling


async def test_a_restart_lets_the_open_call_finish_and_new_calls_wait_for_it(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gate, hub, calling):
        restarting = asyncio.create_task(hub.operate("servers.restart", ADA, server="gate"))
        await hub.state("gate", ServerState.DRAINING)
        upstream = hub.hub_app.upstreams["gate"]
        later = RawClient(hub.url + "/mcp").modern("tools/call", {"name": "gate__wait", "arguments": {}})
        waiting = asyncio.create_task(later)
        await until(lambda: upstream.waiting_calls == 1)
        assert not restarting.done()
        assert upstream.condition == "starting"
        gate.open.set()
        assert text_of(await calling) == "waited"
        assert (await restarting)["state"] in ("restarting", "connected")
        assert text_of(await waiting) == "waited", "it was neither refused, nor did the drain wait for it"


async def test_a_restart_now_waits_for_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "DRAIN_S", 3600.0)
    async with gated(tmp_path) as (_, hub, calling):
        await hub.operate("servers.restart", server="gate", now=True)
        assert "error" in await calling
        monkeypatch.undo()


async def test_a_server_is_told_of_its_restart_and_gets_the_time_that_it_says_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "DRAIN_S", 60.0)
    monkeypatch.setattr(connection_pool, "SHUTDOWN_ANSWER_S", 60.0)
    script, told = tmp_path / "finishing.py", tmp_path / "told"
    script.write_text(FINISHING)
    server = ServerSettings(command=("python3", str(script), str(told)), era="legacy")
    async with running_hub(tmp_path, {"s": server}) as hub:
        first = hub.hub_app.upstreams["s"].pid
        await hub.operate("servers.restart", ADA, server="s")
        await hub.state("s", ServerState.CONNECTED)
        assert hub.hub_app.upstreams["s"].pid != first
        reason, timeout_ms, finished = told.read_text().split()
        assert (reason, finished) == ("operator_request", "finished"), "it was not ended before its work"
        assert int(timeout_ms) == 60_000
        told.with_suffix(".refuse").touch()
        await hub.operate("servers.restart", ADA, server="s")
        await hub.state("s", ServerState.CONNECTED)
        lines = (await hub.operate("logs", server="s"))["lines"]
        assert any("did not accept its shutdown (operator_request)" in line["text"] for line in lines)


FINISHING = """
import json, os, sys, threading
told = sys.argv[1]
asked_at = threading.Event()
def finish():
    asked_at.wait()
    open(told, "a").write("finished")
    os._exit(0)
threading.Thread(target=finish, daemon=True).start()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        mgp = {"version": "0.2.0", "extensions": ["lifecycle"]}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "mgp": mgp},
                  "serverInfo": {"name": "finishing", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": []}
    elif asked["method"] == "mgp/lifecycle/shutdown":
        result = {"accepted": False}
        if not os.path.exists(told + ".refuse"):
            params = asked["params"]
            open(told, "w").write(f"{params['reason']} {params['timeout_ms']} ")
            result = {"accepted": True, "pending_requests": 1, "estimated_drain_ms": 59000}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
    if "pending_requests" in result:
        threading.Timer(0.3, asked_at.set).start()
os._exit(1)  # its input was closed
"""


async def test_stopping_now_waits_for_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "DRAIN_S", 3600.0)
    async with gated(tmp_path) as (_, hub, calling):
        assert (await hub.operate("servers.stop", server="gate", now=True))["state"] == "disconnected"
        assert "error" in await calling
        monkeypatch.undo()


@pytest.mark.parametrize("member", ["estimated_drain_ms", "pending_requests"])
async def test_t61_no_answer_to_its_shutdown_keeps_a_server_alive(tmp_path: Path, member: str) -> None:
    script = tmp_path / "resisting.py"
    script.write_text(RESISTING.replace("MEMBER", member))
    async with running_hub(tmp_path, {"s": ServerSettings(command=("python3", str(script)), era="legacy")}) as hub:
        first = hub.hub_app.upstreams["s"].pid
        await hub.operate("servers.restart", server="s")
        await hub.state("s", ServerState.CONNECTED)
        assert hub.hub_app.upstreams["s"].pid != first
        assert (await hub.operate("servers.stop", server="s"))["state"] == "disconnected"


RESISTING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = "{}"
    if asked["method"] == "initialize":
        mgp = {"version": "0.2.0", "extensions": ["lifecycle"]}
        result = json.dumps({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "mgp": mgp},
                             "serverInfo": {"name": "resisting", "version": "1"}})
    elif asked["method"] == "tools/list":
        result = '{"tools": []}'
    elif asked["method"] == "mgp/lifecycle/shutdown":
        said = {"accepted": "true", "pending_requests": "1", "estimated_drain_ms": "1", "MEMBER": "9" * 400}
        result = "{%s}" % ", ".join(f'"{name}": {value}' for name, value in said.items())
    print('{"jsonrpc": "2.0", "id": %s, "result": %s}' % (json.dumps(asked["id"]), result), flush=True)
"""


async def test_a_stop_does_not_wait_for_a_restart_that_drains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "DRAIN_S", 3600.0)
    async with gated(tmp_path) as (_, hub, calling):
        restarting = asyncio.create_task(hub.operate("servers.restart", server="gate"))
        await hub.state("gate", ServerState.DRAINING)
        assert (await hub.operate("servers.stop", server="gate", now=True))["state"] == "disconnected"
        assert "error" in await calling
        await restarting
        monkeypatch.undo()


async def test_a_command_is_carried_out_although_its_caller_went_away(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gate, hub, calling):
        stopping = asyncio.create_task(hub.operate("servers.stop", ADA, server="gate"))
        await hub.state("gate", ServerState.DRAINING)
        stopping.cancel()
        gate.open.set()
        assert text_of(await calling) == "waited"
        await hub.state("gate", ServerState.DISCONNECTED)
        stopped = hub.hub_app.upstreams["gate"].stopped
        assert stopped is not None
        assert stopped.by == ADA


async def test_a_call_that_waits_for_a_server_is_refused_when_the_server_is_stopped(tmp_path: Path) -> None:
    silent = child("busy_server.py")
    silent = msgspec.structs.replace(silent, command=("sleep", "600"))
    async with running_hub(tmp_path, {"busy": silent}, wait=False) as hub:
        await hub.state("busy", ServerState.CONNECTING)
        upstream = hub.hub_app.upstreams["busy"]
        waiting = asyncio.create_task(upstream.open_connection(None))
        await asyncio.sleep(0)
        await hub.operate("servers.stop", ADA, server="busy")
        with pytest.raises(Fault):
            await waiting
        assert upstream.state is ServerState.DISCONNECTED


async def test_a_server_that_is_stopped_while_it_is_listed_stays_stopped_and_starts_again(tmp_path: Path) -> None:
    script, listed = tmp_path / "listing.py", tmp_path / "listed"
    script.write_text(LISTING)
    server = ServerSettings(command=("python3", str(script), str(listed)), era="legacy")
    async with running_hub(tmp_path, {"s": server}, wait=False) as hub:
        await until(listed.exists)
        assert (await hub.operate("servers.stop", ADA, server="s"))["state"] == "disconnected"
        passed = [entry.record.details.get("to") for entry in await entries(hub, server="s")]
        assert "connected" not in passed, "it took no calls after it was stopped"
        await hub.operate("servers.start", ADA, server="s")
        await hub.state("s", ServerState.CONNECTED)


LISTING = """
import json, os, sys
# Its first list comes when it is asked to shut down, which it does not answer.
listed, held = sys.argv[1], None
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        mgp = {"version": "0.2.0", "extensions": ["lifecycle"]}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "mgp": mgp},
                  "serverInfo": {"name": "listing", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": []}
        if not os.path.exists(listed):
            held = asked["id"]
            open(listed, "w").close()
            continue
    elif asked["method"] == "mgp/lifecycle/shutdown" and held is not None:
        asked["id"], result = held, {"tools": []}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_defect_of_the_hub_ends_the_run_of_a_server_and_not_its_supervisor(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = hub.hub_app.upstreams["busy"]
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context["exception"]))
    defect = ZeroDivisionError()

    def fail(*_: object) -> bool:
        raise defect

    monkeypatch.setattr(upstream.supervisor.plan, "stays_away", fail)
    os.kill(pid(hub), signal.SIGKILL)
    await hub.state("busy", ServerState.ERROR)
    assert failures == [defect]
    assert upstream.problem is not None
    assert upstream.problem.name == "INTERNAL_ERROR"
    monkeypatch.undo()
    await hub.operate("servers.start", ADA, server="busy")
    assert text_of(await echo(hub)) == "a"


async def test_a_command_tells_the_state_that_it_led_to(hub: RunningHub) -> None:
    commands = (hub.operate(f"servers.{verb}", ADA, server="busy") for verb in ("stop", "start", "stop"))
    assert [answer["state"] for answer in await asyncio.gather(*commands)] == [
        "disconnected",
        "connecting",
        "disconnected",
    ]


async def test_a_drain_that_fails_ends_the_server_all_the_same(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Upstream, "drained", fail)
    assert (await hub.operate("servers.stop", ADA, server="busy"))["state"] == "disconnected"
    monkeypatch.undo()
    await hub.operate("servers.start", ADA, server="busy")
    assert text_of(await echo(hub)) == "a"


async def test_commands_during_the_drain_of_an_idle_server_are_obeyed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = [0], asyncio.Event()

    async def ask_to_shut_down(*_: object) -> float:
        asked[0] += 1
        await answer.wait()
        answer.clear()
        return 0.0

    lazy = child("busy_server.py", start="on-demand")
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, idle_s=0.05))
    async with running_hub(tmp_path, {"busy": lazy}, hub=settings, wait=False) as hub:
        upstream = hub.hub_app.upstreams["busy"]
        monkeypatch.setattr(upstream.pool, "ask_to_shut_down", ask_to_shut_down)
        upstream.supervisor.want()
        await until(lambda: asked[0] == 1)
        await hub.operate("servers.start", ADA, server="busy")
        answer.set()
        await until(lambda: asked[0] == 2)  # it was started again, and is idle again
        stopping = asyncio.create_task(hub.operate("servers.stop", ADA, server="busy"))
        await until(lambda: upstream.stopped is not None)
        answer.set()
        assert (await stopping)["state"] == "disconnected"
        assert asked[0] == 2, "the server is drained once at a time"
        monkeypatch.undo()
        changes = [entry.record.details for entry in await entries(hub, server="busy")]
        reasons = [(change["to"], change["reason"]) for change in changes if "to" in change]
        # A command that came during the drain is the reason of the start, and not of the drain.
        first = reasons.index(("draining", "idle_timeout"))
        assert reasons[first + 1 : first + 3] == [("disconnected", "idle_timeout"), ("connecting", "operator_request")]


async def test_a_restart_for_a_limit_keeps_the_count_of_failures_and_one_for_a_person_does_not(
    hub: RunningHub,
) -> None:
    upstream = hub.hub_app.upstreams["busy"]
    os.kill(pid(hub), signal.SIGKILL)
    await until(lambda: upstream.restarts.failures(asyncio.get_running_loop().time()) == 1)
    assert text_of(await echo(hub)) == "a"
    for reason, failures in ((Reason.RESOURCE_LIMIT, 1), (Reason.OPERATOR_REQUEST, 0)):
        await upstream.supervisor.command(Command("restart", reason, drain_s=0))
        assert text_of(await echo(hub)) == "a"
        assert upstream.restarts.failures(asyncio.get_running_loop().time()) == failures


@pytest.mark.parametrize("seed", range(6))
async def test_commands_that_come_together_are_obeyed_one_after_the_other(hub: RunningHub, seed: int) -> None:
    """The last command decides, whatever came before it."""
    chance = random.Random(seed)
    upstream = hub.hub_app.upstreams["busy"]
    verbs: list[Verb] = ["start", "stop", "drain", "restart"]
    chosen = [chance.choice(verbs) for _ in range(12)]
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    await asyncio.gather(*(upstream.supervisor.command(Command(verb, Reason.OPERATOR_REQUEST, ADA)) for verb in chosen))
    if chosen[-1] in ("start", "restart"):
        assert text_of(await echo(hub)) == "a"
        assert upstream.stopped is None
    else:
        assert upstream.state is ServerState.DISCONNECTED
        assert "error" in await echo(hub)
    assert not failures


async def test_a_server_on_demand_goes_for_being_idle_and_comes_back_with_a_call(tmp_path: Path) -> None:
    lazy = child("busy_server.py", start="on-demand")
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, idle_s=0.05))
    async with running_hub(tmp_path, {"busy": lazy}, hub=settings, wait=False) as hub:
        upstream = hub.hub_app.upstreams["busy"]
        upstream.supervisor.want()
        await hub.state("busy", ServerState.DISCONNECTED)
        details = [entry.record.details for entry in await entries(hub, server="busy")]
        [gone, *_] = [found for found in details if found.get("to") == "draining"]
        assert gone["reason"] == "idle_timeout"
        assert upstream.stopped is None
        assert text_of(await echo(hub)) == "a"


async def test_every_command_is_in_the_audit_log_with_who_and_why(hub: RunningHub) -> None:
    for verb in ("stop", "start", "restart"):
        await hub.operate(f"servers.{verb}", ADA, server="busy", because=f"to {verb} it")
    found = [entry.record for entry in await entries(hub, event="dev.interlock.operation")]
    assert [(record.actor, record.server, record.name, record.reason) for record in found] == [
        (ADA.id, "busy", f"servers.{verb}", f"to {verb} it") for verb in ("stop", "start", "restart")
    ]


async def test_an_unknown_server_gets_no_command(hub: RunningHub) -> None:
    for verb in ("stop", "start", "restart"):
        with pytest.raises(Fault) as refused:
            await hub.operate(f"servers.{verb}", server="nope")
        assert refused.value.name == "NOT_FOUND"
    assert not await entries(hub, event="dev.interlock.operation")


async def test_a_stopped_server_does_not_keep_the_hub_from_being_ready_or_from_ending(hub: RunningHub) -> None:
    await hub.operate("servers.stop", server="busy")
    assert (await RawClient(hub.url + "/readyz").send("GET"))[0] == 200


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
