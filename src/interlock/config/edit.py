"""Adds and removes servers in `interlock.toml`, keeping every comment and blank line. The old file is kept beside it.

Rule: what would not load is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import to_builtins

from .documents import parse_toml
from .files import MARK, back_up, one_change, read_exactly, write_whole
from .names import why_bad_id
from .problems import Problem, Report
from .settings import Server
from .tables import read_config
from .toml_tables import CannotChange, add_tables, remove_table


class EditError(Exception):
    """The file cannot be changed as asked."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def add_servers(path: Path, servers: Mapping[str, Server], *, replace: bool = False) -> Path | None:
    """Writes each server as `[servers.ID]`, all or none. Returns the copy of the old file."""
    with one_change(path):
        return _add(path, servers, replace=replace)


def _add(path: Path, servers: Mapping[str, Server], *, replace: bool) -> Path | None:
    text = _read(path)
    named = _servers(path, text)
    for name in servers:
        if why := why_bad_id(name):
            raise EditError(f"the name `{name}` {why}", "choose another name")
        if name in named and not replace:
            raise EditError(f"there is a server `{name}` already", f"choose another name, or `interlock remove {name}`")
    tables = {name: _table(server) for name, server in servers.items()}
    return _save(path, text, lambda plain: add_tables(plain, ("servers",), tables), new=servers)


def remove_server(path: Path, name: str) -> Path | None:
    """Takes `[servers.NAME]` out. Returns the copy of the old file."""
    if not path.exists():
        return _remove(path, name)  # which says so, and leaves no folder behind
    with one_change(path):
        return _remove(path, name)


def _remove(path: Path, name: str) -> Path | None:
    text = _read(path)
    named = _servers(path, text)
    if name not in named:
        raise EditError(f"there is no server `{name}` in {path}", f"servers there: {', '.join(named) or 'none'}")
    return _save(path, text, lambda plain: remove_table(plain, ("servers", name)))


def _read(path: Path) -> str:
    try:
        return read_exactly(path)
    except UnicodeDecodeError as error:
        raise EditError(f"{path} is not UTF-8: {error}", "correct it by hand first; it was left as it is") from error


def _servers(path: Path, text: str) -> Mapping[str, object]:
    parsed = parse_toml(text.removeprefix(MARK), str(path))
    if isinstance(parsed, Problem):
        hint = "correct it by hand first; it was left as it is"
        raise EditError(f"{parsed.place} cannot be read: {parsed.message}", hint)
    section = parsed[0].get("servers", {})
    if not isinstance(section, Mapping):
        raise EditError("`servers` is not a table", "write servers as [servers.NAME]")
    return section


def _table(server: Server) -> dict[str, object]:
    """Only what differs from the defaults."""
    table: dict[str, object] = {}
    if server.url is not None:
        table["url"] = server.url
    if server.command:
        table["command"] = list(server.command)
    plain = Server()
    for key in ("cwd", "share", "start", "era", "enabled", "timeout_s", "trust"):
        if getattr(server, key) != getattr(plain, key):
            table[key] = getattr(server, key)
    if server.inherit_env:
        table["inherit_env"] = list(server.inherit_env)
    for key in ("env", "headers"):
        if values := getattr(server, key):
            table[key] = dict(values)
    tools = {key: list(values) for key in ("allow", "deny") if (values := getattr(server.tools, key))}
    if tools:
        table["tools"] = tools
    if server.permissions.require:
        table["permissions"] = {"require": list(server.permissions.require)}
    usual = to_builtins(plain.restart)
    if restart := {key: value for key, value in to_builtins(server.restart).items() if value != usual[key]}:
        table["restart"] = restart
    return table


def _save(path: Path, text: str, change: Callable[[str], str], *, new: Collection[str] = ()) -> Path | None:
    plain = text.removeprefix(MARK)
    try:
        changed = change(plain)
    except CannotChange as error:
        raise EditError(f"{path}: {error}", "write servers as [servers.NAME], or change it by hand") from error
    parsed = parse_toml(changed, str(path))
    if isinstance(parsed, Problem):
        raise EditError(f"the change would break the file: {parsed.message}", "change it by hand")
    content, lines = parsed
    report = Report(path, lines)
    read_config(content, report)
    if report.problems:
        first = report.problems[0]
        # What was just added has no line yet.
        raise EditError(first.message if first.server in new else f"{first.place}: {first.message}", first.hint)
    copy = back_up(path)
    write_whole(path, (text[: len(text) - len(plain)] + changed).encode())
    return copy
