"""The hub asks servers for their health: their own word, their silence and their calls count, and the worst decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.audit.record import CANCELLED, LOST, SUCCEEDED, TIMED_OUT, TOOL_FAILED, Outcome
from interlock.hub.upstreams import health_monitor
from interlock.hub.upstreams.call_outcomes import CallOutcomes
from interlock.hub.upstreams.server_health import ServerHealth
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mgp.health import Health, read_ping
from interlock.server import Server as ToolServer
from interlock.server import ToolError
from interlock.server.mgp import health as server_health
from interlock.wire.errors import Fault

from .raw_server import RawHttpServer
from .running_hub import RawClient, RunningHub, running_hub, until
from .web_server import Posted


def end(outcomes: CallOutcomes, outcome: Outcome | None) -> None:
    """End a call, as the dispatcher does."""
    if outcome is not None and outcome.tool == "ok":
        outcomes.last.append(1000)
    else:
        outcomes.on_other_end(outcome, 1000)


class CheckedServer:
    """A server of ours in the test's own process, whose check and tool do what the test says."""

    def __init__(self) -> None:
        self.well = True
        self.works = True
        self.server = ToolServer("checked")

        @self.server.health_check
        def database() -> bool:
            return self.well

        @self.server.tool
        async def work() -> str:
            if not self.works:
                raise ToolError("it does not work")
            return "worked"


class MutedServer(RawHttpServer):
    """A plain server of the handshake era that answers everything but `ping`, once it is told to be mute."""

    def __init__(self) -> None:
        super().__init__()
        self.mute = False
        self.pinged = 0

    async def serve(self, posted: Posted, reader: Any, writer: Any) -> bool:
        if posted.message["method"] == "ping":
            self.pinged += 1
            if self.mute:
                await reader.read(1)
                return False
        return await super().serve(posted, reader, writer)


class CountingServer(RawHttpServer):
    """A plain server that counts how often it is asked for what it is."""

    discovered = 0

    async def serve(self, posted: Posted, reader: Any, writer: Any) -> bool:
        self.discovered += posted.message["method"] == "server/discover"
        return await super().serve(posted, reader, writer)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> HubSettings:
    """Settings of a hub that looks all the time."""
    monkeypatch.setattr(health_monitor, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(health_monitor, "PING_S", 0.5)
    monkeypatch.setattr(server_health, "FRESH_S", 0.0)
    return HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60, health_s=0.02))


