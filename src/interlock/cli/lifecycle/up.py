"""`interlock up` and `interlock down`: start and stop the hub of this user."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol

import click

from interlock.cli.terminal.failures import CommandFailure, NoHub, WrongConfiguration, WrongUsage
from interlock.cli.terminal.show import coloured, is_attended, json_option, plain, say, show_json, show_outcome

if TYPE_CHECKING:
    from interlock.cli.control.hub_link import HubLink
    from interlock.config.confirmations import UnconfirmedFile
    from interlock.config.load import LoadedConfig
    from interlock.config.problems import Problem
    from interlock.config.settings import Config
    from interlock.web.run import Ready

FOLLOW_SERVERS_S = 120.0
WAIT_FOR_SERVERS_S = 2.0
"""How long `up -d` waits for servers. Most are ready by then."""


class RunHub(Protocol):
    """Serves until it is stopped. Calls `on_ready` once it listens, and returns the exit code."""

    def __call__(self, config: Config, *, home: Path, on_ready: Callable[[Ready], None]) -> int: ...


@click.command()
@click.option("-d", "--detach", is_flag=True, help="Run in the background; return when it is ready.")
@click.option("--config", type=click.Path(path_type=Path), help="The interlock.toml to use.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address instead of that of `listen`.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Listen on this port instead of that of `listen`.")
@json_option
@click.pass_context
def up(
    ctx: click.Context, detach: bool, config: Path | None, host: str | None, port: int | None, as_json: bool
) -> None:
    """Run the hub and its servers.

    Reads --config, $INTERLOCK_CONFIG, ./interlock.toml (once you have confirmed it) or
    ~/.config/interlock/interlock.toml, and the files these import. With nothing configured it runs a
    built-in demonstration server.

    \b
    Example:
      interlock up -d
    """
    from interlock.cli.control.starting import is_running, start_hub
    from interlock.config.confirmations import Confirmations
    from interlock.config.home import home_folder
    from interlock.config.load import load

    home, folder = home_folder(), Path.cwd()
    loaded = load(config, home=home, folder=folder)
    confirmed = _ask_to_confirm(loaded, may_ask=not as_json)
    for waiting in confirmed:
        Confirmations(home).add(Path(waiting.path), waiting.hash)
    if confirmed:
        loaded = load(config, home=home, folder=folder)
    show_problems(loaded.problems)
    if not loaded.usable:
        raise WrongConfiguration("the configuration cannot be used", "fix the problems above; nothing was started")
    loaded = _listening(loaded, host, port)
    if is_running(home):
        if host is not None or port is not None:
            raise CommandFailure(
                "a hub runs already, so --host and --port cannot change", "stop it with `interlock down`"
            )
        _confirm_in_hub(home, confirmed)
        show_running(home, as_json, already=True)
    elif detach:
        arguments: tuple[str, ...] = ("--config", str(config.absolute())) if config else ()
        arguments += ("--host", host) if host is not None else ()
        arguments += ("--port", str(port)) if port is not None else ()
        start_hub(home, folder=folder, arguments=arguments)
        show_running(home, as_json, already=False)
    else:
        ctx.exit(_run(loaded, home, as_json))


def _listening(loaded: LoadedConfig, host: str | None, port: int | None) -> LoadedConfig:
    """The configuration with the address of the command line. Raises WrongUsage."""
    if host is None and port is None:
        return loaded
    from interlock.config.load import listening

    known_host, known_port = loaded.config.hub.address
    host, port = known_host if host is None else host, known_port if port is None else port
    listen = f"[{host.strip('[]')}]:{port}" if ":" in host else f"{host}:{port}"
    loaded = listening(loaded, listen)
    try:
        loaded.config.hub.address  # noqa: B018 - it raises for what is no address
    except ValueError:
        raise WrongUsage(f"{host} is not an address", "write --host 127.0.0.1, or another address") from None
    return loaded


def _run(loaded: LoadedConfig, home: Path, as_json: bool) -> int:
    from interlock.hub.cannot_start import CannotStart
    from interlock.store.errors import StoreError

    run_hub: RunHub = importlib.import_module("interlock.web.run").run_hub
    try:
        return run_hub(loaded.config, home=home, on_ready=_announcer(loaded, home, as_json))
    except CannotStart as cause:
        raise CommandFailure(f"the hub cannot start: {cause.message}", cause.hint) from None
    except StoreError as cause:
        message = f"the hub has stopped, and could not write its last entries: {cause.for_operators}"
        raise CommandFailure(message, cause.hint) from None


@click.command()
@json_option
def down(as_json: bool) -> None:
    """Stop the hub.

    Calls in progress get time to finish. The hub stops the servers it started.

    \b
    Example:
      interlock down
    """
    stop_hub(as_json)


def stop_hub(as_json: bool) -> None:
    """Stop the hub, and wait until it has stopped."""
    from interlock.cli.control.hub_link import ConnectionLost, HubError, HubRefusal

    with _to_stop() as link:
        by_hand = f"stop it yourself: kill {link.hello.get('pid')}"
        try:
            link.ask("hub/stop")
        except ConnectionLost:
            pass  # The hub stopped at once.
        except HubRefusal:
            raise
        except HubError as error:
            version = f", which has version {link.hello.get('version')}," if link.is_another_version else ""
            raise CommandFailure(f"the hub{version} did not stop: {error.message}", by_hand) from error
        if not link.wait_closed(60):
            raise CommandFailure("the hub has not stopped after 60 s", by_hand)
        show_outcome(
            {"stopped": True, "pid": link.hello.get("pid")},
            f"The hub (pid {link.hello.get('pid')}) has stopped.",
            as_json,
        )


def _to_stop() -> HubLink:
    """The running hub. Where none runs, the failure suggests no start."""
    from interlock.cli.control.hub_link import HubLink

    try:
        return HubLink.open()
    except NoHub:
        raise NoHub(hint="") from None


def show_problems(problems: tuple[Problem, ...]) -> None:
    """Print each problem with its place and fix on standard error."""
    for problem in problems:
        mark = coloured("error", "red", err=True) if problem.fatal else coloured("warning", "yellow", err=True)
        say(f"{plain(problem.place)}: {mark}: {plain(problem.message)}", err=True)
        if problem.hint:
            say(f"  → {plain(problem.hint)}", err=True)


def _ask_to_confirm(loaded: LoadedConfig, *, may_ask: bool) -> list[UnconfirmedFile]:
    """Show each unconfirmed project file and ask the person, if there is one. Returns the confirmed files."""
    confirmed: list[UnconfirmedFile] = []
    for waiting in loaded.unconfirmed:
        _show_unconfirmed(waiting)
        if not (may_ask and is_attended()):
            say("  → not started: run `interlock up` here in a terminal to confirm this file", err=True)
        elif click.confirm("Start the servers of this file?", default=False, err=True):
            confirmed.append(waiting)
    return confirmed


def _confirm_in_hub(home: Path, confirmed: list[UnconfirmedFile]) -> None:
    """Confirm the files in a hub that runs already."""
    from interlock.cli.control.hub_link import HubLink

    with HubLink.open(home) as link:
        for waiting in confirmed:
            link.ask("hub/confirm", {"path": waiting.path, "hash": waiting.hash})


def _show_unconfirmed(waiting: UnconfirmedFile) -> None:
    from interlock.cli.servers.importing import show_planned
    from interlock.judge.secrets import redact

    say(f"{plain(waiting.path)} is part of this folder (sha256 {waiting.hash}). It would start:", err=True)
    show_planned(waiting.servers)
    for setting in waiting.settings:
        say(f"  and it would set {plain(redact(setting))}", err=True)


def show_running(home: Path, as_json: bool, *, already: bool) -> None:
    """Show the status of a hub in the background."""
    from interlock.cli.control.hub_link import HubLink
    from interlock.cli.lifecycle.status import STARTING, show_status
    from interlock.config.load import BUILT_IN

    deadline = monotonic() + (0 if already else WAIT_FOR_SERVERS_S)
    with HubLink.open(home) as link:
        while True:
            status = link.ask("hub/status")
            starting = [one for one in status.get("servers") or [] if one["state"] in STARTING]
            if not starting or monotonic() >= deadline:
                break
            sleep(0.05)
    if as_json:
        show_json({**status, "already": already})
        return
    say("A hub is running already." if already else "The hub is ready and runs in the background.")
    if not already:
        _say_upgrade(status)
    show_status(status)
    if any(server.get("source") == BUILT_IN for server in status.get("servers") or []):
        _say_nothing_configured((status.get("config") or {}).get("path"))
    if not status.get("agents"):
        _say_next()


def _announcer(loaded: LoadedConfig, home: Path, as_json: bool) -> Callable[[Ready], None]:
    """The output of `up` once the hub listens. A thread prints each server when it is ready."""

    def announce(ready: Ready) -> None:
        with contextlib.suppress(OSError):  # the output is closed; the hub runs anyway
            say_ready(ready.listen)

    def say_ready(listen: str) -> None:
        if as_json:
            show_json({"ready": True, "listen": listen, "home": str(home), "servers": list(loaded.config.servers)})
            return
        say(f"Interlock listens on http://{listen}/mcp  (stop with Ctrl-C)")
        if loaded.config.demo:
            _say_nothing_configured(loaded.config.origin.path)
        threading.Thread(target=_follow_servers, args=(home,), daemon=True).start()

    return announce


def _follow_servers(home: Path) -> None:
    """Print each server once, when it is ready or has failed."""
    from interlock.cli.control.hub_link import HubLink
    from interlock.cli.lifecycle.status import STARTING, server_lines, warning_lines

    shown: set[str] = set()
    warned: set[str] = set()
    deadline = monotonic() + FOLLOW_SERVERS_S
    try:
        with HubLink.open(home) as link:
            status = link.ask("hub/status")
            _say_upgrade(status)
            if not status.get("agents"):
                _say_next()
            while monotonic() < deadline:
                status = link.ask("hub/status")
                servers = status.get("servers", [])
                for line in warning_lines(status):
                    if line not in warned:
                        say(line)
                warned.update(warning_lines(status))
                settled = [one for one in servers if one["state"] not in STARTING]
                for line in server_lines([one for one in settled if one["id"] not in shown]):
                    say(line)
                shown |= {one["id"] for one in settled}
                if len(shown) == len(servers):
                    return
                sleep(0.2)
    except (CommandFailure, OSError):
        return  # the hub is stopping, or the output is closed


def _say_upgrade(status: dict[str, Any]) -> None:
    """Say that this start upgraded the store, and where its backup is."""
    if upgrade := status.get("upgrade"):
        steps = f"from schema {upgrade['before']} to {upgrade['after']}"
        say(f"The store was upgraded {steps}; backup in {plain(upgrade['backup'])}.")


def _say_nothing_configured(read: str | None = None) -> None:
    from interlock.config.home import user_config

    looked = read or os.environ.get("INTERLOCK_CONFIG") or f"./interlock.toml or {user_config()}"
    say("No servers are configured yet, so a built-in demonstration server runs.")
    say(f"  → the hub looks for {plain(looked)}")
    say("  → add your own: `interlock add NAME -- command…`, or `interlock import FILE`")


def _say_next() -> None:
    say("  → connect a client: `interlock connect cursor` (or claude-code, claude-desktop, vscode, gemini, codex)")
