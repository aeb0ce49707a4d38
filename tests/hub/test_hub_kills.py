"""F1: a whole hub is killed again and again under load, and held to everything it had said and done until then."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import forking
from interlock.cli.control.hub_link import HubLink
from interlock.hub.approvals.decision import DECISIONS
from interlock.hub.approvals.states import DecisionState
from interlock.hub.audit.chain import record_of
from interlock.hub.audit.heads import heads_of
from interlock.hub.audit.record import EXECUTED, GAP, INTENDED, Record
from interlock.hub.audit.verify import verify
from interlock.store import records
from interlock.store.connect import connect
from interlock.store.documents import find

from .running_hub import HERE, SOURCE, RawClient, until

AT_ONCE = 12
ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
"""`make faults` kills many more hubs than a run of the tests."""
KILLS = {"strict": (1, 60, 25, 110) * ROUNDS, "batched": (90, 5, 40) * ROUNDS}
"""After so many answers the hub is killed, in the middle of whatever it does."""
MAX_LOST = 2000 * ROUNDS
"""Upper bound for the calls in a flush window of 20 ms under this load, on a slow machine too."""

pytestmark = pytest.mark.slow


class KilledHub:
    """One hub of one user, over all its lives."""

    def __init__(self, root: Path, where: str, mode: str) -> None:
        self.where = where
        self.home = root / "h"
        self.log = root / "executed"
        self.config = root / "interlock.toml"
        self._last: int | None = None
        """The process of the latest life."""
        server = json.dumps(forking.command(str(HERE / "executing_server.py"), str(self.log)))
        self.config.write_text(
            f"[hub]\nlisten = '127.0.0.1:0'\naudit = '{mode}'\nstore = {json.dumps(where)}\n"
            "[hub.approvals]\nhold_s = 0\n"
            f"[servers.s]\ncommand = {server}\nera = 'legacy'\n[agents.local]\nask = ['s__careful']\n"
        )
        self.environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(root)}
        self.environ |= {"INTERLOCK_HOME": str(self.home), "XDG_CONFIG_HOME": str(root / "c")}

    @contextlib.asynccontextmanager
    async def life(self) -> AsyncIterator[str]:
        """The address of a running hub, which is killed at the end, wherever it is."""
        command = forking.command("-P", "-m", "interlock.cli", "up", "--config", str(self.config))
        quiet = subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, env=self.environ, stdin=quiet, stdout=quiet, stderr=quiet
        )
        pid = process.pid
        try:
            await until(lambda: self._pid() not in (None, self._last))
            pid = self._last = self._info()["pid"]
            listen = self._info()["listen"]
            await ready(listen)
            yield f"http://{listen}/mcp"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await process.wait()

    def executed(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def _info(self) -> dict[str, Any]:
        found = json.loads((self.home / "run" / "hub.json").read_text())
        assert isinstance(found, dict)
        return found

    def _pid(self) -> int | None:
        """The process that wrote the file: of this life, or of the one before."""
        return self._info()["pid"] if (self.home / "run" / "hub.json").exists() else None


async def ready(listen: str) -> None:
    async def is_ready() -> bool:
        return (await RawClient(f"http://{listen}/readyz").send("GET"))[0] == 200

    await until(is_ready)


async def load(url: str, life: int, answers: int) -> list[str]:
    """Many callers at once, until so many calls were answered well; which those were."""
    answered: list[str] = []
    enough = asyncio.Event()

    async def caller(number: int) -> None:
        count = 0
        while True:
            count += 1
            name = f"{life}-{number}-{count}"
            with contextlib.suppress(OSError, IndexError, ValueError):
                told = await RawClient(url).modern("tools/call", {"name": "s__execute", "arguments": {"id": name}})
                if told is not None and told.get("result", {}).get("content", [{}])[0].get("text") == name:
                    answered.append(name)
            if len(answered) >= answers:
                enough.set()
                return

    callers = [asyncio.ensure_future(caller(number)) for number in range(AT_ONCE)]
    try:
        await asyncio.wait_for(enough.wait(), 120)
    finally:
        for task in callers:
            task.cancel()
    return answered


@pytest.fixture
def root() -> Iterator[Path]:
    """Short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="ilk", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


