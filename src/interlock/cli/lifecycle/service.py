"""`interlock service`: runs the hub at login, as a systemd user unit or a launchd agent."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import json_option, plain, show_outcome

UNIT = "interlock.service"
LABEL = "dev.interlock.hub"
_SECRET_VARIABLE = re.compile(r'secret_env\s*=\s*"([A-Za-z_][A-Za-z0-9_]*)"')
_PASSED = (
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "INTERLOCK_CLIENT_CERTIFICATE",
    "INTERLOCK_CLIENT_KEY",
)
"""Variables of this terminal that the hub needs, too; a service starts with almost none. No secret is among them."""
_PLACES = ("INTERLOCK_CONFIG", "XDG_CONFIG_HOME")
"""Variables with a path, which the service gets as an absolute one: it runs in another folder."""


@click.group()
def service() -> None:
    """Run the hub at login, and start it again if it ends.

    \b
    Example:
      interlock service install
    """


@service.command()
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="The interlock.toml to use.")
@click.option("--print", "only_print", is_flag=True, help="Print the file, and change nothing.")
@json_option
def install(config: Path | None, only_print: bool, as_json: bool) -> None:
    """Run the hub at login, from now on.

    Writes a systemd user unit (Linux) or a launchd agent (macOS) and starts it. The service runs the hub that
    `interlock up` runs here: INTERLOCK_HOME, INTERLOCK_CONFIG, PATH and proxies of this terminal are written into it.
    Other variables that the configuration names are listed, with where to put them.

    \b
    Example:
      interlock service install
    """
    from interlock.cli.control.starting import is_running
    from interlock.config.home import home_folder

    path, text = _file(config)
    if only_print:
        click.echo(text.decode(), nl=False)
        return
    running = is_running(home_folder())
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(text)
    try:
        for command in _start(path):
            _run(command)
    except CommandFailure:
        # Remove a file that the system refused, so that it does not look like an installed service.
        path.unlink() if before is None else path.write_bytes(before)
        raise
    missing = _missing(config)
    message = f"The hub runs at login. → {plain(str(path))}"
    if running := running and before != text:
        message += f"\nA hub runs already, and this does not change it.\n  → `interlock down`, then `{_begin()}`"
    if missing:
        message += (
            f"\nThe service does not have these variables of the configuration: {', '.join(missing)}\n  → {_remedy()}"
        )
    outcome = {"installed": str(path), "missing_variables": missing, "running_already": running}
    show_outcome(outcome, message, as_json)


@service.command()
@json_option
def uninstall(as_json: bool) -> None:
    """Stop the hub, and run it at login no more. Its data stays.

    \b
    Example:
      interlock service uninstall
    """
    path, _ = _file(None)
    if not path.exists():
        raise CommandFailure("the hub is not installed as a service", "`interlock service install` does that")
    for command in _stop(path):
        _run(command, may_fail=True)
    path.unlink()
    if sys.platform == "linux":
        _run(["systemctl", "--user", "daemon-reload"], may_fail=True)
    show_outcome({"uninstalled": str(path)}, "The hub no longer runs at login.", as_json)


@service.command()
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show whether the hub is installed as a service, and whether it runs. Ends with 1 if it is not installed.

    \b
    Example:
      interlock service status
    """
    from interlock.cli.control.starting import is_running
    from interlock.config.home import home_folder

    path, running = _file(None)[0], is_running(home_folder())
    installed = (
        f"installed: {plain(str(path))}" if path.exists() else "not installed; `interlock service install` installs it"
    )
    text = f"The service is {installed}\nThe hub {'runs' if running else 'does not run'}."
    show_outcome({"installed": path.exists(), "path": str(path), "running": running}, text, as_json)
    if not path.exists():
        ctx.exit(1)


def _file(config: Path | None) -> tuple[Path, bytes]:
    """The file of this system, and its content."""
    from interlock.config.home import home_folder

    command = [sys.executable, "-P", "-m", "interlock.cli", "up"]
    if config is not None:
        command += ["--config", str(config.absolute())]
    variables = {name: os.environ[name] for name in ("PATH", *_PASSED) if os.environ.get(name)}
    places = {name: Path(os.environ[name]).expanduser() for name in _PLACES if os.environ.get(name)}
    places["INTERLOCK_HOME"] = home_folder()
    variables |= {name: str(place.absolute()) for name, place in places.items()}
    if sys.platform == "linux":
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return folder / "systemd" / "user" / UNIT, systemd_unit(command, variables, _environment_file())
    if sys.platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist", launchd_agent(command, variables)
    raise CommandFailure(
        "services are installed on Linux and macOS", "run `interlock up -d` at login, with your own means"
    )


