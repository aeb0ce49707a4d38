"""Gives each test a user with an empty home, configuration folder and project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from interlock.config.load import LoadedConfig, load


class UserFiles:
    """Writes files of a test's user, and loads them as that user would."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.project.mkdir()
        self.user_config = root / "config" / "interlock" / "interlock.toml"
        self.environ = {"XDG_CONFIG_HOME": str(root / "config")}

    def write(self, name: str, text: str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def own(self, text: str, environ: Mapping[str, str] | None = None) -> LoadedConfig:
        """The user's own file with that text, loaded outside of any project."""
        self.user_config.parent.mkdir(parents=True, exist_ok=True)
        self.user_config.write_text(text)
        return load(home=self.home, environ={**self.environ, **(environ or {})})

    def in_project(self, environ: Mapping[str, str] | None = None) -> LoadedConfig:
        return load(home=self.home, folder=self.project, environ={**self.environ, **(environ or {})})


@pytest.fixture
def user_files(tmp_path: Path) -> UserFiles:
    return UserFiles(tmp_path)


@pytest.fixture
def own(user_files: UserFiles) -> Callable[..., LoadedConfig]:
    return user_files.own
