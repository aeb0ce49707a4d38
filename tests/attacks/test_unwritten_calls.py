"""T34: the hub makes no calls while it cannot record them, and `/readyz` says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub
from interlock.config.settings import Hub, Timeouts
from interlock.hub.audit import write_failures
from interlock.hub.audit.search import search
from interlock.store import sqlite as sqlite_module
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


async def call(hub: RunningHub) -> Any:
    return await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)


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
    hub_settings = Hub(timeouts=Timeouts(start_s=120))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        recorder, executed = hub.hub_app.recorder, 0
        with locked(tmp_path / "home" / "hub.db"):
            async with asyncio.timeout(WITHIN_S):
                while not recorder._strict:
                    held = asyncio.ensure_future(call(hub))
                    while not held.done() and not recorder._strict:
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
    hub_settings = Hub(audit=mode, timeouts=Timeouts(start_s=120))
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
            assert "load of the machine" in refused["data"]["hint"]
        assert "result" in await waiting
        await until(lambda: is_ready(hub, True))
        assert "result" in await call(hub)
