"""Reads the servers of other programs' files: `mcpServers` and `servers` in JSON, Codex's and MGP's TOML.

These files are never changed, and settings that Interlock does not know are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar, get_origin

import msgspec
from msgspec.structs import replace

from .confirmations import project_folder
from .documents import ParsedFile
from .expand import literal, sources_in
from .launch import why_unsafe
from .names import adopt_id
from .problems import KeyPath, ProblemReport, Section
from .sections import check_server
from .settings import PermissionSettings, RestartSettings, ServerSettings, ToolSettings
from .shape import kind

MAX_SERVERS = 1000
MAX_ARGUMENTS = 1000

T = TypeVar("T")
D = TypeVar("D")


def read_import(document: ParsedFile, report: ProblemReport, *, trusted: bool) -> dict[str, ServerSettings]:
    """Read the servers of `document` by id. A server with a fault has its `problem` set.

    A file that is not `trusted`, because it came with a project, may only use well-known launchers and plain variables.
    """
    found: dict[str, ServerSettings] = {}
    for name, table, at, project in _entries(document.content, report, trusted=trusted):
        if _is_own_entry(table):
            continue
        if len(found) >= MAX_SERVERS:
            report.add(at, f"more than {MAX_SERVERS} servers in one file", "split the file")
            break
        adopted = adopt_id(name)
        if project is not None and adopted in found:
            adopted = adopt_id(f"{name}-{project.name}")
        if adopted is None:
            report.add(at, f"the server name {name!r} has no characters that an id can have", "rename it")
        elif adopted in found:
            report.add(at, f"two servers would have the id `{adopted}`", "rename one of them")
        else:
            found[adopted] = _read(adopted, table, at, project, report, trusted=trusted)
    return found


def _is_own_entry(table: object) -> bool:
    """Whether this is the entry that `interlock connect` writes. A hub must not start itself."""
    if not isinstance(table, Mapping):
        return False
    words = [table.get("command"), *(table["args"] if isinstance(table.get("args"), list) else ())]
    texts = [word for word in words if isinstance(word, str)]
    is_ours = bool(texts) and (Path(texts[0]).stem == "interlock" or "interlock.cli" in texts)
    return is_ours and texts[-1] == "stdio"


def _read(
    name: str, table: object, at: KeyPath, project: Path | None, report: ProblemReport, *, trusted: bool
) -> ServerSettings:
    """`project` is the folder that the file assigns the server to, if it covers several."""
    folder = project or project_folder(report.file)
    section = report.sections[name] = Section(report, at, name)
    before = len(report.problems)
    server = ServerSettings(source=str(report.file))
    if not isinstance(table, Mapping):
        section.add((), f"the server must be an object, not {kind(table)}")
    elif not _is_encodable(table):
        section.add((), f"server `{name}` has half a surrogate pair in a text", "remove the broken character")
    elif any(isinstance(value, list) and len(value) > MAX_ARGUMENTS for value in table.values()):
        section.add((), f"the command of `{name}` is too long: over {MAX_ARGUMENTS} words", "start it with fewer")
    else:
        server = replace(_ImportedTable(table, section, folder).server(), source=str(report.file))
        check_server(server, name, section, has_command="command" in table)
        texts = (*server.command, *server.env.values(), *server.headers.values(), server.url or "", server.cwd or "")
        for source in dict.fromkeys(source for text in texts for source in sources_in(text)):
            # Not even by import: it would be expanded in the operator's own file.
            message = f"server `{name}` uses `${{{source}:…}}`, which only your own interlock.toml may"
            section.add((), message, "add it there by hand, if you trust it")
        if not trusted:
            for message in why_unsafe(server, folder):
                hint = "to use it anyway, add it to your own interlock.toml (`interlock add`)"
                section.add((), f"server `{name}` {message}", hint)
        if server.url is None and (server.cwd is not None or project is not None or not trusted):
            server = replace(server, cwd=str(Path(literal(str(folder))) / Path(server.cwd or ".").expanduser()))
        if trusted and server.command:
            base = Path(server.cwd or literal(str(folder)))
            server = replace(server, command=(_absolute_program(server.command[0], base), *server.command[1:]))
    problems = report.problems[before:]
    return replace(server, problem=problems[0]) if problems else server


def _is_encodable(table: object) -> bool:
    r"""Whether every text is valid Unicode. JSON can spell half a character (`"\ud83d"`), which no program accepts."""
    try:
        json.dumps(table, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


class _ImportedTable:
    """One server's table in any of the supported formats."""

    def __init__(self, table: Mapping[str, object], section: Section, folder: Path) -> None:
        self.table = table
        self.section = section
        self.folder = folder

    def server(self) -> ServerSettings:
        command = self._take("command", str, "")
        if command.strip() != command or (" " in command and not Path(command).exists()):
            message = "`command` must be one program's name, because no shell splits it"
            self._wrong("command", message, "move the rest to `args`")
        # Gemini allows both in one table and prefers `httpUrl`.
        url = next((self._take(key, str, "") for key in ("httpUrl", "url", "serverUrl") if key in self.table), None)
        cwd = self._take("cwd", str, None)
        stated = self._take("type", str, "") or self._take("transport", str, "")
        if self._take("envFile", str, ""):
            self._wrong("envFile", "`envFile` is not supported", "copy its variables to `env`")
        if stated == "stdio" and url is not None:
            self._wrong("url", "its type is stdio, but it has a `url`", "remove one of them")
        return ServerSettings(
            command=tuple(map(self._translate, (command, *self._take("args", list[str], [])))) if command else (),
            env=self._texts("env"),
            cwd=self._translate(cwd) if cwd is not None else None,
            inherit_env=self._inherited(),
            url=self._translate(url) if url is not None else None,
            headers=self._headers(),
            timeout_s=self._timeout(),
            enabled=self._take("enabled", bool, True) and not self._take("disabled", bool, False),
            tools=ToolSettings(
                allow=self._first_of("includeTools", "enabled_tools"),
                deny=self._first_of("excludeTools", "disabledTools", "disabled_tools"),
            ),
            restart=self._restart(),
            # Only the operator's own file can raise the trust level.
            trust="sandboxed" if self._mgp("trust_level", str, "") == "sandboxed" else "standard",
            permissions=PermissionSettings(require=tuple(self._mgp("permissions_required", list[str], []))),
        )

    def _texts(self, key: str) -> dict[str, str]:
        """A table of texts. In these files, values may also be numbers or booleans."""
        written = {name: value for name, value in self._take(key, _Values, {}).items() if value is not None}
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in written.items()}
        return {name: self._translate(value) for name, value in texts.items()}

    def _headers(self) -> dict[str, str]:
        headers = {**self._texts("headers"), **self._texts("http_headers")}
        for header, variable in self._take("env_http_headers", dict[str, str], {}).items():
            headers[header] = f"${{{variable}}}"
        if bearer := self._take("bearer_token_env_var", str, ""):
            headers["Authorization"] = f"Bearer ${{{bearer}}}"
        return headers

    def _inherited(self) -> tuple[str, ...]:
        """Codex lists variable names, or tables with a `name`."""
        written: list[str | dict[str, object]] = self._take("env_vars", list[str | dict[str, object]], [])
        return tuple(one if isinstance(one, str) else str(one.get("name", "")) for one in written)

    def _timeout(self) -> float | None:
        milliseconds = self._take("timeout", float, 0.0)
        seconds = self._take("tool_timeout_sec", float, 0.0) or milliseconds / 1000
        return seconds if 0 < seconds <= 86_400 else None

    def _mgp(self, key: str, wanted: type[T], default: D) -> T | D:
        """A setting of the server's `mgp` section (MGP, Configuration File Discovery)."""
        section = self.table.get("mgp")
        if not isinstance(section, Mapping) or key not in section:
            return default
        try:
            return msgspec.convert(section[key], wanted)
        except msgspec.ValidationError as error:
            self._wrong("mgp", f"`{key}` is not valid: {error}", "correct or remove it")
            return default

    def _restart(self) -> RestartSettings:
        """MGP, Restart Policies: in the server's `mgp` section, or beside `command`."""
        section = self.table.get("mgp")
        table = {**self.table, **(section if isinstance(section, Mapping) else {})}
        names = {
            "restart_policy": "policy",
            "max_restarts": "max_restarts",
            "restart_window_secs": "window_s",
            "backoff_base_ms": "backoff_base_ms",
            "backoff_max_ms": "backoff_max_ms",
        }
        written = {ours: table[theirs] for theirs, ours in names.items() if theirs in table}
        try:
            return msgspec.convert(written, RestartSettings)
        except msgspec.ValidationError as error:
            self._wrong("mgp", f"its restart settings are not valid: {error}", "correct or remove them")
            return RestartSettings()

    def _first_of(self, *keys: str) -> tuple[str, ...]:
        return next((tuple(self._take(key, list[str], [])) for key in keys if key in self.table), ())

    def _take(self, key: str, wanted: type[T], default: D) -> T | D:
        if key not in self.table:
            return default
        value = self.table[key]
        try:
            return msgspec.convert(value, wanted)
        except msgspec.ValidationError:
            if isinstance(value, list | dict) and get_origin(wanted) is type(value):
                self._wrong(key, f"`{key}` may contain only texts", 'write each as "…"')
            else:
                self._wrong(key, f"`{key}` cannot be {kind(value)}", "correct it")
            return default

    def _translate(self, text: str) -> str:
        """Translate placeholders of other clients.

        `${workspaceFolder}` becomes a path. `${input:api-key}`, which VS Code asks for, becomes the variable `API_KEY`.
        Gemini's variables may have no braces.
        """
        named = _INPUT.sub(lambda found: "${" + re.sub(r"\W", "_", found[1]).upper() + "}", text)
        if self.section.report.file.parent.name == ".gemini":
            named = _BARE.sub(r"${\1}", named)
        places = {"workspaceFolder": str(self.folder), "workspaceFolderBasename": self.folder.name}
        places |= {"pathSeparator": os.sep, "/": os.sep}
        return _PLACE.sub(lambda found: literal(places[found[1]]), named)

    def _wrong(self, key: str, message: str, hint: str) -> None:
        self.section.add(key, f"server `{self.section.server}`: {message}", hint)