@pytest.fixture
async def scene(tmp_path: Path, soon: HubSettings) -> AsyncIterator[tuple[RunningHub, CheckedServer, MutedServer]]:
    checked = CheckedServer()
    async with checked.server.http() as address, MutedServer() as mute:
        servers = {"checked": ServerSettings(url=address.url), "mute": ServerSettings(url=mute.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=soon) as hub:
            yield hub, checked, mute


def condition(hub: RunningHub, server: str) -> str:
    return hub.hub_app.upstreams[server].condition


async def test_a_server_is_as_well_as_it_says_and_as_it_answers(
    scene: tuple[RunningHub, CheckedServer, MutedServer],
) -> None:
    hub, checked, mute = scene
    await until(lambda: mute.pinged > 2)
    assert condition(hub, "checked") == condition(hub, "mute") == "healthy"
    checked.well = False
    await until(lambda: condition(hub, "checked") == "degraded")
    ping = (await RawClient(hub.url + "/servers/checked/mcp").modern("mgp/health/ping"))["result"]
    assert (ping["status"], ping["server_id"]) == ("degraded", "checked")
    mute.mute = True
    await until(lambda: condition(hub, "mute") == "unhealthy")
    assert hub.hub_app.upstreams["mute"].state is ServerState.CONNECTED, "unhealthy is not dead"
    shown = await hub.operate("health")
    rows = {row["server"]: row for row in shown["servers"]}
    assert shown["status"] == "degraded"
    assert rows["checked"]["reasons"] == ["it says it is degraded"]
    assert "it did not answer the last" in rows["mute"]["reasons"][0]
    [row] = (await hub.operate("health", server="checked"))["servers"]
    assert row["details"]["checks"] == {"database": False}
    status, _, body = await RawClient(hub.url + "/readyz").send("GET")
    assert (status, b'"degraded":1' in body, b'"unhealthy":1' in body) == (200, True, True)
    _, _, page = await RawClient(hub.url + "/metrics", await hub.new_key("boss", "admin")).send("GET")
    assert b'interlock_server_health{health="unhealthy",server="mute"} 1.0' in page
    checked.well, mute.mute = True, False
    await until(lambda: condition(hub, "checked") == condition(hub, "mute") == "healthy")


async def test_a_plain_server_that_answers_calls_is_not_asked(tmp_path: Path, soon: HubSettings) -> None:
    settings = msgspec.structs.replace(soon, timeouts=msgspec.structs.replace(soon.timeouts, health_s=1.0))
    async with CountingServer(modern=True) as plain:
        async with running_hub(tmp_path, {"plain": ServerSettings(url=plain.url)}, hub=settings) as hub:
            await hub.state("plain", ServerState.CONNECTED)
            health, asked = hub.hub_app.upstreams["plain"].health, plain.discovered
            client = RawClient(hub.url + "/mcp")
            while health.checked_at is None:
                assert "result" in await client.modern("tools/call", {"name": "plain__ok", "arguments": {}})
            assert (plain.discovered, health.now) == (asked, Health.HEALTHY)
            assert health.answer_ms is not None

            async def asked_again() -> bool:
                # A dry run uses the server, and says nothing of its health.
                await client.modern("tools/validate", {"name": "plain__ok", "arguments": {}})
                return plain.discovered > asked

            await until(asked_again)


async def test_a_server_that_is_asked_by_name_is_shown_as_it_is_now(tmp_path: Path) -> None:
    checked = CheckedServer()
    async with (
        checked.server.http() as address,
        running_hub(tmp_path, {"checked": ServerSettings(url=address.url)}) as hub,
    ):
        for well, health in ((True, "healthy"), (False, "degraded"), (True, "healthy")):
            checked.well = well
            [row] = (await hub.operate("health", server="checked"))["servers"]
            assert (row["health"], row["details"]["status"]) == (health, health)


async def test_a_server_whose_every_call_fails_is_never_healthy(
    scene: tuple[RunningHub, CheckedServer, MutedServer],
) -> None:
    hub, checked, _ = scene
    client = RawClient(hub.url + "/mcp")
    call: dict[str, Any] = {"name": "checked__work", "arguments": {}}
    checked.works = False
    seen = []
    for _ in range(5):
        await client.modern("tools/call", call)
        await hub.hub_app.health_monitor.check(hub.hub_app.upstreams["checked"])
        seen.append(condition(hub, "checked"))
    assert seen == ["healthy"] * 4 + ["unhealthy"], "whatever it says of itself"
    [row] = (await hub.operate("health", server="checked"))["servers"]
    assert (row["calls"], row["calls_failed"]) == (5, 5)
    assert row["reasons"] == ["5 of its last 5 calls failed"]
    await hub.operate("servers.restart", server="checked")
    await hub.state("checked", ServerState.CONNECTED)
    assert condition(hub, "checked") == "unhealthy", "a restart makes no call succeed"
    checked.works = True
    for _ in range(5):
        await client.modern("tools/call", call)
    assert condition(hub, "checked") == "healthy"


def test_few_failed_calls_say_nothing_of_a_server_but_few_without_an_answer_do() -> None:
    outcomes = CallOutcomes()
    wrong = Outcome("answered", "error", code=-32602)
    for outcome in (TOOL_FAILED, TOOL_FAILED, *[wrong] * 20, LOST, TOOL_FAILED):
        end(outcomes, outcome)
        assert outcomes.health is Health.HEALTHY
    assert (outcomes.counted, outcomes.failed) == (4, 4)
    silent = CallOutcomes()
    for outcome in (LOST, TIMED_OUT, LOST):
        assert silent.health is Health.HEALTHY
        end(silent, outcome)
    assert silent.health is Health.DEGRADED


def test_a_call_that_succeeded_says_once_that_its_server_answers() -> None:
    outcomes = CallOutcomes()
    end(outcomes, SUCCEEDED)
    assert (outcomes.take_success(), outcomes.take_success()) == (1000, None)
    end(outcomes, SUCCEEDED)
    end(outcomes, CANCELLED)
    assert (outcomes.take_success(), outcomes.take_success()) == (None, None)
    assert (outcomes.counted, outcomes.failed, outcomes.usual_ms) == (2, 0, 1.0)


def test_the_worst_of_word_silence_and_calls_counts() -> None:
    outcomes = CallOutcomes()
    health = ServerHealth(outcomes)
    health.on_answer("degraded", 1.0)
    assert health.now is Health.DEGRADED
    for outcome in (LOST, TIMED_OUT, TOOL_FAILED, TOOL_FAILED, LOST):
        end(outcomes, outcome)
    assert health.now is Health.UNHEALTHY
    for _ in range(5):
        end(outcomes, SUCCEEDED)
    end(outcomes, CANCELLED)
    end(outcomes, None)
    assert (outcomes.counted, outcomes.failed) == (10, 5)
    health.on_answer("healthy", 1.0)
    assert health.now is Health.HEALTHY
    health.on_silence()
    assert health.now is Health.DEGRADED
    health.on_connected()
    assert health.now is Health.HEALTHY


def test_a_status_that_nobody_knows_is_not_healthy_and_a_missing_one_is_an_error() -> None:
    health = ServerHealth(CallOutcomes())
    health.on_answer(read_ping(b'{"status":"on fire"}'), 1.0)
    assert (health.now, health.reasons) == (Health.DEGRADED, ["it says it is 'on fire'"]), "its own word"
    health.on_answer(read_ping(b'{"status":"healthy","more":[1]}'), 1.0)
    assert (health.now, health.reasons) == (Health.HEALTHY, [])
    with pytest.raises(Fault, match="cannot be read"):
        read_ping(b'{"uptime_secs":1}')
