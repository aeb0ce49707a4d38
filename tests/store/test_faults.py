"""Full disks, read-only disks, locks, servers that restart or hang: a clear error, nothing half written, recovery."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.store import Store, StoreBusy, StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from interlock.store import sqlite as sqlite_module
from interlock.store import writer as writer_module
from interlock.store.connect import connect, sqlite_path
from interlock.store.postgres import Postgres
from waiting import until

from .things import THINGS, Thing

pytestmark = pytest.mark.anyio


async def put(store: Store, *things: Thing) -> None:
    async with store.transaction() as change:
        for thing in things:
            change.put(THINGS, thing)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process of the database server that does nothing meanwhile."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except PermissionError:
        pytest.skip("the server runs as another user")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("a disk can be mounted by root alone")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_refuses_loses_nothing_and_recovers_with_free_space(small_disk: Path) -> None:
    store = await Store.open(small_disk / "hub.db", [THINGS])
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 400_000)
    kept = 0

    async def fill() -> None:
        nonlocal kept
        while True:
            await put(store, Thing(f"{kept:04}", "o" * 20_000))
            kept += 1

    with pytest.raises(StoreFull) as caught:
        await fill()
    assert caught.value.hint
    assert len(await store.find(THINGS)) == kept
    ballast.unlink()
    await put(store, Thing("after", "o" * 20_000))
    assert len(await store.find(THINGS)) == kept + 1
    await store.close()
    check = connect(str(small_disk / "hub.db"))
    assert check.execute("PRAGMA integrity_check") == [("ok",)]
    check.close()


def unusable_lock(folder: Path) -> Path:
    """Replace the lock of a node by a folder, so that nobody can open it."""
    (lock,) = folder.glob("*.lock")
    lock.unlink()
    lock.mkdir()
    return lock


async def test_a_hub_that_cannot_ask_for_its_node_says_so_and_names_no_other_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.store.store.CLAIM_S", 0.5)
    await (await Store.open(tmp_path / "hub.db", [THINGS], node="north")).close()
    lock = unusable_lock(tmp_path)
    with pytest.raises(StoreUnavailable, match="could not be asked which hub is the node 'north'") as refused:
        await Store.open(tmp_path / "hub.db", [THINGS], node="north")
    assert "Is a directory" in refused.value.operator_text
    assert "another hub" not in refused.value.for_operators
    assert "`node`" not in refused.value.hint
    lock.rmdir()
    await (await Store.open(tmp_path / "hub.db", [THINGS], node="north")).close()


async def test_a_read_only_disk_raises_its_own_error(small_disk: Path) -> None:
    await (await Store.open(small_disk / "hub.db", [THINGS])).close()
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreReadOnly) as caught:
        await Store.open(small_disk / "hub.db", [THINGS])
    assert "writable" in caught.value.hint
    with pytest.raises(StoreReadOnly):
        await Store.open(small_disk / "folder" / "new.db", [THINGS])


async def test_a_file_that_is_deleted_or_replaced_is_not_written_any_more(tmp_path: Path) -> None:
    path, away = tmp_path / "hub.db", tmp_path / "away.db"
    store = await Store.open(path, [THINGS])
    await put(store, Thing("before"))
    path.rename(away)
    with pytest.raises(StoreReadOnly, match="deleted or replaced"):
        await put(store, Thing("into a file without a path"))
    assert not path.exists(), "no empty database takes its place"
    path.write_bytes(away.read_bytes())
    with pytest.raises(StoreReadOnly, match="deleted or replaced") as caught:
        await put(store, Thing("into another file"))
    assert "interlock restore" in caught.value.hint
    path.unlink()
    away.rename(path)
    await put(store, Thing("after"))
    assert [thing.value.id for thing in await store.find(THINGS)] == ["after", "before"]
    await store.close()


LIMITED = """
import asyncio, resource, signal, sys
from interlock.store import Store, StoreError
from store.things import THINGS, Thing

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = await Store.open(sys.argv[1], [THINGS])
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    kept = 0
    try:
        while kept < 1000:
            async with store.transaction() as change:
                change.put(THINGS, Thing(f"{kept:04}", "o" * 5_000))
            kept += 1
    except StoreError as error:
        print(kept, type(error).__name__, bool(error.hint), flush=True)

