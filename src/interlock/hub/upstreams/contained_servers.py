"""Which servers run contained, and what each may use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.config.settings import ServerSettings
from interlock.containment.cgroups import THREADS_PER_PROCESS
from interlock.containment.policy import Containment
from interlock.wire.errors import Fault

FOLDER: Final = "contained"
"""The folder in the hub's home that has one folder for each contained server."""
CODE: Final = "code"
"""The folder with the approved script of a registered server, in the server's own folder."""

_DENIED: Final = re.compile(
    "permission denied|operation not permitted|read-only file system|EACCES|EPERM|EROFS|cannot connect to the docker",
    re.IGNORECASE,
)
"""How programs report a path, a socket or an operation that was refused to them."""


def containment_of(id: str, settings: ServerSettings, home: Path) -> Containment | None:
    """The resources that a server may use; None if it does not run contained."""
    if settings.isolation == "none":
        return None
    sandbox = settings.sandbox
    return Containment(
        folder=str(home.resolve() / FOLDER / id),
        backend=sandbox.backend,
        read=sandbox.read,
        write=sandbox.write,
        hosts=sandbox.hosts,
        memory_bytes=sandbox.memory_mb << 20,
        cpus=sandbox.cpus,
        processes=sandbox.processes,
        time_s=sandbox.time_s,
        pinned=tuple(_pinned(home.resolve() / FOLDER / id / CODE, settings.command)),
    )


def script_file(home: Path, id: str, sha256: str) -> Path:
    """The file of an approved script. Its folder has the name of its hash."""
    return home.resolve() / FOLDER / id / CODE / sha256 / "server.py"


def _pinned(code: Path, command: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The script that a command runs, and its hash, if it is one that a person approved."""
    for argument in command[1:2]:
        if Path(argument).parent.parent == code:
            yield argument, Path(argument).parent.name


def explained(fault: Fault, id: str, settings: ServerSettings) -> Fault:
    """The failure of a server, with the way to allow what its containment seems to have denied it."""
    if settings.isolation == "none" or fault.hint or not _DENIED.search(fault.for_operators):
        return fault
    hint = (
        f"it runs contained: name the path in `read` or `write` of [servers.{id}.sandbox], a host in `hosts`; "
        "sockets of other programs, such as docker's, stay closed"
    )
    return fault.reworded(fault.message, fault.data, hint=hint)


_PATH: Final = re.compile(r"(?<![\w.])/[^\s'\"`:,;<>|*?()]+")
_NO_NETWORK: Final = re.compile(
    r"\b(?:ENOTFOUND|EAI_AGAIN|EAFNOSUPPORT|address family not supported|name resolution|name or service not known|"
    r"no such host|network is unreachable|ConnectError|connection error)\b",
    re.IGNORECASE,
)
_HOST: Final = re.compile(r"\b(?:ENOTFOUND|EAI_AGAIN|https?:/)[ /]([\w.-]+\.[a-z]{2,})", re.IGNORECASE)
_MISSING: Final = re.compile(r"\b(?:no such file|ENOENT|FileNotFoundError)\b", re.IGNORECASE)


def option_for(message: str) -> str:
    """The option of `interlock add --sandbox` that would allow what a contained server failed over; "" if none fits."""
    if "docker" in message.lower() and _DENIED.search(message):
        return "leave out --sandbox: sockets of other programs stay closed, and docker contains the server itself"
    if _NO_NETWORK.search(message):
        named = _HOST.search(message)
        return f"give `--host {named[1] if named else 'HOST'}`: without it, the server reaches no network"
    paths = [path for path in _PATH.findall(message) if os.path.exists(path)]
    if not _DENIED.search(message) and not (_MISSING.search(message) and paths):
        return ""
    path = paths[-1] if paths else "PATH"
    return f"give `--read {path}`, or `--write FOLDER` with a folder that it changes: the server has no other files"


def limits_shown(settings: ServerSettings) -> str | None:
    """The limits of a contained server in one line; None if it does not run contained."""
    if settings.isolation == "none":
        return None
    sandbox = settings.sandbox
    network = f"only {', '.join(sandbox.hosts)}" if sandbox.hosts else "no network"
    paths = "path" if len(sandbox.read) == 1 else "paths"
    folders = f"{len(sandbox.read)} {paths} to read, {len(sandbox.write)} to write"
    processes = f"{sandbox.processes} processes"
    if not sandbox.hosts:
        processes += f" ({sandbox.processes * THREADS_PER_PROCESS} with threads)"
    return f"{network}; {folders}; {sandbox.memory_mb} MB, {sandbox.cpus} CPU, {processes}"
