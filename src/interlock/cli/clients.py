"""The supported clients: the path of each configuration file, and the form of a server in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .failures import Failure

ENTRY = "interlock"


class Client(NamedTuple):
    name: str
    title: str
    path: Path
    at: tuple[str, ...]
    """The path of the servers in its file."""
    typed: bool = False
    """Whether an entry needs `"type": "stdio"`."""
    after: str = "Restart it to see the tools."

    def entry(self, command: list[str], key: str) -> dict[str, object]:
        named: dict[str, object] = {"type": "stdio"} if self.typed else {}
        # The client must find a hub in an unusual folder, too: the key is valid only for that hub.
        places = {name: os.environ[name] for name in ("INTERLOCK_HOME", "INTERLOCK_CONFIG") if os.environ.get(name)}
        env = {"INTERLOCK_KEY": key, **{name: str(Path(place).absolute()) for name, place in places.items()}}
        return {**named, "command": command[0], "args": [*command[1:], "stdio"], "env": env}


NAMES = ("claude-code", "claude-desktop", "cursor", "vscode", "gemini", "codex")


def client(name: str) -> Client:
    """The client of that name, with the path of its file for this user."""
    from interlock.config.home import user_home

    home = user_home()
    desktop = _app(home, "Claude") / "claude_desktop_config.json"
    rows = (
        Client("claude-code", "Claude Code", _claude_code(home) / ".claude.json", ("mcpServers",), typed=True),
        Client("claude-desktop", "Claude Desktop", desktop, ("mcpServers",)),
        Client("cursor", "Cursor", home / ".cursor" / "mcp.json", ("mcpServers",)),
        Client("vscode", "VS Code", _app(home, "Code") / "User" / "mcp.json", ("servers",), typed=True),
        Client("gemini", "Gemini CLI", home / ".gemini" / "settings.json", ("mcpServers",)),
        Client("codex", "Codex", _codex(home) / "config.toml", ("mcp_servers",)),
    )
    return next(row for row in rows if row.name == name)


def with_entry(client: Client, text: str, entry: dict[str, object]) -> str:
    """The text of the client's file with our entry added. Raises Failure if it cannot be parsed."""
    from interlock.config.json_members import set_member
    from interlock.config.toml_tables import add_tables

    if client.path.suffix == ".toml":
        return _changed(client, text, lambda plain: add_tables(plain, client.at, {ENTRY: entry}))
    return _changed(client, text, lambda plain: set_member(plain, (*client.at, ENTRY), entry))


def without_entry(client: Client, text: str) -> str:
    """The text of the client's file without our entry."""
    from interlock.config.json_members import remove_member
    from interlock.config.toml_tables import remove_table

    remove = remove_table if client.path.suffix == ".toml" else remove_member
    return _changed(client, text, lambda plain: remove(plain, (*client.at, ENTRY)))


def executable() -> list[str]:
    """The command for a client to start: the full path of `interlock`, or this Python with our module."""
    import shutil

    named = Path(sys.argv[0])
    for candidate in (named, Path(sys.executable).parent / "interlock"):
        if candidate.stem == "interlock" and (found := shutil.which(str(candidate.absolute()))):
            return [found]
    return [sys.executable, "-P", "-m", "interlock.cli"]


def is_in_cache(program: str) -> bool:
    """Whether the program is in a cache that may be cleared, as with `uvx`."""
    return "archive-v" in program and "uv" in Path(program).parts


def _changed(client: Client, text: str, change: Callable[[str], str]) -> str:
    """The text after the change. A byte order mark at its start stays."""
    from interlock.config.documents import parse_json, parse_toml
    from interlock.config.files import BYTE_ORDER_MARK
    from interlock.config.problems import Problem

    is_toml = client.path.suffix == ".toml"
    plain = text.removeprefix(BYTE_ORDER_MARK)
    parsed = (parse_toml if is_toml else parse_json)(plain if plain.strip() or is_toml else "{}", str(client.path))
    hint = "correct the file first; it was not changed"
    if isinstance(parsed, Problem):
        raise Failure(f"{parsed.place}: {parsed.message}", hint)
    try:
        return text[: len(text) - len(plain)] + change(plain if plain.strip() or is_toml else "{}\n")
    except ValueError as error:
        by_hand = f"correct it, or add the output of `interlock connect {client.name} --print` by hand"
        raise Failure(f"{client.path}: {error}", f"{by_hand}; the file was not changed") from error


def _app(home: Path, name: str) -> Path:
    """The settings folder of a desktop program."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / name
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming") / name
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / name


def _claude_code(home: Path) -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home)


def _codex(home: Path) -> Path:
    return Path(os.environ.get("CODEX_HOME") or home / ".codex")
