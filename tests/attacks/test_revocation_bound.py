"""T49: a hub that cannot know whether a key is good refuses it after a stated time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub, text_of
from interlock.config.settings import HubSettings, LimitSettings, TimeoutSettings
from interlock.hub.auth.principals import Principal
from interlock.store import feed as feed_module
from interlock.store.connect import connect
from interlock.store.postgres import Postgres
from waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ADA = Principal("person:ada", "person")
ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}
LONGER_THAN_ANY_BOUND_S = 60.0
"""A revoked key was good for more than 75 s when nothing bounded it."""


@contextlib.asynccontextmanager
async def two_hubs(tmp_path: Path, store: str, behind_s: float = 5) -> AsyncIterator[tuple[RunningHub, RunningHub]]:
    """Two hubs of one installation on one store."""
    homes = [tmp_path / "north", tmp_path / "south"]
    for home in homes:
        (home / "home").mkdir(parents=True)
        (home / "home" / "keys.secret").write_bytes(bytes(range(100, 132)))
        (home / "home" / "keys.secret").chmod(0o600)

    def settings(name: str) -> HubSettings:
        limits = LimitSettings(store_behind_s=behind_s)
        return HubSettings(store=store, node=name, timeouts=TimeoutSettings(start_s=60), limits=limits, anonymous=False)

    servers = {"busy": child("busy_server.py")}
    async with (
        running_hub(homes[0], servers, hub=settings("north")) as north,
        running_hub(homes[1], servers, hub=settings("south")) as south,
    ):
        yield north, south


async def comes_true(condition: Callable[[], Awaitable[bool]]) -> bool:
    """Whether a condition holds before the longest bound has passed."""
    with contextlib.suppress(AssertionError):
        return await until(condition, LONGER_THAN_ANY_BOUND_S)
    return False


async def caller_at(north: RunningHub, south: RunningHub) -> RawClient:
    """A client of the south with a key that the north made."""
    made = await north.operate("keys.create", ADA, agent="ci")
    client = RawClient(south.url + "/mcp", str(made["key"]))

    async def calls() -> bool:
        return (await client.post(b"{}"))[0] != 401

    assert await comes_true(calls)
    await client.initialize()
    assert text_of(await client.legacy("tools/call", ECHO)) == "x"
    return client


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that are there and do nothing."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    except PermissionError:
        pytest.skip("the database server runs as another user")
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def feed_of(hub: RunningHub) -> Postgres:
    database = hub.hub_app.store.feed.database
    assert isinstance(database, Postgres)
    return database


async def status(client: RawClient) -> int:
    return (await client.post(b"{}"))[0]


async def readiness(hub: RunningHub) -> tuple[int, bytes]:
    answered, _, body = await RawClient(hub.url + "/readyz").send("GET")
    return answered, body


async def test_t49_a_revoked_key_is_refused_although_the_listening_connection_hangs(
    tmp_path: Path, postgres: str
) -> None:
    async with two_hubs(tmp_path, postgres) as (north, south):
        client = await caller_at(north, south)
        with stopped(feed_of(south).backend_pid):
            await north.operate("keys.revoke", ADA, agent="ci")

            async def refused() -> bool:
                return await status(client) == 401

            assert await comes_true(refused)


async def test_t49_a_hub_refuses_while_its_database_is_frozen_and_resumes(tmp_path: Path, postgres: str) -> None:
    async with two_hubs(tmp_path, postgres, behind_s=2) as (north, south):
        client = await caller_at(north, south)
        watcher = connect(postgres)
        rows = watcher.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        backends = [int(str(pid)) for (pid,) in rows]
        with stopped(parent_of(backends[0]), *backends):

            async def refused() -> bool:
                return await status(client) == 503

            assert await comes_true(refused)
            answer: Any = await client.legacy("tools/call", ECHO)
            assert answer["error"]["data"]["name"] == "SERVER_NOT_READY"
            code, body = await readiness(south)
            assert (code, b"keys" in body) == (503, True)
        watcher.close()

        async def answers() -> bool:
            return "result" in (await client.legacy("tools/call", ECHO))

        assert await comes_true(answers)
        assert (await readiness(south))[0] == 200


class StallingProxy:
    """Forwards bytes to a database until it is told to keep those of all present connections."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> StallingProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Present connections stay open and carry nothing meanwhile; new ones work."""
        stalled, self._flowing = self._flowing, asyncio.Event()
        stalled.clear()
        self._flowing.set()
        try:
            yield
        finally:
            stalled.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_unix_connection(self._target)
        flowing = self._flowing
        for source, sink in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._carry(source, sink, flowing))
            self._tasks.add(task)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                await flowing.wait()
                sink.write(data)
                await sink.drain()
        sink.close()


async def test_t49_a_stalled_network_path_costs_one_connection_and_no_revocation(tmp_path: Path, postgres: str) -> None:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(postgres)
    folder = parts["host"]
    with psycopg.connect(postgres) as link:
        port = link.info.port
    async with StallingProxy(f"{folder}/.s.PGSQL.{port}") as proxy:
        user, name = parts["user"], parts["dbname"]
        through = f"postgresql://{user}@127.0.0.1:{proxy.port}/{name}?sslmode=disable&gssencmode=disable"
        async with two_hubs(tmp_path, postgres) as (north, _), stalling_hub(tmp_path, through) as west:
            client = await caller_at(north, west)
            with proxy.stalled():
                await north.operate("keys.revoke", ADA, agent="ci")

                async def refused() -> bool:
                    return await status(client) == 401

                assert await comes_true(refused)


@contextlib.asynccontextmanager
async def stalling_hub(tmp_path: Path, store: str) -> AsyncIterator[RunningHub]:
    home = tmp_path / "west"
    (home / "home").mkdir(parents=True)
    (home / "home" / "keys.secret").write_bytes(bytes(range(100, 132)))
    (home / "home" / "keys.secret").chmod(0o600)
    hub = HubSettings(store=store, node="west", timeouts=TimeoutSettings(start_s=60), anonymous=False)
    async with running_hub(home, {"busy": child("busy_server.py")}, hub=hub) as west:
        yield west


async def test_t49_a_key_revoked_by_another_hub_on_the_same_file_is_refused(tmp_path: Path) -> None:
    async with two_hubs(tmp_path, str(tmp_path / "shared.db")) as (north, south):
        client = await caller_at(north, south)
        await north.operate("keys.revoke", ADA, agent="ci")

        async def refused() -> bool:
            return await status(client) == 401

        assert await comes_true(refused)


@contextlib.contextmanager
def unreadable(database: Path) -> Iterator[None]:
    """A SQLite file whose readers all find it busy: another process holds the locks of WAL's read marks."""
    script = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 5, 123); input()"
    locker = subprocess.Popen([sys.executable, "-c", script, f"{database}-shm"], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        locker.communicate(b"\n")


async def test_t49_a_hub_refuses_while_its_file_cannot_be_read_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "STALLED_S", 0.5)
    store = tmp_path / "shared.db"
    async with two_hubs(tmp_path, str(store), behind_s=2) as (north, south):
        client = await caller_at(north, south)
        with unreadable(store):

            async def refused() -> bool:
                return await status(client) == 503

            assert await comes_true(refused)

        async def answers() -> bool:
            return "result" in (await client.legacy("tools/call", ECHO))

        assert await comes_true(answers)
