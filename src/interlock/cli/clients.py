"""Where each client keeps its configuration, and how a server stands in it. A new client is one more row."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

from .failures import Failure

ENTRY = "interlock"


class Client(NamedTuple):
    """One client program."""

    title: str
    path: Path
    at: tuple[str, ...]
    """Where servers are named in its file."""
    typed: bool = False
    """Whether an entry says `"type": "stdio"`."""
    after: str = "Restart it to see the tools."

    def entry(self, command: list[str], key: str) -> dict[str, object]:
        named: dict[str, object] = {"type": "stdio"} if self.typed else {}
        # A hub that is not in its usual place must be found there by the client too: the key counts only for that one.
        places = {name: os.environ[name] for name in ("INTERLOCK_HOME", "INTERLOCK_CONFIG") if os.environ.get(name)}
        env = {"INTERLOCK_KEY": key, **{name: str(Path(place).absolute()) for name, place in places.items()}}
        return {**named, "command": command[0], "args": [*command[1:], "stdio"], "env": env}


NAMES = ("claude-code", "claude-desktop", "cursor", "vscode", "gemini", "codex")


def client(name: str) -> Client:
    """The client of that name, with its file for this user on this system."""
    home = Path.home()
    rows = {
        "claude-code": Client("Claude Code", _claude_code(home) / ".claude.json", ("mcpServers",), typed=True),
        "claude-desktop": Client("Claude Desktop", _app("Claude") / "claude_desktop_config.json", ("mcpServers",)),
        "cursor": Client("Cursor", home / ".cursor" / "mcp.json", ("mcpServers",)),
        "vscode": Client("VS Code", _app("Code") / "User" / "mcp.json", ("servers",), typed=True),
        "gemini": Client("Gemini CLI", home / ".gemini" / "settings.json", ("mcpServers",)),
        "codex": Client("Codex", _codex(home) / "config.toml", ("mcp_servers",)),
    }
    return rows[name]


def with_entry(client: Client, text: str, entry: dict[str, object]) -> str:
    """The client's file with our entry in it; all else stays as it is. Raises Failure where it cannot be read."""
    if client.path.suffix == ".toml":
        import tomlkit

        document = tomlkit.parse(_readable(client, text))
        if client.at[0] not in document:
            document[client.at[0]] = tomlkit.table(is_super_table=True)
        section = document[client.at[0]]
        table = tomlkit.item(entry)
        section[ENTRY] = table
        return tomlkit.dumps(document)
    from interlock.config.json_members import set_member

    try:
        return set_member(_readable(client, text), (*client.at, ENTRY), entry)
    except ValueError as error:
        raise Failure(f"{client.path}: {error}", "correct it first; the file was left as it is") from error


def without_entry(client: Client, text: str) -> str:
    """The client's file without our entry."""
    if client.path.suffix == ".toml":
        import tomlkit

        document = tomlkit.parse(_readable(client, text))
        section = document.get(client.at[0])
        if isinstance(section, dict) and ENTRY in section:
            del section[ENTRY]
        return tomlkit.dumps(document)
    from interlock.config.json_members import remove_member

    return remove_member(_readable(client, text), (*client.at, ENTRY))


def executable() -> list[str]:
    """How a client starts us: the absolute path of `interlock`, or of this Python with our module."""
    import shutil

    named = Path(sys.argv[0])
    for candidate in (named, Path(sys.executable).parent / "interlock"):
        if candidate.stem == "interlock" and (found := shutil.which(str(candidate.absolute()))):
            return [found]
    return [sys.executable, "-P", "-m", "interlock.cli"]


def passing(program: str) -> bool:
    """Whether the program stands in a cache, as with `uvx`, and may be gone tomorrow."""
    return "archive-v" in program and "uv" in Path(program).parts


def _readable(client: Client, text: str) -> str:
    from interlock.config.documents import parse_json, parse_toml
    from interlock.config.problems import Problem

    if not text.strip():
        return "" if client.path.suffix == ".toml" else "{}\n"
    parse = parse_toml if client.path.suffix == ".toml" else parse_json
    parsed = parse(text, str(client.path))
    if isinstance(parsed, Problem):
        raise Failure(f"{parsed.file}:{parsed.line}: {parsed.message}", "correct it first; the file was left as it is")
    return text


def _app(name: str) -> Path:
    """Where a desktop program keeps its settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / name
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / name
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / name


def _claude_code(home: Path) -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home)


def _codex(home: Path) -> Path:
    return Path(os.environ.get("CODEX_HOME") or home / ".codex")
