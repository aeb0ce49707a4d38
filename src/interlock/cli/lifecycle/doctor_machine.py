"""Checks of this machine: Python, the home folder, containment, the search model, the port."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.lifecycle.doctor_check import DoctorCheck

if TYPE_CHECKING:
    from interlock.config.load import LoadedConfig


def python_check() -> DoctorCheck:
    """Check the build of Python: without optimizations, every call takes a fifth longer."""
    import sysconfig

    found = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    # Not set on Windows, where Python is always optimized.
    built_with = sysconfig.get_config_var("CONFIG_ARGS")
    if built_with is None or "--enable-optimizations" in built_with:
        return DoctorCheck("python", "ok", found)
    hint = "use a Python built with --enable-optimizations: the system's, or one of `uv python install`"
    return DoctorCheck("python", "warning", f"{found} was built without optimizations and is slower", hint)


def home_check(home: Path) -> DoctorCheck:
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


def containment_checks(loaded: LoadedConfig) -> Iterator[DoctorCheck]:
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


def port_check(host: str, port: int) -> DoctorCheck:
    """Whether the hub can listen on its address."""
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
