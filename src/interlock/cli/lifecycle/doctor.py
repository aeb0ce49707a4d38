"""`interlock doctor`: checks everything that a hub needs on this machine. Each fault is shown with its fix."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from interlock.cli.terminal.failures import CommandFailure, NoHub
from interlock.cli.terminal.show import coloured, counted, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config.load import LoadedConfig
    from interlock.config.settings import ServerSettings
    from interlock.transports.http.client.origin import Origin
    from interlock.transports.http.client.outside import Proxy

INSTALL = {
    "npx": "install Node.js 22 or later (https://nodejs.org)",
    "node": "install Node.js 22 or later (https://nodejs.org)",
    "npm": "install Node.js 22 or later (https://nodejs.org)",
    "uvx": "install uv (https://docs.astral.sh/uv)",
    "uv": "install uv (https://docs.astral.sh/uv)",
    "docker": "install Docker, and start it",
}
CONNECT_TIMEOUT_S = 3.0
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


class DoctorCheck(NamedTuple):
    name: str
    verdict: str
    detail: str
    hint: str = ""


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to check.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, config: Path | None, as_json: bool) -> None:
    """Check this machine and the configuration.

    It starts and changes nothing. Exit code 1 means that a check failed.

    \b
    Example:
      interlock doctor
    """
    from interlock.config.home import home_folder
    from interlock.config.load import load

    home = home_folder()
    running = None if config is not None else _running_configuration(home)
    loaded = load(config or running, home=home, folder=Path.cwd())
    checks = [_python(), _home(home), *_containment(loaded), *_configuration(loaded), *_start(home, loaded)]
    checks.append(search_model_check(home, loaded))
    of_hub = list(_hub(home, loaded))
    misread = {problem.server for problem in loaded.problems if problem.fatal}
    readable = {name: server for name, server in loaded.config.servers.items() if name not in misread}
    with ThreadPoolExecutor(16) as many:
        servers = list(many.map(_server, readable, readable.values()))
    # A server that cannot start is also down in the hub. Report only the cause.
    causes = {check.name for check in servers if check.verdict == "wrong"}
    checks += [check for check in of_hub if check.name not in causes] + servers
    wrong = any(check.verdict == "wrong" for check in checks)
    if as_json:
        show_json({"ok": not wrong, "checks": [check._asdict() for check in checks]})
    else:
        for check in checks:
            mark, colour = MARKS[check.verdict]
            say(f"{coloured(mark, colour)} {plain(check.name)}: {plain(check.detail)}")
            if check.hint:
                say(f"    → {plain(check.hint)}")
    ctx.exit(1 if wrong else 0)


def _python() -> DoctorCheck:
    """Check the build of Python: without optimizations, every call takes a fifth longer."""
    import sysconfig

    found = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    # Not set on Windows, where Python is always optimized.
    built_with = sysconfig.get_config_var("CONFIG_ARGS")
    if built_with is None or "--enable-optimizations" in built_with:
        return DoctorCheck("python", "ok", found)
    hint = "use a Python built with --enable-optimizations: the system's, or one of `uv python install`"
    return DoctorCheck("python", "warning", f"{found} was built without optimizations and is slower", hint)


def _home(home: Path) -> DoctorCheck:
    """Checks the folder, or its first existing parent."""
    place = home
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return DoctorCheck(
            "home", "wrong", f"{place} is a file", "set INTERLOCK_HOME to a folder, or move that file away"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        return DoctorCheck(
            "home", "wrong", f"{home} cannot be written", "set INTERLOCK_HOME, or correct its permissions"
        )
    if place == home and sys.platform != "win32":
        state = home.stat()
        if state.st_uid != os.getuid():
            return DoctorCheck(
                "home", "wrong", f"{home} belongs to another user", "set INTERLOCK_HOME to your own folder"
            )
        if state.st_mode & 0o022:
            return DoctorCheck("home", "warning", f"other users may write to {home}", f"chmod go-w {home}")
    return DoctorCheck("home", "ok", str(home))


def _containment(loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """Report whether this kernel can contain servers. Only a configured server that cannot be contained is wrong."""
    from interlock.containment.backends import landlock_abi, reports

    found = reports()
    serving = [report.backend for report in found if not report.missing]
    if serving:
        spare = f"; {serving[1]} serves too" if len(serving) > 1 else ""
        yield DoctorCheck("containment", "ok", f"by {serving[0]}{spare} (Landlock version {landlock_abi()})")
    needed = any(server.isolation == "sandbox" for server in loaded.config.servers.values())
    for report in found:
        if report.missing:
            verdict = "ok" if serving else ("wrong" if needed else "warning")
            yield DoctorCheck(
                "containment", verdict, f"{report.backend} cannot be used here: {report.missing}", report.hint
            )


def search_model_check(home: Path, loaded: LoadedConfig) -> DoctorCheck:
    """How the hub finds tools: by their words alone, or by meaning as well."""
    from interlock.discovery import model_files

    name, settings = "search model", loaded.config.hub.embeddings
    if settings.url is not None:
        return DoctorCheck(name, "ok", f"{settings.model}, at the endpoint of [hub.embeddings]")
    if settings.path is not None:
        if problem := model_files.problem_in(Path(settings.path).expanduser(), whole=True):
            return DoctorCheck(
                name, "warning", problem, "correct `path` in [hub.embeddings]; tools are found by their words"
            )
        return DoctorCheck(name, "ok", settings.path)
    if (folder := model_files.installed(home)) is not None:
        if problem := model_files.problem_in(folder, whole=True):
            hint = "run `interlock search-model install` again; tools are found by their words"
            return DoctorCheck(name, "warning", problem, hint)
        return DoctorCheck(name, "ok", f"{model_files.NAME} is installed")
    return DoctorCheck(
        name, "ok", "none: tools are found by their words", "`interlock search-model install` adds meaning"
    )


def _configuration(loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    origin = loaded.config.origin
    for problem in loaded.problems:
        if problem.server is None or problem.fatal:
            yield DoctorCheck(
                "configuration",
                "wrong" if problem.fatal else "warning",
                f"{problem.place}: {problem.message}",
                problem.hint,
            )
    if loaded.usable:
        count = len(loaded.config.servers)
        named = f"{origin.path or 'no file is in use'}, {counted(count, 'server')}"
        nothing = "no servers are configured; the demonstration server would run"
        yield DoctorCheck("configuration", "ok", nothing if loaded.config.demo else named)
    for waiting in loaded.unconfirmed:
        ids = ", ".join(server.id for server in waiting.servers) or "no servers"
        hint = "run `interlock up` here in a terminal to confirm it"
        yield DoctorCheck("configuration", "warning", f"{waiting.path} ({ids}) is not confirmed", hint)


def _running_configuration(home: Path) -> Path | None:
    """The file of the hub that runs, if there is one: it may have been started with another than this folder's."""
    from interlock.cli.control.hub_link import HubLink

    try:
        with HubLink.open(home) as link:
            path = (link.ask("hub/status").get("config") or {}).get("path")
    except CommandFailure:
        return None
    return None if path is None else Path(path)


