"""`interlock doctor`: checks everything that a hub needs on this machine. Each fault is shown with its fix."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interlock.cli.lifecycle.doctor_check import DoctorCheck
from interlock.cli.lifecycle.doctor_hub import hub_checks, running_configuration
from interlock.cli.lifecycle.doctor_machine import containment_checks, home_check, python_check, search_model_check
from interlock.cli.lifecycle.doctor_servers import server_check
from interlock.cli.lifecycle.doctor_start import configuration_checks, start_checks
from interlock.cli.terminal.show import coloured, json_option, plain, say, show_json

if TYPE_CHECKING:
    from interlock.config.load import LoadedConfig

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


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
    running = None if config is not None else running_configuration(home)
    loaded = load(config or running, home=home, folder=Path.cwd())
    checks = _checks(home, loaded)
    wrong = any(check.verdict == "wrong" for check in checks)
    if as_json:
        show_json({"ok": not wrong, "checks": [check._asdict() for check in checks]})
    else:
        _show(checks)
    ctx.exit(1 if wrong else 0)


def _checks(home: Path, loaded: LoadedConfig) -> list[DoctorCheck]:
    of_machine = [python_check(), home_check(home), *containment_checks(loaded)]
    of_start = [*configuration_checks(loaded), *start_checks(home, loaded), search_model_check(home, loaded)]
    of_hub = list(hub_checks(home, loaded))
    misread = {problem.server for problem in loaded.problems if problem.fatal}
    readable = {name: server for name, server in loaded.config.servers.items() if name not in misread}
    with ThreadPoolExecutor(16) as many:
        of_servers = list(many.map(server_check, readable, readable.values()))
    # A server that cannot start is also down in the hub. Report only the cause.
    causes = {check.name for check in of_servers if check.verdict == "wrong"}
    return [*of_machine, *of_start, *(check for check in of_hub if check.name not in causes), *of_servers]


def _show(checks: list[DoctorCheck]) -> None:
    for check in checks:
        mark, colour = MARKS[check.verdict]
        say(f"{coloured(mark, colour)} {plain(check.name)}: {plain(check.detail)}")
        if check.hint:
            say(f"    → {plain(check.hint)}")
