"""The configuration files of the programs that connect to the hub, for this user. Each may exist or not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

from .home import user_home


class ClientFile(NamedTuple):
    """A program, and its file."""

    name: str
    title: str
    path: Path


def client_files() -> list[ClientFile]:
    """The file of every supported program."""
    home = user_home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return [
        ClientFile("claude-code", "Claude Code", _folder("CLAUDE_CONFIG_DIR", home) / ".claude.json"),
        ClientFile("claude-desktop", "Claude Desktop", _app(home, "Claude") / "claude_desktop_config.json"),
        ClientFile("codex", "Codex", _folder("CODEX_HOME", home / ".codex") / "config.toml"),
        ClientFile("cursor", "Cursor", home / ".cursor" / "mcp.json"),
        ClientFile("gemini", "Gemini CLI", home / ".gemini" / "settings.json"),
        ClientFile("goose", "Goose", _goose(home, config) / "config.yaml"),
        ClientFile("junie", "JetBrains Junie", home / ".junie" / "mcp" / "mcp.json"),
        ClientFile("lm-studio", "LM Studio", home / ".lmstudio" / "mcp.json"),
        ClientFile("opencode", "opencode", _opencode(config / "opencode")),
        ClientFile("qwen", "Qwen Code", home / ".qwen" / "settings.json"),
        ClientFile("vscode", "VS Code", _app(home, "Code") / "User" / "mcp.json"),
        ClientFile("windsurf", "Windsurf", home / ".codeium" / "windsurf" / "mcp_config.json"),
        ClientFile("zed", "Zed", _zed(home, config) / "settings.json"),
    ]


def _app(home: Path, name: str) -> Path:
    """The settings folder of a desktop program."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / name
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming") / name
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / name


def _folder(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default)


def _goose(home: Path, config: Path) -> Path:
    if sys.platform == "win32":
        return _app(home, "Block") / "goose" / "config"
    return config / "goose"


def _opencode(folder: Path) -> Path:
    """opencode reads both names."""
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _zed(home: Path, config: Path) -> Path:
    return (
        _app(home, "Zed")
        if sys.platform == "win32"
        else (home / ".config" if sys.platform == "darwin" else config) / "zed"
    )
