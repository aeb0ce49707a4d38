"""The spare processes of the launcher: one for each kind of server that was asked for."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from interlock.containment import cgroups
from interlock.containment.policy import StartPlan
from interlock.containment.spare_process import GroupBounds, ServerKind, SpareProcess

if sys.platform != "linux":
    raise ImportError("containment needs Linux")

QUIET_S: Final = 0.1
"""The time after a start in which no spare is prepared: joining a control group delays the creation of processes."""
AGAIN_S: Final = 2.0
"""The time after a spare was killed in which no other is prepared."""


class SpareProcesses:
    """Prepares spares, and gives them out."""

    def __init__(self) -> None:
        self._number = 0
        self._spares: dict[ServerKind, SpareProcess] = {}
        self._expected: dict[ServerKind, GroupBounds] = {}
        """The bounds of the last server of each kind: those of the next one, most likely."""
        self._wanted: set[ServerKind] = {ServerKind("sandlock" if "sandlock" in sys.modules else "bubblewrap", False)}
        self._next_at = 0.0
        """When the next spare is prepared."""

    @property
    def next_at(self) -> float | None:
        """When the next spare is to be prepared; None if none is missing."""
        return self._next_at if self._wanted - self._spares.keys() else None

    @property
    def pids(self) -> set[int]:
        """The processes of the spares."""
        return {spare.pid for spare in self._spares.values()}

    def prepare(self) -> None:
        """Prepare one spare that is missing, if its time has come."""
        missing = self._wanted - self._spares.keys()
        if missing and time.monotonic() >= self._next_at:
            kind = missing.pop()
            self._spares[kind] = self._new(kind)

    def take(self, plan: StartPlan) -> SpareProcess:
        """A process for a server, with the bounds of its plan. Raises OSError."""
        kind = ServerKind.of(plan)
        spare = self._spares.pop(kind, None) or self._new(None)
        self._wanted.add(kind)
        self._next_at = time.monotonic() + QUIET_S
        self._expected[kind] = GroupBounds(plan.memory_bytes, plan.processes)
        spare.bound(self._expected[kind])
        return spare

    def on_ended(self, pid: int) -> list[Path]:
        """A process has ended. Returns the control groups of the spare that it was, if it was one."""
        groups: list[Path] = []
        for kind in [kind for kind, spare in self._spares.items() if spare.pid == pid]:
            lost = self._spares.pop(kind)
            lost.discard()
            groups += lost.groups
            self._next_at = time.monotonic() + AGAIN_S
        return groups

    def discard(self) -> list[Path]:
        """End all spares. Returns their control groups."""
        for spare in self._spares.values():
            spare.discard()
        return [group for spare in self._spares.values() for group in spare.groups]

    def _new(self, kind: ServerKind | None) -> SpareProcess:
        self._number += 1
        expected = None if kind is None else self._expected.get(kind)
        return SpareProcess(f"{cgroups.names_of(os.getpid())}{self._number}", kind, expected)
