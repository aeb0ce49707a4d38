"""A hub loads only the modules that it needs: an idle hub on a laptop pays for no others."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from hub.running_hub import SOURCE
from interlock.version import VERSION

EXTRAS = ("joserfc", "cryptography", "prometheus_client", "opentelemetry", "psycopg")
LATER = (
    "starlette",
    "uvicorn",
    "multiprocessing",
    "logging.config",
    "email",
    "jsonschema_rs",
    "re2",
    "html",
    "http.client",
    "importlib.metadata",
    "numpy",
    "tree_sitter",
    "zipfile",
    "importlib.resources",
    "gzip",
    "dataclasses",
    "interlock.config.imports",
    "interlock.judge.code.vocabulary",
)
"""Modules that wait for the first request, call or definition that needs them."""


def test_a_hub_without_extras_loads_none_of_them() -> None:
    script = f"import sys, interlock.web.run; print([name for name in {EXTRAS + LATER!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_hub_reads_its_own_tables_without_what_reads_archives() -> None:
    script = (
        "import sys; from interlock.discovery.thesaurus import related; from interlock.judge.instructions import load;"
        "from interlock.store.schema import steps; load(); related('find');"
        "print(bool(steps()), 'zipfile' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


def test_a_join_of_a_topic_loads_nothing_more() -> None:
    script = (
        "import sys, interlock.web.run, interlock.rooms.upgrade; from interlock.rooms.topics import load_rooms;"
        "load_rooms(); loaded = set(sys.modules);"
        "import interlock.rooms.room, interlock.rooms.local_participant, interlock.rooms.proposal_inbox;"
        "import interlock.rooms.hub_tool_server, interlock.rooms.tool_participants, interlock.rooms.visitors;"
        "import interlock.transports.websocket; print(sorted(set(sys.modules) - loaded))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


REPLACED = """
import asyncio, os, shutil, signal, sys
from pathlib import Path
import interlock
from interlock.config.settings import Config, HubSettings
from interlock.web.run import serve

def replace(ready):
    shutil.rmtree(Path(interlock.__file__).parent)
    os.kill(os.getpid(), signal.SIGTERM)

asyncio.run(serve(Config(hub=HubSettings(listen="127.0.0.1:0")), Path(sys.argv[1]), replace))
"""


def test_a_hub_whose_package_is_replaced_while_it_runs_ends_in_order(tmp_path: Path) -> None:
    shutil.copytree(SOURCE / "interlock", tmp_path / "interlock", ignore=shutil.ignore_patterns("*.pyc.*"))
    done = subprocess.run(
        [sys.executable, "-c", REPLACED, str(tmp_path / "home")],
        env={"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_console_loads_its_templates_with_its_first_page() -> None:
    script = "import sys, interlock.web.app; print('jinja2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_the_version_is_the_one_that_is_released() -> None:
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION
