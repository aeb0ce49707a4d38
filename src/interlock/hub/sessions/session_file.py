"""The file that sessions are saved in. The hub appends a line for each change, so that they outlive a killed hub.

A thread writes, one write at a time, and no request waits for it. The file is written anew when most of its lines are
out of date, and after a write that failed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.files import write_atomically

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
OUTDATED: Final = 1_000
"""The file is written anew when it has this many entries more than twice the sessions."""


class SessionFile:
    """Appends entries to a file. `current` returns the entries of the whole state."""

    def __init__(
        self, path: Path, current: Callable[[], Sequence[msgspec.Struct]], log: Callable[[str, str], None]
    ) -> None:
        self._path = path
        self._current = current
        self._log = log
        self._waiting: list[msgspec.Struct] = []
        self._writing: asyncio.Future[None] | None = None
        self._room = 0
        """How many entries can follow before the file is written anew."""
        self._incomplete = False
        """Whether an entry is missing in the file."""
        self._failed = False

    def append(self, entry: msgspec.Struct) -> None:
        """Write an entry soon."""
        self._waiting.append(entry)
        if len(self._waiting) > OUTDATED:
            # A disk that hangs must not fill the memory. The file is written anew after that.
            self._waiting, self._incomplete = [], True
        self._begin()

    async def written(self) -> None:
        """Wait until every entry is written."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    async def rewrite(self) -> None:
        """Write the file anew."""
        self._incomplete = True
        await self.written()
        if self._incomplete:
            self._begin()
            await self.written()

    async def touch(self) -> None:
        """Set the time of the file, or write it anew if an entry is missing."""
        if self._incomplete:
            await self.rewrite()
        else:
            await asyncio.to_thread(self._set_time)

    def _begin(self) -> None:
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting or self._incomplete:
                entries: Sequence[msgspec.Struct] = self._waiting
                self._waiting = []
                self._room -= len(entries)
                anew, self._incomplete = self._incomplete or self._room < 0, False
                if anew:
                    entries = self._current()
                    self._room = len(entries) + OUTDATED
                await asyncio.to_thread(self._put, entries, anew=anew)
                self._failed = False
        except OSError as cause:
            self._incomplete = True
            if not self._failed:
                self._failed = True
                self._log("hub", f"sessions could not be kept: {cause.strerror}")
        finally:
            self._writing = None

    def _put(self, entries: Sequence[msgspec.Struct], *, anew: bool) -> None:
        content = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        if anew:
            write_atomically(self._path, content, private=True)
            return
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            while content:
                content = content[os.write(handle, content) :]
        finally:
            os.close(handle)

    def _set_time(self) -> None:
        try:
            os.utime(self._path)
        except OSError:
            self._incomplete = True


def read_lines(path: Path) -> tuple[list[bytes], float]:
    """The lines of a file and the time of its last change. None for a file that is missing, no file, or too large."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return [], 0.0
    with os.fdopen(handle, "rb") as file:
        try:
            known = os.fstat(handle)
            if not stat.S_ISREG(known.st_mode) or known.st_size > MAX_FILE_BYTES:
                return [], 0.0
            return file.read().splitlines(), known.st_mtime
        except OSError:
            return [], 0.0