_Entry = tuple[str, object, KeyPath, Path | None]


def _entries(content: Mapping[str, object], report: ProblemReport, *, trusted: bool) -> Iterator[_Entry]:
    """Name, table and path of each server in any of the formats, and the project it is for."""
    of_projects = list(_of_projects(content)) if trusted else []
    for at in _SECTIONS:
        holder: object = content
        for key in at:
            holder = holder.get(key) if isinstance(holder, Mapping) else None
        if holder is None:
            continue
        if isinstance(holder, Mapping):
            for name, table in holder.items():
                if (common := _common_form(".".join(at), table)) is not None:
                    yield str(name), common, (*at, name), None
        elif isinstance(holder, list):
            for number, table in enumerate(holder):
                name = table.get("id") if isinstance(table, Mapping) else None
                yield (name if isinstance(name, str) else ""), table, (*at, number), None
        else:
            report.add(at, f"`{at[-1]}` must be a table of servers, not {kind(holder)}")
        yield from of_projects
        return
    yield from of_projects
    if not of_projects:
        report.add((), "the file names no servers", "add `mcpServers`, `servers` or [mcp_servers.NAME]")


_SECTIONS = (
    ("mcpServers",),
    ("mcp_servers",),
    ("servers",),
    ("mcp", "servers"),
    ("mcp",),
    ("context_servers",),
    ("extensions",),
)