asyncio.run(main())
"""


async def test_a_file_that_may_not_grow_loses_no_acknowledged_change(tmp_path: Path) -> None:
    where = tmp_path / "hub.db"
    tests = Path(__file__).parent.parent
    env = {"PYTHONPATH": f"{tests}:{tests.parent / 'src'}"}
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", LIMITED, str(where)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    kept, kind, mendable = child.stdout.split()
    assert (kind in ("StoreFull", "StoreUnavailable"), mendable) == (True, "True"), child.stderr
    store = await Store.open(where, [THINGS])
    assert len(await store.find(THINGS)) == int(kept)
    await store.close()


async def test_a_database_that_another_process_holds_is_busy_until_it_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_module, "BUSY_S", 0.1)
    store = await Store.open(tmp_path / "hub.db", [THINGS])
    other = sqlite3.connect(tmp_path / "hub.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        await put(store, Thing("a"))
    assert await store.find(THINGS) == []
    other.execute("ROLLBACK")
    other.close()
    await put(store, Thing("a"))
    await store.close()


async def test_a_file_that_is_no_database_is_not_opened_or_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    path.write_bytes(b"precious" * 1000)
    with pytest.raises(StoreDamaged):
        await Store.open(path, [THINGS])
    assert path.read_bytes() == b"precious" * 1000


async def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "home" / "hub.db"
    await (await Store.open(path, [THINGS])).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_full_queue_refuses_further_changes(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_WAITING", 3)
    store = await Store.open(where, [THINGS])
    results = await asyncio.gather(*(put(store, Thing(str(n))) for n in range(10)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, StoreBusy)]
    assert len(refused) == 7
    assert len(await store.find(THINGS)) == 3
    await store.close()


async def test_an_address_without_a_server_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await Store.open("postgresql://hub:hunter2@127.0.0.1:1/x", [THINGS])
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint


async def test_a_server_that_drops_every_connection_is_connected_to_again_unnoticed(postgres: str) -> None:
    store = await Store.open(postgres, [THINGS])
    mirror = await store.mirror(THINGS)
    await put(store, Thing("before"))
    killer = connect(postgres)
    killer.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid()"
    )
    killer.close()
    assert [document.key for document in await store.find(THINGS)] == ["before"]
    await put(store, Thing("after"))
    assert {document.key for document in await store.find(THINGS)} == {"before", "after"}
    assert mirror.get("after") is not None
    await store.close()


async def test_a_process_without_descriptors_says_so(tmp_path: Path) -> None:
    script = (
        "import os, resource, sys\n"
        "from interlock.store import StoreError\nfrom interlock.store.connect import connect\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); held = []\n"
        "try:\n    while True: held.append(os.open(os.devnull, os.O_RDONLY))\nexcept OSError: pass\n"
        "try:\n    connect(sys.argv[1])\nexcept StoreError as error: print(error.message, '|', error.hint)"
    )
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script, str(tmp_path / "hub.db")],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "no file descriptor is left" in child.stdout, child.stderr
    assert "ulimit" in child.stdout


async def test_a_connection_that_hangs_is_replaced_in_time(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_COMMIT_S", 0.2)
    store = await Store.open(postgres, [THINGS])
    pid = await store.commit(lambda database: database.execute("SELECT pg_backend_pid()")[0][0])
    assert isinstance(pid, int)
    with stopped(pid):
        await put(store, Thing("a"))
        await put(store, Thing("b"))
    assert {document.key for document in await store.find(THINGS)} == {"a", "b"}
    await store.close()


async def test_changes_of_another_node_arrive_after_the_connection_broke(postgres: str) -> None:
    one = await Store.open(postgres, [THINGS])
    two = await Store.open(postgres, [THINGS])
    here, there = await one.mirror(THINGS), await two.mirror(THINGS)
    await put(one, Thing("a", "x"))
    await until(lambda: there.get("a") == Thing("a", "x"))
    assert two.behind_s() < 10
    killer = connect(postgres)
    assert isinstance(two.feed.database, Postgres)
    killer.execute("SELECT pg_terminate_backend(?)", (two.feed.database.backend_pid,))
    killer.close()
    await put(one, Thing("b"))
    async with one.transaction() as change:
        change.delete(THINGS, "a")
    await until(lambda: there.get("b") is not None and there.get("a") is None)
    await put(two, Thing("c"))
    await until(lambda: here.get("c") is not None)
    await one.close()
    await two.close()


async def test_a_purged_deletion_still_reaches_other_nodes(postgres: str) -> None:
    from interlock.store import documents

    one = await Store.open(postgres, [THINGS])
    await put(one, Thing("a"), Thing("b"))
    mirror = await one.mirror(THINGS)
    two = await Store.open(postgres, [THINGS])
    await until(lambda: one.feed.database is not None)
    assert isinstance(one.feed.database, Postgres)
    with stopped(one.feed.database.backend_pid):
        async with two.transaction() as change:
            change.delete(THINGS, "a")
        await two.commit(lambda database: documents.forget_deleted(database, 2**53))
        assert mirror.get("a") is not None
    await until(lambda: mirror.get("a") is None)
    assert mirror.get("b") is not None
    await one.close()
    await two.close()


def not_a_database(where: Path) -> None:
    where.write_bytes(b"not a database" * 1000)


def a_folder(where: Path) -> None:
    where.mkdir()


def below_a_file(where: Path) -> None:
    where.parent.rmdir()
    where.parent.write_text("not a folder")


@pytest.mark.parametrize("spoil", [not_a_database, a_folder, below_a_file])
async def test_only_operators_read_the_place_of_a_database(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    where = tmp_path / "place" / "hub.db"
    where.parent.mkdir()
    spoil(where)
    with pytest.raises(StoreError) as failed:
        await Store.open(where, [THINGS])
    assert str(tmp_path) not in f"{failed.value}{failed.value.message}{failed.value.hint}"
    assert str(where) in failed.value.for_operators


async def test_only_operators_read_the_place_of_a_backup(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "hub.db", [THINGS])
    file = tmp_path / "file"
    not_a_database(file)
    for attempt, path in ((store.restore, tmp_path / "missing"), (store.restore, file), (store.backup, file / "copy")):
        with pytest.raises(StoreError) as failed:
            await attempt(path)
        assert str(tmp_path) not in f"{failed.value}{failed.value.message}{failed.value.hint}"
        assert str(tmp_path) in failed.value.for_operators
    await store.close()


async def test_only_operators_read_the_key_and_the_content_of_a_damaged_entry(tmp_path: Path) -> None:
    where = tmp_path / "hub.db"
    store = await Store.open(where, [THINGS])
    await put(store, Thing("alice-key"))
    await store.commit(lambda database: database.execute("UPDATE documents SET body = '{}'"))
    with pytest.raises(StoreDamaged) as failed:
        await store.get(THINGS, "alice-key")
    assert "alice" not in failed.value.message
    assert "alice" in failed.value.for_operators
    await store.close()


@pytest.mark.parametrize(
    ("where", "path"),
    [("sqlite:///var/hub.db", "/var/hub.db"), ("sqlite:hub.db", "hub.db"), ("hub%20b.db", "hub%20b.db"),
     ("sqlite:///a%20b.db", "/a b.db")],
)  # fmt: skip
async def test_a_url_names_a_file(where: str, path: str) -> None:
    assert sqlite_path(where) == Path(path)


async def test_a_url_with_a_host_names_no_file() -> None:
    with pytest.raises(StoreError):
        sqlite_path("sqlite://host/hub.db")


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://joe:HUSH%zzHUSH@127.0.0.1:1/db",
        "postgresql://joe:HUSH/HUSH@127.0.0.1:1/db",
        "postgresql://joe:HUSH HUSH@[bad/db",
        "postgresql://joe@127.0.0.1:1/db?nosuch=HUSH",
        "postgresql://joe:HUSH@127.0.0.1:1/db",
        "mysql://joe:HUSH@host/db",
        "sqlite://joe:HUSH@host/hub.db",
    ],
)
async def test_t23_an_address_that_cannot_be_used_is_refused_without_its_password(where: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        connect(where)
    assert "HUSH" not in refused.value.for_operators + refused.value.hint
    assert refused.value.hint


async def test_a_hub_has_its_name_also_where_the_lock_file_cannot_say_who_holds_it(tmp_path: Path) -> None:
    where = str(tmp_path / "hub.db")
    await (await Store.open(where, [THINGS], node="north")).close()
    make_unwritable(tmp_path)
    store = await Store.open(where, [THINGS], node="north")
    read_at = store.feed.current_at
    await until(lambda: store.feed.current_at > read_at)
    await store.close()


def make_unwritable(folder: Path) -> None:
    """A lock file that can be locked, but not written, as on a full disk."""
    (lock,) = folder.glob("*.lock")
    lock.unlink()
    os.mkfifo(lock)
