"""Contained servers behind a hub: they work, reach nothing else, and are refused where a limit cannot be enforced."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import SandboxSettings, ServerSettings
from interlock.containment.backends import reports
from interlock.events import EventFilter
from interlock.events.types import ServerStateChanged
from interlock.hub.upstreams import restart_plan
from interlock.hub.upstreams.states import ServerState

from .running_hub import HERE, SOURCE, RawClient, child, running_hub, until

pytestmark = [pytest.mark.anyio]

SERVES = [report.backend for report in reports() if not report.missing]


def contained(**sandbox: Any) -> Any:
    # The library is installed beside the servers elsewhere; here it is read from the checkout.
    read = (str(SOURCE), str(HERE / "peeking_server.py"))
    return child("peeking_server.py", isolation="sandbox", sandbox=SandboxSettings(read=read, **sandbox))


async def called(client: RawClient, name: str, arguments: dict[str, Any]) -> Any:
    return (await client.modern("tools/call", {"name": name, "arguments": arguments}))["result"]


@pytest.mark.skipif(not SERVES, reason=f"no backend serves on this machine: {[r.missing for r in reports()]}")
async def test_t44_a_contained_server_reaches_nothing_that_a_plain_one_reaches(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    servers = {"plain": child("peeking_server.py"), "held": contained()}
    async with running_hub(tmp_path, servers) as hub:
        client = RawClient(f"{hub.url}/mcp")
        port = int(hub.url.rpartition(":")[2])
        process = f"/proc/{os.getpid()}/cmdline"
        attempts = (("read", {"path": str(secret)}), ("connect", {"port": port}), ("read", {"path": process}))
        for tool, arguments in attempts:
            outside = await called(client, f"plain__{tool}", arguments)
            inside = await called(client, f"held__{tool}", arguments)
            assert (outside.get("isError", False), inside["isError"]) == (False, True), (tool, inside)
        home = (await called(client, "held__home", {}))["content"][0]["text"]
        assert home == str((tmp_path / "home" / "contained" / "held" / "home").resolve())
        shown = {server["id"]: server for server in (await hub.operate("status"))["servers"]}
        assert (shown["plain"]["isolation"], shown["held"]["isolation"]) == ("none", "sandbox")
        assert shown["held"]["limits"].startswith("no network; 2 paths to read, 0 to write; 512 MB, 1 CPU")


async def test_t44_a_server_whose_limits_cannot_be_enforced_is_not_started(tmp_path: Path) -> None:
    servers = {"asks": contained(hosts=("example.com",), backend="bubblewrap")}
    async with running_hub(tmp_path, servers, wait=False) as hub:
        upstream = hub.hub_app.upstreams["asks"]
        await until(lambda: upstream.problem is not None)
        assert upstream.problem is not None
        expected = "cannot limit the network to named hosts" if sys.platform == "linux" else "needs Linux"
        assert expected in upstream.problem.message
        assert upstream.state is not ServerState.CONNECTED
        assert upstream.pid is None


@pytest.mark.skipif(not SERVES, reason=f"no backend serves on this machine: {[r.missing for r in reports()]}")
async def test_a_server_that_fails_over_a_denied_path_is_shown_with_the_way_to_allow_it(tmp_path: Path) -> None:
    (secret := tmp_path / "secret").write_text("the secret")
    code = f"try: open({str(secret)!r})\nexcept OSError: raise SystemExit('EACCES: permission denied, open')"
    failing = ServerSettings(command=(sys.executable, "-c", code), isolation="sandbox")
    async with running_hub(tmp_path, {"held": failing}, wait=False) as hub:
        upstream = hub.hub_app.upstreams["held"]
        await until(lambda: upstream.problem is not None)
        [shown] = (await hub.operate("status"))["servers"]
        assert "[servers.held.sandbox]" in shown["hint"], shown


@pytest.mark.skipif(not SERVES, reason=f"no backend serves on this machine: {[r.missing for r in reports()]}")
async def test_a_server_whose_time_is_nearly_over_is_restarted_after_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart_plan, "END_EARLY_S", 3599.9)
    async with running_hub(tmp_path, {"held": contained(time_s=3600)}, wait=False) as hub:
        told: list[tuple[str, str]] = []
        with hub.hub_app.bus.subscribe(EventFilter.of(ServerStateChanged), limit=64) as changes:
            async for change in changes:
                assert isinstance(change, ServerStateChanged)
                told.append((change.after, change.cause))
                if change.after == "draining":
                    monkeypatch.setattr(restart_plan, "END_EARLY_S", 15.0)
                if told[-1] == ("connected", "resource_limit"):
                    break
        assert told[-3:-1] == [("draining", "resource_limit"), ("restarting", "resource_limit")]