async def lives(hub: KilledHub, mode: str) -> tuple[set[str], set[str], str]:
    """Every life of a hub and its end: what was answered well, what was granted, and which question is open."""
    answered: set[str] = set()
    granted: set[str] = set()
    question = ""
    session: str | None = None
    for life, answers in enumerate(KILLS[mode]):
        async with hub.life() as url:
            session = await spoke(hub, url, session)
            if not question:
                told = await RawClient(url).modern("tools/call", {"name": "s__careful", "arguments": {"id": "asked"}})
                question = told["result"]["_meta"]["dev.interlock/error"]["decision"]
            await asyncio.to_thread(grant, hub.home, f"agent-{life}")
            granted.add(f"agent-{life}")
            answered |= set(await load(url, life, answers))
    async with hub.life():
        report = await asyncio.to_thread(asked, hub.home, "hub/audit.verify")
        assert report["sound"], report["findings"]
    return answered, granted, question


async def spoke(hub: KilledHub, url: str, session: str | None) -> str:
    """Speak in the session of the first life, which is opened there."""
    client = RawClient(url)
    if session is None:
        await client.initialize()
        await until(lambda: (hub.home / "sessions.kept").read_bytes() != b"")
    else:
        client.session = session
    assert (await client.legacy("ping", {}))["result"] == {}
    assert client.session is not None
    return client.session


def grant(home: Path, agent: str) -> None:
    about = {"entry_type": "server_grant", "agent_id": agent, "server_id": "s", "permission": "allow"}
    assert asked(home, "hub/grants.grant", **about)["granted"]


def asked(home: Path, method: str, **params: object) -> dict[str, Any]:
    """As a person at a terminal asks it."""
    with patch("interlock.cli.control.hub_link.is_attended", return_value=True), HubLink.open(home) as link:
        return link.ask(method, params)


def recorded(hub: KilledHub) -> list[Record]:
    database = connect(hub.where, read_only=True)
    try:
        chains = records.chains(database)
        found = [record_of(row.body) for chain in chains for row in records.in_order(database, chain)]
        report = verify(database, heads_of(hub.home))
        assert report.sound, report.findings
        return found
    finally:
        database.close()


def of(name: str) -> str:
    return hashlib.sha256(json.dumps({"id": name}, separators=(",", ":")).encode()).hexdigest()


async def test_strict_every_executed_call_has_its_intent_and_nothing_that_was_said_is_lost(
    where: str, root: Path
) -> None:
    hub = KilledHub(root, where, "strict")
    answered, granted, question = await lives(hub, "strict")
    entries = recorded(hub)
    intended = {entry.arguments for entry in entries if entry.event in (INTENDED, *EXECUTED.values())}
    executed = hub.executed()
    assert len(executed) >= sum(KILLS["strict"])
    assert {name for name in executed if of(name) not in intended} == set(), "executed without an intent"
    assert {name for name in answered if of(name) not in intended} == set()
    assert answered <= set(executed), "nothing was answered that was not done"
    assert len(executed) == len(set(executed)), "nothing was done twice"
    ended = {entry.intent for entry in entries}
    open_ones = [entry for entry in entries if entry.event == INTENDED and entry.seq not in ended]
    last = max(entry.seq for entry in entries if entry.event == "dev.interlock.audit_opened")
    assert not [entry for entry in open_ones if entry.seq < last], "a call of an earlier life without an end"
    told = {entry.details["agent_id"] for entry in entries if entry.event == "ACCESS_GRANTED"}
    assert granted <= told
    still_open(hub, question)


async def test_batched_what_is_missing_is_bounded_found_and_recorded(where: str, root: Path) -> None:
    hub = KilledHub(root, where, "batched")
    answered, granted, question = await lives(hub, "batched")
    entries = recorded(hub)
    there = {entry.arguments for entry in entries}
    lost = sum(int(str(entry.details.get("lost", 0))) for entry in entries if entry.event == GAP)
    missing = [name for name in hub.executed() if of(name) not in there]
    assert len(missing) <= lost <= MAX_LOST
    assert not [entry for entry in entries if entry.event == GAP and entry.details.get("cut")]
    assert answered <= set(hub.executed())
    assert granted <= {entry.details["agent_id"] for entry in entries if entry.event == "ACCESS_GRANTED"}
    still_open(hub, question)


def still_open(hub: KilledHub, question: str) -> None:
    database = connect(hub.where, read_only=True)
    states = {found.key: found.value.state for found in find(database, DECISIONS, {})}
    database.close()
    assert states[question] is DecisionState.OPEN
