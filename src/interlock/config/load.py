"""Loads the configuration from files. It only reads.

The operator's own files are used at once; files in a project folder only after a person confirmed them.
`variable_filling.py` fills in variables and secrets.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from .confirmations import Confirmations, PlannedServer, UnconfirmedFile
from .documents import ParsedFile, read_document
from .expand import literal, variables_in
from .home import home_folder, user_config, user_home
from .live_sections import check_webhook_secrets
from .problems import Problem, ProblemReport, Section
from .sections import read_config
from .settings import Config, ConfigOrigin, ServerSettings
from .variable_filling import VariableFilling

PROJECT_FILES = (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", "mgp.toml")
BUILT_IN = "built in"
DEMO_SERVER = ServerSettings(command=(sys.executable, "-P", "-m", "interlock.server.demo"), source=BUILT_IN)


class LoadedConfig(msgspec.Struct, frozen=True):
    """A loaded configuration, its problems, and the files that a person has not confirmed."""

    config: Config
    problems: tuple[Problem, ...] = ()
    unconfirmed: tuple[UnconfirmedFile, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether a hub may run with it. A problem of one server only keeps that server from starting."""
        return not any(problem.fatal for problem in self.problems)


def load(
    path: Path | None = None,
    *,
    home: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Load `path`, else `$INTERLOCK_CONFIG`, else the confirmed `interlock.toml` of `folder`, else the user's.

    Project-local files are searched only in `folder`.
    """
    env = dict(os.environ if environ is None else environ)
    return _Loading(home or home_folder(env), folder, env).run(path)


def load_again(config: Config, *, home: Path) -> LoadedConfig:
    """Load `config` again from the same files."""
    origin = config.origin
    if origin.path is not None and not os.path.lexists(origin.path):
        # An editor may be in the middle of saving it. No server stops for that.
        hint = "restore the file; to run without it: `interlock down`, then `interlock up`"
        message = "the file was deleted; its settings stay in use"
        return LoadedConfig(config, (Problem(origin.path, None, message, hint),))
    path = Path(origin.path) if origin.path and origin.explicit else None
    loaded = load(path, home=home, folder=Path(origin.folder) if origin.folder else None)
    return loaded if origin.listen is None else listening(loaded, origin.listen)


def listening(loaded: LoadedConfig, listen: str) -> LoadedConfig:
    """The same configuration with the address of the command line, which stays when the files are read again."""
    config = loaded.config
    hub, origin = replace(config.hub, listen=listen), replace(config.origin, listen=listen)
    return replace(loaded, config=replace(config, hub=hub, origin=origin))


class _Loading:
    """One run of `load`: the files read so far, their servers and problems."""

    def __init__(self, home: Path, folder: Path | None, env: dict[str, str]) -> None:
        self.confirmations = Confirmations(home)
        self.folder = folder.resolve() if folder else None
        self.env = env
        self.files: list[str] = []
        self.problems: list[Problem] = []
        self.unconfirmed: dict[str, UnconfirmedFile] = {}
        self.servers: dict[str, ServerSettings] = {}
        self.sections: dict[str, Section] = {}
        """The section of each server."""
        self._home = home
        self._filling = VariableFilling(env)

    def run(self, path: Path | None) -> LoadedConfig:
        named = path or (Path(self.env["INTERLOCK_CONFIG"]) if self.env.get("INTERLOCK_CONFIG") else None)
        config = Config()
        own = True
        if named is not None:
            document = self._read(named.expanduser().absolute())
        else:
            document = self._project_config()
            own = document is None
            document = document or self._user_config(user_config(self.env))
        if document is not None:
            config = self._main(document, own=own)
        self._import_from_surroundings()
        servers = dict(self._filled_servers())
        demo = not servers and not self.unconfirmed and not any(problem.fatal for problem in self.problems)
        origin = ConfigOrigin(
            path=str(document.path) if document else str(named) if named else None,
            explicit=named is not None,
            folder=str(self.folder) if self.folder else None,
            files=tuple(dict.fromkeys(self.files)),
        )
        config = replace(config, servers={"demo": DEMO_SERVER} if demo else servers, demo=demo, origin=origin)
        problems = sorted(self.problems, key=lambda problem: (self.files.index(problem.file), problem.line or 0))
        return LoadedConfig(config, tuple(problems), tuple(self.unconfirmed.values()))

    def _filled_servers(self) -> Iterator[tuple[str, ServerSettings]]:
        for name, server in self.servers.items():
            filled, problems = self._filling.server(name, server, self.sections[name])
            self.problems += problems
            yield name, filled

    def _read(self, path: Path, *, fatal: bool = True) -> ParsedFile | None:
        self.files.append(str(path))
        document = read_document(path)
        if isinstance(document, Problem):
            self.problems.append(replace(document, fatal=fatal))
            return None
        return document

    def _user_config(self, path: Path) -> ParsedFile | None:
        if path.exists():
            return self._read(path)
        self.files.append(str(path))  # the hub watches for its creation
        return None

    def _project_config(self) -> ParsedFile | None:
        """The folder's `interlock.toml`, if a person confirmed it."""
        path = self.folder / "interlock.toml" if self.folder else None
        if path is None or path == user_config(self.env).resolve() or not path.is_file():
            return None
        document = self._read(path, fatal=False)
        if document is None or self.confirmations.holds(path, document.sha256):
            return document
        report = ProblemReport(path, document.lines)
        servers = read_config(document.content, report).servers
        others = {key: value for key, value in document.content.items() if key != "servers"}
        self._await_confirmation(document, servers, report, others)
        return None

    def _main(self, document: ParsedFile, *, own: bool) -> Config:
        report = ProblemReport(document.path, document.lines)
        if own:
            self._filling.allow_secrets(document.path, self._home)
        config = read_config(document.content, report)
        self.sections |= report.sections
        for name, server in config.servers.items():
            self.servers[name] = replace(server, cwd=_absolute_cwd(server.cwd, document.path.parent))
        check_webhook_secrets(config, self.env, report)
        hub = Section(report, ("hub",))
        filling = self._filling
        config = filling.with_sealing_key(filling.with_store(config, hub), hub, own=own)
        config = filling.with_models(config, report)
        for number, written in enumerate(config.imports):
            path = document.path.parent / Path(written).expanduser()
            trusted = own and (Path(written).expanduser().is_absolute() or document.path == user_config(self.env))
            if path.exists():
                self._import(path, trusted=trusted)
            else:
                self.files.append(str(path))
                message = f"the imported file {path} does not exist"
                report.add(("import", number), message, "correct the path", fatal=False)
        self.problems += report.problems
        return config

    def _import_from_surroundings(self) -> None:
        """Import the first MGP file found, and the files of other clients in the project folder."""
        mgp_named = self.env.get("MGP_CONFIG_PATH")
        mgp_user = user_config(self.env).parent.parent / "mgp" / "servers.toml"
        mgp_project = self.folder / "mgp.toml" if self.folder else None
        if mgp_named:
            self._import(Path(mgp_named).expanduser().absolute(), trusted=True)
        elif mgp_user.is_file() and not (mgp_project and mgp_project.is_file()):
            self._import(mgp_user, trusted=True)
        if self.folder is None:
            return
        for name in PROJECT_FILES:
            path = self.folder / name
            if path.is_file() and not (mgp_named and name == "mgp.toml") and path != self._global_file():
                self._import(path, trusted=False)

    def _global_file(self) -> Path | None:
        """Cursor's file for all folders: in the home folder it has the place of a project's file."""
        with contextlib.suppress(OSError):
            return user_home(self.env).resolve() / ".cursor" / "mcp.json"
        return None

    def _import(self, path: Path, *, trusted: bool) -> None:
        """Add the servers of another program's file. A name that is used already stays with its first file."""
        from .imports import read_import  # It brings the rules for launchers, which most configurations do not need.

        path = path.resolve()
        if str(path) in self.files:
            return
        document = self._read(path, fatal=False)
        if document is None:
            return
        report = ProblemReport(path, document.lines, fatal=False)
        found = read_import(document, report, trusted=trusted)
        if not found and not report.problems:
            return
        if not trusted and not self.confirmations.holds(path, document.sha256):
            self._await_confirmation(document, found, report)
            return
        self.problems += report.problems
        for name, server in found.items():
            if name in self.servers:
                message = f"server `{name}` is skipped: {self.servers[name].source} already has one of that name"
                self.problems.append(Problem(str(path), None, message, "rename one of them", fatal=False))
            else:
                self.servers[name] = server
                self.sections[name] = report.sections[name]

    def _await_confirmation(
        self,
        document: ParsedFile,
        servers: Mapping[str, ServerSettings],
        report: ProblemReport,
        others: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        refused = {problem.server: problem.message for problem in reversed(report.problems)}
        servers_planned = tuple(planned(name, server, refused.get(name)) for name, server in servers.items())
        write = json.JSONEncoder(default=str, ensure_ascii=False, separators=(",", ":")).encode
        settings = tuple(f"{key} = {write(value)}" for key, value in others.items())
        self.unconfirmed[str(document.path)] = UnconfirmedFile(
            str(document.path), document.sha256, servers_planned, settings
        )


def planned(name: str, server: ServerSettings, refused: str | None = None) -> PlannedServer:
    """The server as a person confirms it."""
    return PlannedServer(
        id=name,
        command=server.command,
        url=server.url,
        env=server.env,
        headers=server.headers,
        cwd=server.cwd,
        variables=tuple(dict.fromkeys(name for text in _texts(server) for name in variables_in(text))),
        refused=refused,
        enabled=server.enabled,
    )


def _texts(server: ServerSettings) -> list[str]:
    values = [*server.command, *server.env.values(), *server.headers.values(), server.url or "", server.cwd or ""]
    return [*values, server.oauth.client_secret or "", server.oauth.private_key or "", server.oauth.assertion or ""]


def _absolute_cwd(cwd: str | None, folder: Path) -> str | None:
    """A server's `cwd`, relative to the folder of its file."""
    if cwd is None or cwd.startswith("${"):
        return cwd
    return str(Path(literal(str(folder))) / Path(cwd).expanduser())
