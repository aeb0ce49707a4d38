"""The supported clients: the path of each configuration file, and the form of a server in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from interlock.cli.terminal.failures import CommandFailure

if TYPE_CHECKING:
    from interlock.config.problems import KeyPath

ENTRY = "interlock"
MODULE = ("-P", "-m", "interlock.cli")
"""Runs this program by a Python."""


class AgentClient(NamedTuple):
    name: str
    title: str
    path: Path
    at: tuple[str, ...] = ("mcpServers",)
    """The path of the servers in its file."""
    form: EntryForm = "plain"
    after: str = "Restart it to see the tools."

    def entry(self, command: list[str], key: str) -> dict[str, object]:
        """Our entry, as this client writes servers."""
        env = {"INTERLOCK_KEY": key, **_unusual_places()}
        program, args = command[0], [*command[1:], "stdio"]
        match self.form:
            case "plain":
                return {"command": program, "args": args, "env": env}
            case "typed":
                return {"type": "stdio", "command": program, "args": args, "env": env}
            case "zed":
                return {"source": "custom", "command": program, "args": args, "env": env}
            case "opencode":
                return {"type": "local", "command": [program, *args], "environment": env, "enabled": True}
            case "goose":
                named = {"name": ENTRY, "description": "The tools of the hub", "type": "stdio", "enabled": True}
                return {**named, "cmd": program, "args": args, "envs": env, "timeout": 300}


def _unusual_places() -> dict[str, str]:
    """Variables by which a client finds the hub of this terminal: the key is valid only for that hub."""
    from interlock.config.home import home_folder

    home, config = home_folder(), os.environ.get("INTERLOCK_CONFIG")
    places = {"INTERLOCK_HOME": str(home)} if home != home_folder({}) else {}
    return places | ({"INTERLOCK_CONFIG": str(Path(config).expanduser().absolute())} if config else {})


EntryForm = Literal["plain", "typed", "zed", "opencode", "goose"]
"""How a client writes a server that is a program."""
NAMES = (
    "claude-code",
    "claude-desktop",
    "codex",
    "cursor",
    "gemini",
    "goose",
    "junie",
    "lm-studio",
    "opencode",
    "qwen",
    "vscode",
    "windsurf",
    "zed",
)


_FORMS: dict[str, tuple[tuple[str, ...], EntryForm]] = {
    "claude-code": (("mcpServers",), "typed"),
    "codex": (("mcp_servers",), "plain"),
    "goose": (("extensions",), "goose"),
    "opencode": (("mcp",), "opencode"),
    "vscode": (("servers",), "typed"),
    "zed": (("context_servers",), "zed"),
}
"""Where a client has its servers, and how it writes them, where that is unusual."""


def clients() -> list[AgentClient]:
    """Every supported client, with the path of its file for this user."""
    from interlock.config.client_files import client_files

    usual: tuple[tuple[str, ...], EntryForm] = (("mcpServers",), "plain")
    return [AgentClient(one.name, one.title, one.path, *_FORMS.get(one.name, usual)) for one in client_files()]


def client(name: str) -> AgentClient:
    """The client of that name."""
    return next(row for row in clients() if row.name == name)


def with_entry(client: AgentClient, text: str, entry: dict[str, object]) -> str:
    """The text of the client's file with our entry added. Raises CommandFailure if it cannot be parsed."""
    return with_member(client, text, (*client.at, ENTRY), entry)


def with_member(client: AgentClient, text: str, path: KeyPath, value: dict[str, object]) -> str:
    """The text of the client's file with a server at `path`. Raises CommandFailure if it cannot be parsed."""
    return changed_text(client, text, lambda plain: _set(client, plain, tuple(map(str, path)), value))


def member_at(client: AgentClient, text: str, path: KeyPath) -> Any:
    """The value at `path` in the text of the client's file; None if there is none, or it cannot be parsed."""
    from interlock.config.documents import parser_of
    from interlock.config.files import BYTE_ORDER_MARK
    from interlock.config.problems import Problem

    text = text.removeprefix(BYTE_ORDER_MARK)
    parsed = parser_of(client.path)(text, str(client.path)) if text.strip() else None
    if parsed is None or isinstance(parsed, Problem):
        return None
    found: Any = parsed[0]
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def without_entries(client: AgentClient, text: str, paths: Iterable[KeyPath]) -> str:
    """The text of the client's file without the servers at `paths`."""

    def remove(plain: str) -> str:
        for path in paths:
            plain = _remove(client, plain, tuple(str(part) for part in path))
        return plain

    return changed_text(client, text, remove)


def _set(client: AgentClient, text: str, path: tuple[str, ...], entry: dict[str, object]) -> str:
    from interlock.config.json_members import set_member
    from interlock.config.toml_tables import add_tables
    from interlock.config.yaml_members import set_yaml_member

    match client.path.suffix:
        case ".toml":
            return add_tables(text, path[:-1], {path[-1]: entry})
        case ".yaml":
            return set_yaml_member(text, path, entry)
        case _:
            return set_member(text, path, entry)


def _remove(client: AgentClient, text: str, path: tuple[str, ...]) -> str:
    from interlock.config.json_members import remove_member
    from interlock.config.toml_tables import remove_table
    from interlock.config.yaml_members import remove_yaml_member

    match client.path.suffix:
        case ".toml":
            return remove_table(text, path)
        case ".yaml":
            return remove_yaml_member(text, path)
        case _:
            return remove_member(text, path)


def executable() -> list[str]:
    """The command for a client to start: the full path of `interlock`, or this Python with our module."""
    import shutil

    named = Path(sys.argv[0])
    for candidate in (named, Path(sys.executable).parent / "interlock"):
        if candidate.stem == "interlock" and (found := shutil.which(str(candidate.absolute()))):
            return [found]
    return [sys.executable, *MODULE]


def is_in_cache(program: str) -> bool:
    """Whether the program is in a cache that may be cleared, as with `uvx`."""
    return "archive-v" in program and "uv" in Path(program).parts


def changed_text(client: AgentClient, text: str, change: Callable[[str], str]) -> str:
    """The text after the change. A byte order mark at its start stays. Raises CommandFailure if it cannot be parsed."""
    from interlock.config.documents import parser_of
    from interlock.config.files import BYTE_ORDER_MARK
    from interlock.config.problems import Problem

    plain = text.removeprefix(BYTE_ORDER_MARK)
    mark = text[: len(text) - len(plain)]
    if not plain.strip() and client.path.suffix not in (".toml", ".yaml"):
        plain = "{}\n"
    parsed = parser_of(client.path)(plain, str(client.path))
    if isinstance(parsed, Problem):
        raise CommandFailure(f"{parsed.place}: {parsed.message}", "correct the file first; it was not changed")
    try:
        return mark + change(plain)
    except ValueError as error:
        by_hand = f"correct it, or add the output of `interlock connect {client.name} --print` by hand"
        raise CommandFailure(f"{client.path}: {error}", f"{by_hand}; the file was not changed") from error
