"""Loads the configuration from files. It only reads.

The operator's own files are used at once; files in a project folder only after a person confirmed them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from .confirmations import Confirmations, PlannedServer, UnconfirmedFile
from .documents import ParsedFile, read_document
from .expand import ExpandedValue, all_variables, expand, literal, variables_in
from .home import home_folder, user_config, user_home
from .hub_secret import BadHubSecret, configured_secret
from .live_sections import check_webhook_secrets
from .model_settings import ADD_MODEL, NO_MODEL, ModelSettings
from .names import why_bad_url
from .problems import KeyPath, Problem, ProblemReport, Section
from .secret_sources import SecretSources
from .sections import is_one_line, read_config
from .settings import Config, ConfigOrigin, ServerOAuthSettings, ServerSettings

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
        self._secrets: dict[str, SecretSources] = {}
        """By file: the sources of secrets. Only the operator's own file has them."""

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
        servers = {name: self._filled(name, server) for name, server in self.servers.items()}
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
            self._secrets[str(document.path)] = SecretSources(self._home, document.path.parent, self.env)
        config = read_config(document.content, report)
        self.sections |= report.sections
        for name, server in config.servers.items():
            self.servers[name] = replace(server, cwd=_absolute_cwd(server.cwd, document.path.parent))
        check_webhook_secrets(config, self.env, report)
        hub = Section(report, ("hub",))
        config = self._with_models(self._with_sealing_key(self._with_store(config, hub), hub, own=own), report)
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

    def _with_store(self, config: Config, hub: Section) -> Config:
        """The database's address may hold a password, which comes from elsewhere."""
        written = config.hub.store
        if written is None or "${" not in written:
            return config
        filled = self._filled_setting("store", written, hub)
        return config if filled is None else replace(config, hub=replace(config.hub, store=filled))

    def _with_sealing_key(self, config: Config, hub: Section, *, own: bool) -> Config:
        """The key is never in the file itself, and no project's file can choose it."""
        key = "sealing_key"
        written = config.hub.sealing_key
        if written is None:
            return config
        if not own:
            hub.add(key, "`sealing_key` may be set only in your own interlock.toml", "remove it from this file")
            return config
        if "${" not in written:
            message = "`sealing_key` has the key itself, which everyone who reads this file would know"
            hint = "keep it elsewhere: ${file:PATH}, ${env:NAME}, ${secret:NAME}, ${cmd:…} or ${op://…}"
            hub.add(key, message, hint)
            return config
        filled = self._filled_setting(key, written, hub)
        if filled is None:
            return config
        try:
            configured_secret(filled)
        except BadHubSecret as cause:
            hub.add(key, cause.message, cause.hint)
        return replace(config, hub=replace(config.hub, sealing_key=filled))

    def _filled_setting(self, name: str, written: str, hub: Section) -> str | None:
        """A setting of `[hub]` with its variables filled in; None, with a problem, where one cannot be."""
        result = self._expand(written, hub.report.file)
        if result.complete:
            return result.text
        hub.add(name, *_why_unfilled(f"`{name}`", result))
        return None

    def _with_models(self, config: Config, report: ProblemReport) -> Config:
        """Fill in the addresses and keys of models. One without its key is left out; the hub runs without it."""
        models: dict[str, ModelSettings] = {}
        for name, model in config.models.items():
            written = {key: text for key in ("url", "key") if "${" in (text := getattr(model, key) or "")}
            results = {key: self._expand(text, report.file) for key, text in written.items()}
            for key, result in results.items():
                if not result.complete:
                    message, hint = _why_unfilled(f"model `{name}`", result)
                    report.add(("models", name, key), message, hint, fatal=False)
            if all(result.complete for result in results.values()):
                script = None if model.script is None else str(report.file.parent / Path(model.script).expanduser())
                models[name] = replace(model, script=script, **{key: result.text for key, result in results.items()})
        for name in config.channels if not models else ():
            report.add(("channels", name), f"[channels.{name}] begins no turns: {NO_MODEL}", ADD_MODEL, fatal=False)
        return replace(config, models=models)

    def _expand(self, text: str, file: Path | str) -> ExpandedValue:
        """Fill in the variables of a text in a file."""
        return expand(text, all_variables(self.env), self._secrets.get(str(file)))

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

    def _filled(self, name: str, server: ServerSettings) -> ServerSettings:
        """Fill in the variables of a server. If one is missing, `problem` is set and the server is not started."""
        if not server.enabled:
            return server
        problems: list[Problem] = []

        def report(at: KeyPath, message: str, hint: str) -> None:
            line = self.sections[name].line(at)
            problems.append(Problem(server.source, line, message, hint, server=name, fatal=False))

        def fill(text: str, *at: str | int) -> str:
            result = self._expand(text, server.source)
            if not result.complete:
                report(at, *_why_unfilled(f"server `{name}`", result))
            return result.text

        filled = replace(
            server,
            command=tuple(fill(word, "command") for word in server.command),
            env={key: fill(value, "env", key) for key, value in server.env.items()},
            headers={key: fill(value, "headers", key) for key, value in server.headers.items()},
            url=fill(server.url, "url") if server.url is not None else None,
            cwd=fill(server.cwd, "cwd") if server.cwd is not None else None,
            oauth=_filled_oauth(server.oauth, fill),
        )
        for at, message in () if problems else _wrong_values(name, server, filled):
            report(at, message, "correct the value of the variable")
        self.problems += problems
        return replace(filled, problem=server.problem or problems[0]) if problems else filled


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


