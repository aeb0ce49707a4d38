"""MGP's lifecycle at the hub: every change of state has a reason and is told, calls are answered by the state, servers
and the hub are shut down by those who may, and restarts follow the policy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from interlock.client.connection import Connection
from interlock.config.settings import HubSettings, RestartSettings, ServerSettings, TimeoutSettings
from interlock.hub.calls.dispatch import recovery
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.unavailable import unavailable
from interlock.transports.link import Outgoing, Sink
from interlock.wire.errors import ErrorDialect, Fault

from .raw_server import RawHttpServer
from .running_hub import MGP, RawClient, RunningHub, child, running_hub, text_of, until
from .test_changes import Stream, listening, opened
from .test_hostile_servers import alive
from .test_journal import entries
from .test_server_commands import gated
from .test_waiting_for_a_server import OK, Gated

CHANGED = "notifications/mgp.lifecycle"
SHUTDOWN = "mgp/lifecycle/shutdown"
ECHO: dict[str, Any] = {"name": "busy__echo", "arguments": {"text": "a"}}


def told(stream: Stream) -> list[tuple[str, str, str]]:
    """The changes that came on a stream."""
    params = [message["params"] for message in stream.heard if message.get("method") == CHANGED]
    return [(each["previous_state"], each["new_state"], each["reason"]) for each in params]


async def call(hub: RunningHub, name: str, **arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments}
    return await RawClient(hub.url + "/mcp").modern("tools/call", params)


def after(hub: RunningHub, server: str = "busy") -> tuple[str, str]:
    """The state of a server, and the reason of its last change."""
    change = hub.hub_app.upstreams[server].supervisor.status.last_change
    assert change is not None
    return change.after.value, change.reason


async def test_t61_every_change_is_told_to_those_who_agreed_and_may_see_the_server(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        await hub.deny("denied", "busy")
        session, plain = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        denied = RawClient(hub.url + "/mcp", hub.key("denied"))
        modern, unasked = RawClient(hub.url + "/mcp"), RawClient(hub.url + "/mcp")
        await session.initialize(MGP)
        await plain.initialize()
        await denied.initialize(MGP)
        wanted = {"dev.cloto/mgp": {"lifecycle": True}}
        async with (
            opened(session, "GET", b"", {}) as agreed,
            opened(plain, "GET", b"", {}) as silent,
            opened(denied, "GET", b"", {}) as blind,
            listening(modern, MGP, **wanted) as asked,
            listening(unasked, None, **wanted) as refused,
        ):
            assert asked.heard[0]["params"]["notifications"] == wanted
            assert refused.heard[0]["params"]["notifications"] == {}, "it did not agree on MGP"
            await hub.operate("servers.restart", server="busy", because="new version")
            passed = [
                ("connected", "draining", "operator_request"),
                ("draining", "restarting", "operator_request"),
                ("restarting", "connected", "operator_request"),
            ]
            await until(lambda: told(agreed) == passed and told(asked) == passed)
            [first, *_] = [message["params"] for message in asked.heard if message.get("method") == CHANGED]
            assert (first["server_id"], first["timestamp"][-1]) == ("busy", "Z")
            assert first["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"
            assert told(silent) == told(blind) == told(refused) == []
            hub.hub_app.drain()
            await until(lambda: bool(told(blind)))
            [last] = [message["params"] for message in blind.heard if message.get("method") == CHANGED]
            assert (last["server_id"], last["new_state"], last["reason"]) == (
                "interlock",
                "draining",
                "kernel_shutdown",
            )
        found = [entry.record.details for entry in await entries(hub, server="busy")]
        assert all(details["reason"] for details in found if "to" in details)
        [shown] = (await hub.operate("status"))["servers"]
        assert shown["last_change"] == {"before": "restarting", "reason": "operator_request"}


@each_case(
    ("state", "code"),
    [
        (ServerState.REGISTERED, 2000),
        (ServerState.CONNECTING, 2000),
        (ServerState.ERROR, 2000),
        (ServerState.DISCONNECTED, 2000),
        (ServerState.DRAINING, 2001),
        (ServerState.RESTARTING, 2002),
    ],
)
def test_a_call_is_answered_by_the_state(state: ServerState, code: int) -> None:
    problem = Fault("UPSTREAM_UNAVAILABLE", "it exited", hint="install it")
    error = unavailable("files", state, problem, False, 1500).render(ErrorDialect.MGP)
    assert error.code == code
    assert b'"retry_after_ms":1500' in bytes(error.data)


async def test_a_call_waits_for_a_restart_until_its_deadline_and_then_hears_of_it(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=0.3))
    async with (
        Gated() as web,
        running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}, hub=settings) as hub,
    ):
        client = RawClient(hub.url + "/mcp")
        await client.initialize(MGP)
        web.gate.clear()
        await hub.operate("servers.restart", server="web")
        error = (await client.legacy("tools/call", OK))["error"]
        assert (error["code"], error["data"]["name"]) == (2002, "SERVER_RESTARTING")
        assert error["data"]["_mgp"]["retry_after_ms"] > 0
        [row] = (shown := await hub.operate("health"))["servers"]
        assert (row["health"], shown["status"]) == ("starting", "healthy"), "a server that starts is not down"
        web.gate.set()
        await hub.state("web", ServerState.CONNECTED)
        assert text_of(await client.legacy("tools/call", OK)) == "fine"
        await hub.operate("servers.stop", server="web")
        error = (await client.legacy("tools/call", OK))["error"]
        assert (error["code"], error["data"]["_mgp"]["retry_after_ms"] > 0) == (2000, True)
        _, _, body = await RawClient(hub.url + "/readyz").send("GET")
        assert b'"down":0' in body, "nor is one that was stopped"


async def test_a_call_that_never_reached_its_server_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is lost a moment before the supervisor knows, and calls of that moment are not lost with it."""
    losses, send, sent = ["on the way", "at once"], Connection.send, []

    def losing(connection: Connection, outgoing: Outgoing, sink: Sink, *more: Any, **named: Any) -> Any:
        if outgoing.method != "tools/call":
            return send(connection, outgoing, sink, *more, **named)
        sent.append(outgoing)
        if not losses:
            return send(connection, outgoing, sink, *more, **named)
        fault = Fault("UPSTREAM_UNAVAILABLE", "the server exited with code 1")
        if losses.pop() == "at once":
            raise fault
        asyncio.get_running_loop().call_soon(sink.on_lost, fault)
        return 10**9

    monkeypatch.setattr(Connection, "send", losing)
    async with RawHttpServer() as web, running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}) as hub:
        client = RawClient(hub.url + "/mcp")
        assert text_of(await client.modern("tools/call", OK)) == "fine"
        assert (len(sent), losses) == (3, [])
        monkeypatch.setattr(recovery, "UNSENT_PAUSES_S", (0.0,))
        losses += ["on the way"] * 3
        answer = (await client.modern("tools/call", OK))["error"]
        assert (answer["data"]["name"], len(losses)) == ("UPSTREAM_UNAVAILABLE", 1), "the tries have an end"


