"""Where a user's hub keeps its things, and where its configuration is looked for. Only paths; nothing is created."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def home_folder(environ: Mapping[str, str] | None = None) -> Path:
    """`$INTERLOCK_HOME`, or the place this system keeps a program's state."""
    env = os.environ if environ is None else environ
    if named := env.get("INTERLOCK_HOME"):
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "interlock"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "interlock"
    return Path(env.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "interlock"


def user_config(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own `interlock.toml`, whether it exists or not."""
    env = os.environ if environ is None else environ
    if sys.platform == "win32":
        return Path(env.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "interlock" / "interlock.toml"
    return Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "interlock" / "interlock.toml"


def socket_path(home: Path) -> Path:
    return home / "run" / "hub.sock"


def info_path(home: Path) -> Path:
    return home / "run" / "hub.json"


def lock_path(home: Path) -> Path:
    return home / "run" / "hub.lock"


def log_path(home: Path) -> Path:
    return home / "run" / "hub.log"
