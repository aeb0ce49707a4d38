"""Where things are kept on each system, and for users whom it does not know."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import interlock.config.home
from interlock.config.home import home_folder, user_config, user_home

HOME = Path.home()


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The module is told that it runs on another system."""

    def told(platform: str) -> None:
        system = types.SimpleNamespace(**{**vars(sys), "platform": platform})
        monkeypatch.setattr(interlock.config.home, "sys", system)

    return told


@pytest.mark.parametrize(
    ("platform", "environ", "state", "config"),
    [
        ("linux", {}, HOME / ".local/state/interlock", HOME / ".config/interlock/interlock.toml"),
        ("linux", {"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c"}, "/s/interlock", "/c/interlock/interlock.toml"),
        ("darwin", {}, HOME / "Library/Application Support/interlock", HOME / ".config/interlock/interlock.toml"),
        ("win32", {"LOCALAPPDATA": "/l", "APPDATA": "/r"}, "/l/interlock", "/r/interlock/interlock.toml"),
        ("win32", {}, HOME / "AppData/Local/interlock", HOME / "AppData/Roaming/interlock/interlock.toml"),
        ("linux", {"INTERLOCK_HOME": "/h"}, "/h", HOME / ".config/interlock/interlock.toml"),
    ],
)
def test_files_are_in_the_usual_folders_of_each_system(
    on: Callable[[str], None], platform: str, environ: dict[str, str], state: Path | str, config: Path | str
) -> None:
    on(platform)
    assert home_folder(environ) == Path(state)
    assert user_config(environ) == Path(config)


def test_a_user_without_a_home_uses_the_home_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    assert user_home({"INTERLOCK_HOME": "/h"}) == Path("/h")
    assert user_config({"INTERLOCK_HOME": "/h"}) == Path("/h/.config/interlock/interlock.toml")
    with pytest.raises(OSError, match="set HOME, or set INTERLOCK_HOME"):
        home_folder({})