def _start(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """The checks that a hub makes before it starts: settings, the secret of the keys, and the store."""
    if not loaded.usable:
        return
    from interlock.config.hub_secret import BadHubSecret
    from interlock.hub.cannot_start import CannotStart
    from interlock.hub.foundation import store_of
    from interlock.hub.sealing_key import check_stored
    from interlock.store import StoreDamaged, StoreError, check_store, damaged_entries
    from interlock.web.run import check_start

    try:
        check_start(loaded.config)
    except CannotStart as cause:
        yield DoctorCheck("start", "wrong", cause.message, cause.hint)
    yield from _key(home, loaded)
    where = store_of(loaded.config, home)
    try:
        check_store(where)
        check_stored(where, loaded.config, home)
        if found := damaged_entries(where):
            message = f"entries do not match their checksums: {', '.join(found[:20])}"
            yield DoctorCheck("store", "wrong", message, StoreDamaged.hint)
    except StoreError as cause:
        yield DoctorCheck("store", "wrong", cause.for_operators, cause.hint)
    except BadHubSecret:
        return  # `_key` reports it.


def _key(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """Where the key is that seals tokens and secrets, and whether it can be read."""
    from interlock.config.hub_secret import FILE, BadHubSecret, existing_secret, has_secret, hub_secret, keyring_entry
    from interlock.config.next_secret import has_next
    from interlock.config.secret_store import SecretStore

    configured = loaded.config.hub.sealing_key is not None
    if configured:
        yield DoctorCheck("key", "ok", f"the key for tokens is `sealing_key` of {loaded.config.origin.path}")
    secrets = SecretStore(home)
    if not has_secret(home) and not secrets.names():
        return
    try:
        if not has_secret(home):
            hub_secret(home)  # This raises, because the key of the secrets is lost.
        existing_secret(home)
        entry = keyring_entry(home)
        unopened = secrets.unopened() if secrets.names() else []
    except BadHubSecret as cause:
        yield DoctorCheck("key", "wrong", cause.message, cause.hint)
        return
    if has_next(home):
        hint = "start the hub, which finishes or undoes it"
        yield DoctorCheck("key", "warning", "`interlock secrets rekey` was interrupted", hint)
    place = f"in the file {home / FILE}" if entry is None else f"in {entry.backend}"
    yield DoctorCheck("key", "ok", f"the key for {'secrets' if configured else 'tokens and secrets'} is {place}")
    for name in unopened:
        hint = f"store it again with `interlock secrets rotate {name}`, or put the old key back"
        yield DoctorCheck("key", "warning", f"the secret `{name}` was sealed with another key", hint)
    if entry is not None and (home / FILE).exists():
        yield DoctorCheck("key", "warning", f"{home / FILE} is left over", "run `interlock secrets key keyring` again")


def _hub(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    from interlock.cli.control.hub_link import HubLink
    from interlock.config.home import socket_path

    running = False
    try:
        with HubLink.open(home) as link:
            running = True
            another = link.is_another_version
            hint = "restart it with this version: `interlock down`, then `interlock up -d`" if another else ""
            running_hub = f"runs, pid {link.hello.get('pid')}, version {link.hello.get('version')}"
            yield DoctorCheck(
                "hub",
                "warning" if another else "ok",
                f"{running_hub}, another version" if another else running_hub,
                hint,
            )
            status = link.ask("hub/status")
            for warning in status.get("warnings") or []:
                yield DoctorCheck("hub", "wrong", str(warning.get("message")), str(warning.get("hint") or ""))
            for row in status.get("servers") or []:
                if row.get("health") == "down":
                    problem = str(row.get("problem") or f"is {row.get('state')}")
                    yield DoctorCheck(
                        f"server {row.get('id')}", "wrong", f"is down: {problem}", str(row.get("hint") or "")
                    )
    except NoHub:
        stale = sys.platform != "win32" and socket_path(home).exists()
        yield DoctorCheck("hub", "ok", "does not run" + (" (the next start removes its old socket)" if stale else ""))
    except CommandFailure as failure:
        running = True
        yield DoctorCheck("hub", "wrong", failure.message, failure.hint)
    if not running and loaded.usable:
        yield _port(*loaded.config.hub.address)
        yield from _audit_log(home, loaded)


def _audit_log(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """Compares the ends of the audit log with the head files, if a hub has run here."""
    if not any(home.glob("audit*.head")):
        return
    from interlock.hub.audit.home_check import missing_ends
    from interlock.hub.foundation import store_of
    from interlock.store import StoreError

    try:
        problems = missing_ends(store_of(loaded.config, home), home)
    except StoreError as cause:
        yield DoctorCheck("audit log", "wrong", cause.for_operators, cause.hint)
        return
    for problem in problems:
        yield DoctorCheck(
            "audit log", "wrong", problem, "run `interlock audit verify`, and compare the store with a backup"
        )
    if not problems:
        yield DoctorCheck("audit log", "ok", "ends where its head file says")


def _port(host: str, port: int) -> DoctorCheck:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            from interlock.cli.lifecycle.ports import find_listener

            detail = f"{host}:{port} cannot be used: {error.strerror}"
            if error.errno != errno.EADDRINUSE:
                return DoctorCheck("port", "wrong", detail, "set `listen` in [hub] to an address of this machine")
            holder = find_listener(port)
            detail += f"; held by {holder}" if holder else ""
            return DoctorCheck("port", "wrong", detail, "stop that program, or set another `listen` in [hub]")
    return DoctorCheck("port", "ok", f"{host}:{port} is free")


def _server(name: str, server: ServerSettings) -> DoctorCheck:
    title = f"server {name}"
    if not server.enabled:
        return DoctorCheck(title, "ok", "is disabled (enabled = false)")
    if server.problem is not None:
        return DoctorCheck(title, "wrong", server.problem.message, server.problem.hint)
    if server.url is not None:
        return _address(title, server.url)
    program = server.command[0] if server.command else ""
    path = server.env.get("PATH", os.environ.get("PATH"))
    program_path = str(Path(server.cwd or ".") / program) if os.sep in program else program
    found = shutil.which(program_path, path=path)
    if found is None:
        hint = INSTALL.get(program, f"install `{program}`, or write its full path in `command`")
        return DoctorCheck(title, "wrong", f"the program `{program}` was not found", hint)
    if server.cwd is not None and not Path(server.cwd).is_dir():
        return DoctorCheck(title, "wrong", f"its folder {server.cwd} does not exist", "create it, or correct `cwd`")
    return DoctorCheck(
        title, "ok", f"its program is {found}" + (", contained" if server.isolation == "sandbox" else "")
    )


def _address(title: str, url: str) -> DoctorCheck:
    """Checks that the address accepts connections, through the proxy where there is one. Nothing is sent."""
    import asyncio

    from interlock.transports.http.client.origin import split_url
    from interlock.transports.http.client.outside import proxy_for
    from interlock.wire.errors import Fault

    shown = url.split("?")[0]
    try:
        origin, _ = split_url(url)
        proxy = proxy_for(origin)
        if proxy is None:
            socket.create_connection((origin.host, origin.port), CONNECT_TIMEOUT_S).close()
        else:
            asyncio.run(_through(proxy, origin))
    except (OSError, ValueError, Fault) as error:
        why = getattr(error, "strerror", None) or str(error) or "no connection"
        return DoctorCheck(
            title, "wrong", f"no server answers at {shown}: {why}", "start the server, or correct its `url`"
        )
    return DoctorCheck(
        title, "ok", f"answers at {shown}" + ("" if proxy is None else f", through {proxy.host}:{proxy.port}")
    )


async def _through(proxy: Proxy, origin: Origin) -> None:
    """Open a tunnel and close it."""
    import asyncio

    from interlock.transports.http.client.outside import open_tunnel

    class Closing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        await open_tunnel(proxy, origin.host, origin.port, Closing(), None, origin.host)
