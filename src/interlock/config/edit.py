"""Adds and removes servers in `interlock.toml`, keeping every comment and blank line. The old file is kept beside it.

Rule: what would not load is not written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import tomlkit
from msgspec import to_builtins
from tomlkit.exceptions import ParseError
from tomlkit.items import InlineTable, Table

from .documents import parse_toml
from .files import back_up, write_lines
from .names import why_bad_id
from .problems import Problem, Report
from .settings import Server
from .tables import read_config


class EditError(Exception):
    """The file cannot be changed as asked."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


def add_servers(path: Path, servers: Mapping[str, Server], *, replace: bool = False) -> Path | None:
    """Writes each server as `[servers.ID]`, all or none. Returns the copy of the old file."""
    document = _open(path)
    section = _section(document)
    for name, server in servers.items():
        if why := why_bad_id(name):
            raise EditError(f"the name `{name}` {why}", "choose another name")
        if name in section and not replace:
            raise EditError(f"there is a server `{name}` already", f"choose another name, or `interlock remove {name}`")
        section[name] = _table(server)
    return _save(path, document, new=servers)


def remove_server(path: Path, name: str) -> Path | None:
    """Takes `[servers.NAME]` out. Returns the copy of the old file."""
    document = _open(path)
    section = _section(document)
    if name not in section:
        named = ", ".join(section) or "none"
        raise EditError(f"there is no server `{name}` in {path}", f"servers there: {named}")
    del section[name]
    return _save(path, document)


def _open(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text("utf-8"))
    except FileNotFoundError:
        return tomlkit.document()
    except (ParseError, UnicodeDecodeError) as error:
        raise EditError(f"{path} cannot be read: {error}", "correct it by hand first; it was left as it is") from error


def _section(document: tomlkit.TOMLDocument) -> Table:
    if "servers" not in document:
        document["servers"] = tomlkit.table(is_super_table=True)
    section = document["servers"]
    if not isinstance(section, Mapping):
        raise EditError("`servers` is not a table", "write servers as [servers.NAME]")
    return section  # type: ignore[return-value]


def _table(server: Server) -> Table:
    """Only what differs from the defaults."""
    table = tomlkit.table()
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
            table[key] = _inline(values)
    tools = {key: list(values) for key in ("allow", "deny") if (values := getattr(server.tools, key))}
    if tools:
        table["tools"] = _inline(tools)
    if server.permissions.require:
        table["permissions"] = _inline({"require": list(server.permissions.require)})
    usual = to_builtins(plain.restart)
    if restart := {key: value for key, value in to_builtins(server.restart).items() if value != usual[key]}:
        table["restart"] = _inline(restart)
    return table


def _inline(values: Mapping[str, object]) -> InlineTable:
    inline = tomlkit.inline_table()
    inline.update(values)
    return inline


def _save(path: Path, document: tomlkit.TOMLDocument, *, new: Collection[str] = ()) -> Path | None:
    text = tomlkit.dumps(document)
    parsed = parse_toml(text, str(path))
    if isinstance(parsed, Problem):
        raise EditError(f"the change would break the file: {parsed.message}", "change it by hand")
    content, lines = parsed
    report = Report(path, lines)
    read_config(content, report)
    if report.problems:
        first = report.problems[0]
        # What was just added has no line yet.
        raise EditError(first.message if first.server in new else f"{first.place}: {first.message}", first.mend)
    copy = back_up(path)
    write_lines(path, text)
    return copy