@pytest.mark.parametrize(("policy", "code"), [("on_failure", 1), ("always", 0)])
async def test_a_call_waits_for_a_server_that_comes_back(tmp_path: Path, policy: Any, code: int) -> None:
    busy = child("busy_server.py", restart=RestartSettings(policy=policy, backoff_base_ms=200))
    async with running_hub(tmp_path, {"busy": busy}) as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize()
        assert text_of(await call(hub, "busy__leave", code=code)) == "left"
        await hub.state("busy", ServerState.ERROR)
        assert text_of(await client.legacy("tools/call", ECHO)) == "a", "the session outlives the server"


async def test_a_server_that_ends_well_stays_away_until_a_call_where_the_policy_says_so(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        await call(hub, "busy__leave", code=0)
        await hub.state("busy", ServerState.DISCONNECTED)
        assert after(hub) == ("disconnected", "exited")
        assert text_of(await call(hub, "busy__echo", text="a")) == "a"


async def test_a_server_that_exits_too_often_within_the_window_stays_down_and_is_recorded_so(tmp_path: Path) -> None:
    rules = RestartSettings(max_restarts=1, window_s=3600, backoff_base_ms=1, backoff_max_ms=1)
    async with running_hub(tmp_path, {"busy": child("busy_server.py", restart=rules)}) as hub:
        upstream = hub.hub_app.upstreams["busy"]
        for exits in (1, 2):
            first = upstream.pid
            await call(hub, "busy__leave", code=1)
            await until(lambda first=first: upstream.pid not in (None, first) or upstream.given_up)  # type: ignore[misc]
            assert upstream.given_up is (exits == 2)
        assert after(hub) == ("error", "restart_limit_exceeded")
        error = (await call(hub, "busy__echo", text="a"))["error"]
        assert (error["data"]["name"], error["data"]["retry_after_ms"] > 2000) == ("SERVER_NOT_READY", True)
        gone = [entry.record.details for entry in await entries(hub, event="SERVER_DISCONNECTED")]
        assert [details.get("restart_limit_exceeded") for details in gone] == [None, True]
        await hub.operate("servers.start", server="busy")
        assert text_of(await call(hub, "busy__echo", text="a")) == "a", "a command counts anew"


async def test_t60_only_an_administrator_shuts_a_server_down_and_it_stays_down(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gate, hub, calling):
        address = hub.url + "/servers/gate/mcp"
        agent = RawClient(address, hub.key("agent"))
        error = (await agent.modern(SHUTDOWN, {"reason": "operator_request"}))["error"]
        assert (error["code"], error["data"]["name"]) == (1000, "PERMISSION_DENIED")
        assert hub.hub_app.upstreams["gate"].state is ServerState.CONNECTED
        refused = await entries(hub, event="dev.interlock.call_blocked")
        assert [(entry.record.actor, entry.record.name) for entry in refused] == [("agent", SHUTDOWN)]
        admin = RawClient(address, await hub.new_key("boss", "admin"))
        for wrong in ({"reason": "boredom"}, {"timeout_ms": -1}, {"timeout_ms": 10**9}):
            assert (await admin.modern(SHUTDOWN, wrong))["error"]["data"]["name"] == "INVALID_PARAMS"
        answer = (await admin.modern(SHUTDOWN, {"reason": "operator_request", "timeout_ms": 60_000}))["result"]
        assert (answer["accepted"], answer["pending_requests"]) == (True, 1)
        assert 0 < answer["estimated_drain_ms"] <= 60_000
        await hub.state("gate", ServerState.DRAINING)
        error = (await admin.modern("tools/call", {"name": "wait", "arguments": {}, "_meta": _meta()}))["error"]
        assert error["code"] == 2001
        gate.open.set()
        assert text_of(await calling) == "waited"
        await hub.state("gate", ServerState.DISCONNECTED)
        error = (await admin.modern("tools/call", {"name": "wait", "arguments": {}, "_meta": _meta()}))["error"]
        assert error["code"] == 2000
        assert "boss" in error["message"]
        assert after(hub, "gate") == ("disconnected", "operator_request")


@pytest.mark.parametrize(
    ("policy", "reason", "state"),
    [
        ("always", "resource_limit", ServerState.CONNECTED),
        ("always", "operator_request", ServerState.DISCONNECTED),
        ("on_failure", "resource_limit", ServerState.DISCONNECTED),
    ],
)
async def test_operator_and_kernel_suppress_restarts_and_other_reasons_follow_the_policy(
    tmp_path: Path, policy: Any, reason: str, state: ServerState
) -> None:
    busy = child("busy_server.py", restart=RestartSettings(policy=policy), era="legacy")
    async with running_hub(tmp_path, {"busy": busy}) as hub:
        upstream = hub.hub_app.upstreams["busy"]
        before = upstream.pid
        admin = RawClient(hub.url + "/servers/busy/mcp", await hub.new_key("boss", "admin"))
        await admin.modern(SHUTDOWN, {"reason": reason})
        await until(lambda: upstream.state is state and upstream.pid != before)
        claims = await entries(hub, event="dev.interlock.claimed")
        said: Any = [entry.record.details["claim"] for entry in claims]
        assert [(claim["new_state"], claim["reason"]) for claim in said] == [("draining", reason)], "asked, not killed"
        if reason != "operator_request":
            assert text_of(await call(hub, "busy__echo", text="a")) == "a"
        else:
            assert "error" in await call(hub, "busy__echo", text="a")


async def test_the_hub_itself_is_shut_down_by_an_administrator_and_refuses_new_work(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gate, hub, calling):
        readiness = hub.hub_app.readiness
        agent = RawClient(hub.url + "/mcp", hub.key("agent"))
        assert (await agent.modern(SHUTDOWN))["error"]["code"] == 1000
        assert not readiness.stopping.is_set()
        admin = RawClient(hub.url + "/mcp", await hub.new_key("boss", "admin"))
        answer = (await admin.modern(SHUTDOWN, {"timeout_ms": 2000}))["result"]
        assert answer["pending_requests"] == 1
        assert (readiness.stopping.is_set(), readiness.drain_s) == (True, 2.0)
        hub.hub_app.drain()
        error = (await agent.modern("tools/call", {"name": "gate__wait", "arguments": {}, "_meta": _meta()}))["error"]
        assert error["code"] == 2001
        assert (await agent.modern("mgp/health/ping"))["result"]["status"] == "unhealthy"
        status, _, body = await RawClient(hub.url + "/readyz").send("GET")
        assert (status, b"stopping" in body) == (503, True)
        gate.open.set()
        assert text_of(await calling) == "waited", "open calls finish"


async def test_a_server_that_will_not_go_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN)
    server = ServerSettings(command=("python3", str(script), str(tmp_path / "pids")), era="legacy")
    async with running_hub(tmp_path, {"stubborn": server}) as hub:
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 2
        await hub.operate("servers.stop", server="stubborn")
        await until(lambda: not any(map(alive, pids)))


def _meta() -> dict[str, Any]:
    return {"io.modelcontextprotocol/clientCapabilities": MGP}


STUBBORN = """
import json, os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], start_new_session=False)
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        mgp = {"version": "0.2.0", "extensions": ["lifecycle"]}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "mgp": mgp},
                  "serverInfo": {"name": "stubborn", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": []}
    elif asked["method"] == "mgp/lifecycle/shutdown":
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
while True:
    signal.pause()
"""
