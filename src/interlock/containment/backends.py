"""Finds the backends that can contain a server on this machine, and why others cannot."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from typing import Final, NamedTuple

from interlock.containment import cgroups
from interlock.containment.policy import BackendName, Containment, ContainmentRefused
from interlock.containment.syscalls import MACHINES, machine

LANDLOCK_ABI: Final = 6
"""The first version in which Landlock also isolates signals and abstract sockets (Linux 6.12)."""
PROBE_S: Final = 10.0

BACKENDS: Final[tuple[BackendName, ...]] = ("sandlock", "bubblewrap")
"""The backends, in the order in which they are tried."""
known_to_serve: set[BackendName] = set()
"""Backends that work on this kernel. Failures are not cached, because somebody may repair them."""


class BackendReport(NamedTuple):
    """Whether a backend works on this machine."""

    backend: BackendName
    missing: str
    """Why the backend does not work; empty if it does."""
    hint: str = ""


def reports() -> list[BackendReport]:
    """Every backend, in the order in which they are tried."""
    return [_report(backend) for backend in BACKENDS]


def choose(containment: Containment) -> BackendName:
    """The first backend that enforces every limit. Raises `ContainmentRefused` with the reason of each backend."""
    wanted: tuple[BackendName, ...] = BACKENDS if containment.backend == "auto" else (containment.backend,)
    refusals = []
    hint = ""
    for backend in wanted:
        if backend == "bubblewrap" and containment.hosts:
            refusals.append("bubblewrap cannot limit the network to named hosts")
            hint = hint or "remove `hosts`"
            continue
        report = _report(backend)
        if not report.missing:
            return backend
        refusals.append(f"{backend}: {report.missing}")
        hint = hint or report.hint
    raise ContainmentRefused(
        "the server cannot be contained here: " + "; ".join(refusals), hint or "see `interlock doctor`"
    )


def _report(backend: BackendName) -> BackendReport:
    if sys.platform != "linux":
        return BackendReport(backend, "containment needs Linux", "run the hub on Linux, or in a virtual machine")
    if machine() is None:
        return BackendReport(backend, f"only {' and '.join(MACHINES)} are supported")
    if backend in known_to_serve:
        return BackendReport(backend, "")
    report = _sandlock() if backend == "sandlock" else _bubblewrap()
    if not report.missing:
        known_to_serve.add(backend)
    return report


def _sandlock() -> BackendReport:
    abi = landlock_abi()
    if abi < LANDLOCK_ABI:
        has = f"has version {abi}" if abi > 0 else "has none"
        return BackendReport(
            "sandlock", f"needs Landlock version {LANDLOCK_ABI}, this kernel {has}", "use Linux 6.12 or later"
        )
    if importlib.util.find_spec("sandlock") is None:
        return BackendReport("sandlock", "is not installed", "pip install 'interlock[sandbox]'")
    return BackendReport("sandlock", "")


def _bubblewrap() -> BackendReport:
    program = shutil.which("bwrap")
    if program is None:
        return BackendReport(
            "bubblewrap", "is not installed", "install the package `bubblewrap` of your Linux distribution"
        )
    if not cgroups.parents():
        hint = "run the hub as a service of systemd (`systemctl --user`), which hands it control groups"
        return BackendReport(
            "bubblewrap", "memory and processes cannot be bounded: the hub has no control groups", hint
        )
    probe = (
        program,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "true",
    )
    try:
        done = subprocess.run(probe, capture_output=True, timeout=PROBE_S, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.SubprocessError) as cause:
        return BackendReport("bubblewrap", f"does not run: {cause}")
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")[:200]
        return BackendReport(
            "bubblewrap", f"does not work: {why}", "allow unprivileged user namespaces on this machine"
        )
    return BackendReport("bubblewrap", "")


def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0 for none."""
    if sys.platform != "linux":
        return 0
    import ctypes

    create_ruleset, ask_version = 444, 1
    version: int = ctypes.CDLL(None, use_errno=True).syscall(create_ruleset, None, 0, ask_version)
    return max(0, version)
