"""The runs of hubs in one home, so that the next run ends the servers of a hub that was killed.

The file is in the hub's own folder, and is read and written under the lock that one hub holds at a time: a run in it
that is not the present one is over. Processes are found by the run's id in their environment, never by their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Final

from interlock.config.files import write_atomically
from interlock.hub.upstreams.logs import Logs
from interlock.transports.stdio.orphan_processes import MARKS, end_run

MAX_RUNS: Final = 16
"""Upper bound for remembered runs: of hubs that were killed before they had ended the servers of earlier runs."""
_RUN: Final = re.compile(r"^([0-9a-f]{16}) ([0-9]{1,9})$", re.MULTILINE)


class EarlierRuns:
    """The runs before the present one."""

    def __init__(self, home: Path, logs: Logs) -> None:
        self._path = home / "run" / "runs"
        self._logs = logs
        self._earlier: list[tuple[str, str]] = []
        self._present: tuple[str, str] = ("", "")

    def begin(self) -> None:
        """Note the present run, before its first server starts. The hub starts even if the file cannot be written."""
        if sys.platform == "win32":
            return  # no process has a mark there
        try:
            if self._path.exists():
                self._earlier = _RUN.findall(self._path.read_text("ascii", errors="replace"))[-MAX_RUNS:]
            self._present = (MARKS.begin_run(), str(os.getpid()))
            self._write(*self._earlier, self._present)
        except OSError as cause:
            self._log(f"if this hub is killed, the next one does not find its servers: {cause}")

    async def end_servers(self) -> None:
        """End the processes that earlier runs left behind. Those of the present run go on."""
        if not self._earlier:
            return
        for run, hub in self._earlier:
            ended = await asyncio.to_thread(end_run, run, int(hub))
            if ended:
                pids = ", ".join(map(str, sorted(ended)[:50]))
                self._log(f"ended processes that a killed hub had left behind: {pids}")
        with contextlib.suppress(OSError):  # the next run looks for them once more
            await asyncio.to_thread(self._write, self._present)

    def close(self) -> None:
        """The present run is over, and its servers have ended."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _write(self, *runs: tuple[str, str]) -> None:
        write_atomically(self._path, "".join(f"{run} {hub}\n" for run, hub in runs).encode())

    def _log(self, text: str) -> None:
        self._logs.add("hub", "hub", text)