def _wrong_values(name: str, written: ServerSettings, filled: ServerSettings) -> Iterator[tuple[KeyPath, str]]:
    """Values that became invalid when their variables were filled in. The messages never quote the values."""
    if filled.url is not None and filled.url != written.url and (why := why_bad_url(filled.url)):
        yield ("url",), f"the url of `{name}` {why} after its variables are filled in"
    for header, value in filled.headers.items():
        if value != written.headers[header] and not is_one_line(value):
            yield ("headers", header), f"the header `{header}` of `{name}` has a line break in its variable"


def _filled_oauth(oauth: ServerOAuthSettings, fill: Callable[..., str]) -> ServerOAuthSettings:
    values = {key: getattr(oauth, key) for key in ("client_id", "client_secret", "private_key", "assertion")}
    filled = {key: fill(value, "oauth", key) for key, value in values.items() if value is not None}
    return replace(oauth, **filled) if filled else oauth


def _why_unfilled(subject: str, result: ExpandedValue) -> tuple[str, str]:
    """Message and hint."""
    if result.foreign:
        message = f"{subject} uses `${{{result.foreign[0]}:…}}`, which only your own interlock.toml may"
        return message, "move the server there, or use a variable: ${env:NAME}"
    if result.failed:
        return f"{subject}: {result.failed[0].message}", result.failed[0].hint
    if not result.missing:
        hint = "write ${NAME}, ${env:NAME} or ${NAME:-default}; a plain ${ is written $${"
        return f"{subject}: `{result.unreadable[0]}` is not a valid variable", hint
    names = " and ".join(f"`{variable}`" for variable in result.missing)
    first = result.missing[0]
    hint = f"export {first}=… and restart the hub (`interlock down`, `interlock up`), or set a default: ${{{first}:-…}}"
    return f"{subject} needs the variable {names}, which is not set", hint


def _texts(server: ServerSettings) -> list[str]:
    values = [*server.command, *server.env.values(), *server.headers.values(), server.url or "", server.cwd or ""]
    return [*values, server.oauth.client_secret or "", server.oauth.private_key or "", server.oauth.assertion or ""]


def _absolute_cwd(cwd: str | None, folder: Path) -> str | None:
    """A server's `cwd`, relative to the folder of its file."""
    if cwd is None or cwd.startswith("${"):
        return cwd
    return str(Path(literal(str(folder))) / Path(cwd).expanduser())
