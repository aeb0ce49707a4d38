"""The limits of a contained server. Every limit is explicit. None is left to a backend's default."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from interlock.wire.explained import ExplainedError

BackendName = Literal["sandlock", "bubblewrap"]

OPEN_FILES: Final = 1024
"""File descriptors of each contained process."""


class ContainmentRefused(ExplainedError):
    """A server cannot be contained as configured. The error has the reason and a hint."""


class Containment(msgspec.Struct, frozen=True):
    """The limits of one server, as an operator configured them."""

    folder: str
    """The server's own folder in the hub's home, with its HOME. No program outside executes files there."""
    backend: Literal["auto", "sandlock", "bubblewrap"]
    read: tuple[str, ...]
    """Absolute paths that it may read, besides the system's programs and libraries."""
    write: tuple[str, ...]
    """Absolute paths that it may read and write."""
    hosts: tuple[str, ...]
    """`host:port` pairs that it may connect to over TCP. Empty: no network."""
    memory_bytes: int
    cpus: int
    processes: int
    time_s: float
    pinned: tuple[tuple[str, str], ...] = ()
    """Files with the SHA-256 that each must have at every start."""


class LauncherRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request of the hub to the launcher: start a server, or send a signal to one."""

    id: int = 0
    plan: msgspec.Raw = msgspec.Raw()
    """The `StartPlan` of a server to start. Its three pipes are attached to the packet."""
    pid: int = 0
    signal: int = 0
    """A signal for a running server, instead of a start."""


class StartPlan(msgspec.Struct, frozen=True):
    """How one server is started by the launcher."""

    backend: BackendName
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    home: str
    hosts: tuple[str, ...]
    memory_bytes: int
    cpus: int
    processes: int
    open_files: int
    time_s: float
