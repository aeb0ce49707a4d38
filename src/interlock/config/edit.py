"""Adds and removes servers in `interlock.toml`, switches their tools, and adds topics.

Comments stay, and the old file is kept beside it. A change that would make the file unusable is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from pathlib import Path

from msgspec import to_builtins

from interlock.wire.explained import ExplainedError

from .documents import parse_toml
from .files import BYTE_ORDER_MARK, back_up, locked_for_change, read_exactly, write_atomically
from .names import why_bad_id, why_bad_name
from .problems import Problem, ProblemReport
from .sections import read_config
from .settings import ServerSettings
from .toml_tables import CannotChange, add_tables, remove_table, set_value

_NOT_CHANGED = "correct the file by hand first; it was not changed"


class EditError(ExplainedError):
    """The file cannot be changed so."""


def add_servers(path: Path, servers: Mapping[str, ServerSettings]) -> Path | None:
    """Write each server as `[servers.ID]`, all or none. Returns the copy of the old file."""
    with locked_for_change(path):
        text = _read(path)
        existing = _servers(path, text)
        for name in servers:
            if why := why_bad_id(name):
                raise EditError(f"the name `{name}` {why}", "choose another name")
            if name in existing:
                hint = f"choose another name, or run `interlock remove {name}` first"
                raise EditError(f"the server `{name}` exists already", hint)
        tables = {name: _table(server) for name, server in servers.items()}
        return _save(path, text, lambda plain: add_tables(plain, ("servers",), tables), new=servers)


def remove_server(path: Path, name: str) -> Path | None:
    """Remove `[servers.NAME]`. Returns the copy of the old file."""
    # A missing file is not locked, which would create its folder.
    with locked_for_change(path) if path.exists() else nullcontext():
        text = _read(path)
        existing = _servers(path, text)
        if name not in existing:
            hint = f"servers there: {', '.join(existing) or 'none'}"
            raise EditError(f"there is no server `{name}` in {path}", hint)
        return _save(path, text, lambda plain: remove_table(plain, ("servers", name)))


def deny_tools(path: Path, server: str, *, add: str = "", remove: str = "") -> Path | None:
    """Put a tool into `deny` of `[servers.SERVER.tools]`, or take it out. Returns the copy of the old file."""
    with locked_for_change(path) if path.exists() else nullcontext():
        text = _read(path)
        table = _servers(path, text).get(server)
        if not isinstance(table, Mapping):
            raise EditError(f"there is no server `{server}` in {path}", "a server of another file is changed there")
        tools = table.get("tools", {})
        denied = tools.get("deny", []) if isinstance(tools, Mapping) else []
        if not isinstance(denied, list) or "*" in add:
            hint = f"write `deny` of [servers.{server}.tools] by hand"
            raise EditError("the tool cannot be named in a list of patterns", hint)
        if remove and remove not in denied:
            hint = f"see `allow` and `deny` of [servers.{server}.tools] in {path}"
            raise EditError(f"`{remove}` is not named in `deny`: a pattern decides", hint)
        wanted = [name for name in denied if name != remove]
        wanted += [add] if add and add not in denied else []
        return _save(path, text, lambda plain: set_value(plain, ("servers", server, "tools", "deny"), wanted))


def add_topic(path: Path, name: str, settings: Mapping[str, object]) -> Path | None:
    """Write `[rooms.topics.NAME]` with the settings that have a value. Returns the copy of the old file."""
    with locked_for_change(path):
        text = _read(path)
        rooms = _section(path, text, "rooms")
        topics = rooms.get("topics", {})
        if why := why_bad_name(name):
            raise EditError(f"the name `{name}` {why}", "choose another name")
        if isinstance(topics, Mapping) and name in topics:
            raise EditError(f"the topic `{name}` exists already", f"choose another name, or edit {path}")
        table = {key: value for key, value in settings.items() if value}
        return _save(path, text, lambda plain: add_tables(plain, ("rooms", "topics"), {name: table}))


def _read(path: Path) -> str:
    try:
        return read_exactly(path)
    except UnicodeDecodeError as error:
        raise EditError(f"{path} is not UTF-8: {error}", _NOT_CHANGED) from error


def _servers(path: Path, text: str) -> Mapping[str, object]:
    return _section(path, text, "servers")


def _section(path: Path, text: str, name: str) -> Mapping[str, object]:
    parsed = parse_toml(text.removeprefix(BYTE_ORDER_MARK), str(path))
    if isinstance(parsed, Problem):
        raise EditError(f"{parsed.place} cannot be read: {parsed.message}", _NOT_CHANGED)
    section = parsed[0].get(name, {})
    if not isinstance(section, Mapping):
        raise EditError(f"`{name}` is not a table", f"write it as [{name}.NAME]")
    return section


def _table(server: ServerSettings) -> dict[str, object]:
    """The settings of a server that differ from the defaults."""
    settings = _differences(to_builtins(server), to_builtins(ServerSettings()))
    return {key: value for key, value in settings.items() if key not in ServerSettings.derived}


def _differences(values: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    changed: dict[str, object] = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            value = _differences(value, default)
            default = {}
        if value != default:
            changed[key] = list(value) if isinstance(value, tuple) else value
    return changed


def _save(path: Path, text: str, change: Callable[[str], str], *, new: Collection[str] = ()) -> Path | None:
    plain = text.removeprefix(BYTE_ORDER_MARK)
    try:
        changed = change(plain)
    except CannotChange as error:
        raise EditError(f"{path}: {error}", "write tables as [servers.NAME], or edit the file by hand") from error
    parsed = parse_toml(changed, str(path))
    if isinstance(parsed, Problem):
        raise EditError(f"the change would break the file: {parsed.message}", "edit the file by hand")
    content, lines = parsed
    report = ProblemReport(path, lines)
    read_config(content, report)
    if report.problems:
        first = report.problems[0]
        # A server that was just added has no line in the file yet.
        raise EditError(first.message if first.server in new else f"{first.place}: {first.message}", first.hint)
    copy = back_up(path)
    write_atomically(path, (text[: len(text) - len(plain)] + changed).encode())
    return copy
