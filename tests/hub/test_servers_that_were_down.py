"""A server that is down comes back when it can: by itself, with a call, with a command; and never where that is set."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import forking
from interlock.config.settings import RestartSettings, ServerSettings
from interlock.hub.upstreams import restart_plan
from interlock.hub.upstreams.restarts import UNREACHED_S, Restarts
from interlock.hub.upstreams.states import ServerState

from .busy_server import busy_server
from .running_hub import HERE, SOURCE, RawClient, RunningHub, running_hub, text_of, until

ECHO: dict[str, Any] = {"name": "late__echo", "arguments": {"text": "a"}}
SOON = RestartSettings(max_restarts=2, backoff_base_ms=10, backoff_max_ms=20)
HOURLY = RestartSettings(backoff_base_ms=3_600_000, backoff_max_ms=3_600_000)


@pytest.fixture(autouse=True)
def eager_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_plan, "TRY_EVERY_S", 0.0)


def late(tmp_path: Path, restart: RestartSettings) -> ServerSettings:
    """A server whose program is not there until `install`."""
    env = {"PYTHONPATH": str(SOURCE)}
    return ServerSettings(command=(str(tmp_path / "program"),), env=env, era="modern", restart=restart)


def install(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    line = shlex.join(forking.command(str(HERE / "busy_server.py")))
    draft.write_text(f"#!/bin/sh\nexec {line}\n")
    draft.chmod(0o755)
    shutil.move(draft, tmp_path / "program")


def tries(hub: RunningHub) -> int:
    return hub.hub_app.upstreams["late"].restarts.total


async def test_a_program_that_is_installed_later_is_started_without_a_word(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"late": late(tmp_path, SOON)}, wait=False) as hub:
        await until(lambda: tries(hub) > 2 * SOON.max_restarts)
        install(tmp_path)
        await hub.state("late", ServerState.CONNECTED)
        assert text_of(await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)) == "a"


async def test_an_address_where_nothing_listened_is_reached_later(tmp_path: Path) -> None:
    async with busy_server().http() as address:
        url, port = address.url, address.port
    async with running_hub(tmp_path, {"late": ServerSettings(url=url, restart=SOON)}, wait=False) as hub:
        await until(lambda: tries(hub) > 2 * SOON.max_restarts)
        async with busy_server().http(port=port):
            await hub.state("late", ServerState.CONNECTED)
            assert text_of(await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)) == "a"


async def test_a_call_says_why_the_server_is_down_and_has_it_tried_at_once(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"late": late(tmp_path, HOURLY)}, wait=False) as hub:
        await hub.state("late", ServerState.ERROR)
        client = RawClient(hub.url + "/mcp")
        refused = (await client.modern("tools/call", ECHO))["error"]
        assert refused["message"].startswith("server late is down because command not found: ")
        assert refused["data"]["name"] == "SERVER_NOT_READY"
        assert refused["data"]["retry_after_ms"] >= 1000
        assert "install it" in refused["data"]["hint"]
        assert (await hub.operate("why"))["refusal"]["rule"] == "the server must be connected"
        await until(lambda: tries(hub) == 2)
        install(tmp_path)
        await client.modern("tools/call", ECHO)
        await hub.state("late", ServerState.CONNECTED)


async def test_a_call_to_a_known_tool_waits_for_the_server_that_it_brought_back(tmp_path: Path) -> None:
    install(tmp_path)
    async with running_hub(tmp_path, {"late": late(tmp_path, HOURLY)}) as hub:
        client = RawClient(hub.url + "/mcp")
        (tmp_path / "program").unlink()
        await client.modern("tools/call", {"name": "late__die", "arguments": {}})
        await hub.state("late", ServerState.ERROR)
        refused = (await client.modern("tools/call", ECHO))["error"]
        assert refused["message"].startswith("server late is down because command not found: ")
        install(tmp_path)
        assert text_of(await client.modern("tools/call", ECHO)) == "a"


async def test_calls_do_not_bring_back_a_server_that_is_never_restarted_but_a_person_does(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"late": late(tmp_path, RestartSettings(policy="never"))}, wait=False) as hub:
        await hub.state("late", ServerState.ERROR)
        install(tmp_path)
        client = RawClient(hub.url + "/mcp")
        for _ in range(3):
            refused = (await client.modern("tools/call", ECHO))["error"]
            assert refused["message"].startswith("server late is down because ")
        assert tries(hub) == 0
        assert hub.hub_app.upstreams["late"].state is ServerState.ERROR
        await hub.operate("servers.restart", server="late")
        await hub.state("late", ServerState.CONNECTED)


async def test_reading_the_configuration_again_tries_servers_that_are_down(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"late": late(tmp_path, HOURLY)}, wait=False) as hub:
        await hub.state("late", ServerState.ERROR)
        install(tmp_path)
        await hub.hub_app.apply(hub.hub_app.config)
        await hub.state("late", ServerState.CONNECTED)


async def test_a_server_that_ends_too_often_is_recorded_as_such(tmp_path: Path) -> None:
    install(tmp_path)
    async with running_hub(tmp_path, {"late": late(tmp_path, RestartSettings(max_restarts=0))}) as hub:
        await RawClient(hub.url + "/mcp").modern("tools/call", {"name": "late__die", "arguments": {}})
        await hub.state("late", ServerState.ERROR)
        found = await hub.operate("audit.search", event="SERVER_DISCONNECTED")
        assert "restart_limit_exceeded" in repr(found)


def test_pauses_between_tries_to_reach_a_server_grow_to_a_minute_and_never_end() -> None:
    restarts = Restarts(RestartSettings())
    pauses = [restarts.pause_unreached() for _ in range(100)]
    for pause, base in zip(pauses, (1, 2, 4, 8, 16, 32, *[UNREACHED_S] * 94), strict=True):
        assert pause is not None
        assert 0.8 * base <= pause <= 1.2 * base
    restarts.reached()
    assert (restarts.pause_unreached() or 0) < 2
