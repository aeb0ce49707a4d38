"""The user's name and folders, and the paths of the hub's files. No function here creates anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def user_home(environ: Mapping[str, str] | None = None) -> Path:
    """The user's home folder. Where the system knows none, as in many containers, it is `$INTERLOCK_HOME`."""
    env = os.environ if environ is None else environ
    try:
        return Path.home()
    except RuntimeError:
        if named := env.get("INTERLOCK_HOME"):
            return Path(named).absolute()
        raise OSError("this user has no home folder; set HOME, or set INTERLOCK_HOME to a folder for the hub") from None


def user_name() -> str:
    """The login name of this user, or the user id where the system has no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        if sys.platform != "win32":
            return str(os.getuid())
        return "user"


def home_folder(environ: Mapping[str, str] | None = None) -> Path:
    """`$INTERLOCK_HOME`, or the system's usual folder for the state of programs."""
    env = os.environ if environ is None else environ
    if named := env.get("INTERLOCK_HOME"):
        return Path(named).expanduser().absolute()
    if sys.platform == "darwin":
        return user_home(env) / "Library" / "Application Support" / "interlock"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or user_home(env) / "AppData" / "Local") / "interlock"
    return Path(env.get("XDG_STATE_HOME") or user_home(env) / ".local" / "state") / "interlock"


def user_config(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own `interlock.toml`, whether it exists or not."""
    env = os.environ if environ is None else environ
    if sys.platform == "win32":
        return Path(env.get("APPDATA") or user_home(env) / "AppData" / "Roaming") / "interlock" / "interlock.toml"
    return Path(env.get("XDG_CONFIG_HOME") or user_home(env) / ".config") / "interlock" / "interlock.toml"


def socket_path(home: Path) -> Path:
    return home / "run" / "hub.sock"


def info_path(home: Path) -> Path:
    return home / "run" / "hub.json"


def lock_path(home: Path) -> Path:
    return home / "run" / "hub.lock"
