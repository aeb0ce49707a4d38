"""Checks of the hub that runs: its version, its warnings, and the servers that are down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.lifecycle.doctor_check import DoctorCheck
from interlock.cli.lifecycle.doctor_machine import port_check
from interlock.cli.lifecycle.doctor_start import audit_log_checks
from interlock.cli.terminal.failures import CommandFailure, NoHub

if TYPE_CHECKING:
    from interlock.config.load import LoadedConfig


def running_configuration(home: Path) -> Path | None:
    """The file of the hub that runs, if there is one: it may have been started with another than this folder's."""
    from interlock.cli.control.hub_link import HubLink

    try:
        with HubLink.open(home) as link:
            path = (link.ask("hub/status").get("config") or {}).get("path")
    except CommandFailure:
        return None
    return None if path is None else Path(path)


def hub_checks(home: Path, loaded: LoadedConfig) -> Iterator[DoctorCheck]:
    """The hub that runs. Where none runs, its port and its audit log must be ready for the next start."""
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
        yield port_check(*loaded.config.hub.address)
        yield from audit_log_checks(home, loaded)