def _missing(config: Path | None) -> list[str]:
    """Variables that the configuration names and the service does not have."""
    from interlock.cli.servers.servers import config_file
    from interlock.config.expand import variables_in
    from interlock.config.files import read_exactly

    try:
        text = read_exactly(config_file(config))
    except OSError:
        return []
    named = {*variables_in(text), *_SECRET_VARIABLE.findall(text)}
    kept = _environment_file().read_text().splitlines() if _environment_file().is_file() else []
    given = {"PATH", "HOME", "INTERLOCK_HOME", *_PASSED, *_PLACES, *(line.partition("=")[0].strip() for line in kept)}
    return sorted(named - given)


def _environment_file() -> Path:
    """The file with variables for the service, which systemd reads. launchd has no such file."""
    from interlock.config.home import user_config

    return user_config().with_name("service.env")


def _remedy() -> str:
    keep = "keep each with `interlock secrets set NAME`, and write ${secret:NAME} in the configuration"
    if sys.platform != "linux":
        return keep
    restart = f"run `systemctl --user restart {UNIT}`"
    return f"{keep}; or write lines of NAME=value into {_environment_file()} (mode 0600), and {restart}"


def systemd_unit(command: list[str], variables: dict[str, str], extra: Path | None = None) -> bytes:
    """The unit. systemd reads `%` and `$` in commands, so both are doubled. It may do without the `extra` variables."""
    words = " ".join(_quoted(word.replace("$", "$$")) for word in command)
    environment = "\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in variables.items())
    if extra is not None:
        environment += f"\nEnvironmentFile=-{str(extra).replace('%', '%%')}"
    return f"""[Unit]
Description=Interlock, the hub between agents and their tools
After=network-online.target

[Service]
ExecStart={words}
{environment}
Restart=on-failure
RestartSec=2
TimeoutStopSec=30
KillMode=mixed
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
""".encode()


def launchd_agent(command: list[str], variables: dict[str, str]) -> bytes:
    """The agent. launchd starts it again unless it ended well."""
    logs = str(Path.home() / "Library" / "Logs" / "interlock.log")
    agent: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": command,
        "EnvironmentVariables": variables,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardErrorPath": logs,
        "StandardOutPath": logs,
    }
    return plistlib.dumps(agent)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != shlex.quote(escaped) or "%" in escaped else escaped


def _start(path: Path) -> list[list[str]]:
    if sys.platform == "linux":
        return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", UNIT]]
    return [["launchctl", "bootstrap", _domain(), str(path)]]


def _stop(path: Path) -> list[list[str]]:
    if sys.platform == "linux":
        return [["systemctl", "--user", "disable", "--now", UNIT]]
    return [["launchctl", "bootout", _domain(), str(path)]]


def _begin() -> str:
    """The command that starts the service as it is installed now."""
    return (
        f"systemctl --user restart {UNIT}" if sys.platform == "linux" else f"launchctl kickstart -k {_domain()}/{LABEL}"
    )


def _domain() -> str:
    """launchd's name for the services of this user's session."""
    if sys.platform == "win32":
        raise CommandFailure("there is no launchd here", "run `interlock up -d` at login, with your own means")
    return f"gui/{os.getuid()}"


def _run(command: list[str], *, may_fail: bool = False) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as cause:
        if may_fail:
            return
        raise CommandFailure(
            f"`{command[0]}` cannot be run: {cause}", "`interlock service install --print` shows the file"
        ) from None
    if done.returncode and not may_fail:
        output = (done.stderr or done.stdout).strip()[:300]
        hint = "see `interlock service install --print`"
        if "bus" in output.lower():
            hint = "there is no user session here: run `loginctl enable-linger`, log in again, and repeat this"
        raise CommandFailure(f"`{shlex.join(command)}` failed: {output}", hint)