def _common_form(section: str, table: object) -> object:
    """The table with the names that most clients use; None for an entry that is not a server with a program or URL."""
    if not isinstance(table, Mapping):
        return None if section in ("mcp", "context_servers", "extensions") else table
    match section:
        case "mcp" | "mcp.servers" if table.get("type") == "remote":  # opencode
            return {**table, "type": "http"}
        case "mcp" | "mcp.servers":
            if table.get("type") != "local" or not isinstance(table.get("command"), list):
                return table if section == "mcp.servers" else None
            command, *args = [*table["command"], ""] if not table["command"] else table["command"]
            renamed = {"command": command, "args": args, "env": table.get("environment") or {}}
            return {**table, **renamed, "type": "stdio"}
        case "context_servers":  # Zed: extensions of the editor have settings only; older files nest the command
            nested = table.get("command")
            if isinstance(nested, Mapping):
                return {"command": nested.get("path"), "args": nested.get("args", []), "env": nested.get("env") or {}}
            return table if "command" in table or "url" in table else None
        case "extensions":  # Goose: others are built in
            if table.get("type") not in ("stdio", "sse", "streamable_http"):
                return None
            names = {"cmd": "command", "envs": "env", "uri": "url", "enabled": "enabled", "args": "args"}
            common = {
                ours: table[theirs] for theirs, ours in (*names.items(), ("headers", "headers")) if theirs in table
            }
            return common | {"tool_timeout_sec": table.get("timeout") or 0}
    return table


def _of_projects(content: Mapping[str, object]) -> Iterator[_Entry]:
    """The servers that Claude Code stores for single folders, if the folder still exists."""
    projects = content.get("projects")
    for folder, project in projects.items() if isinstance(projects, Mapping) else ():
        section = project.get("mcpServers") if isinstance(project, Mapping) else None
        if isinstance(section, Mapping) and os.path.isabs(folder) and os.path.isdir(folder):
            at = ("projects", folder, "mcpServers")
            yield from ((name, table, (*at, name), Path(folder)) for name, table in section.items())


def _absolute_program(program: str, folder: Path) -> str:
    """The full path of a program given relative to its project, because the hub runs in another folder."""
    if not os.path.dirname(program) or program.startswith(("~", "$")) or os.path.isabs(program):
        return program
    return os.path.normpath(folder / program)


_Values = dict[str, str | int | float | bool | None]


_BARE = re.compile(r"(?<!\$)\$([A-Za-z_]\w*)")
_PLACE = re.compile(r"(?<!\$)\$\{(workspaceFolder|workspaceFolderBasename|pathSeparator|/)\}")
_INPUT = re.compile(r"\$\{input:([A-Za-z_][\w.-]*)\}")
