"""Writes files so that a reader sees the old content or the new, never half of it, even if this process is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MARK: Final = "\ufeff"
"""What some editors put before the first character."""
CHANGED_WITHIN_S: Final = 30.0
MOST_COPIES: Final = 20
"""Copies of one file as it was before a change."""


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replaces the file at `path`. It keeps its permissions; a new or `private` one is its owner's alone."""
    path = path.resolve()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        if path.exists() and not private:
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Raises OSError where `write_whole` would, before anything is done for what is to be written."""
    folder = path.resolve().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as trial:
        trial.write(bytes(4096))
        trial.flush()


@contextlib.contextmanager
def one_change(path: Path) -> Iterator[None]:
    """Nobody else who asks for this changes a file of that folder meanwhile: what two read at once, one would undo."""
    folder = path.resolve().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + CHANGED_WITHIN_S
    handle = _lock_of(folder)
    try:
        while not _is_ours(handle):
            if time.monotonic() > deadline:
                raise TimeoutError(f"another program has been changing files in {folder} for too long")
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _is_ours(handle: int) -> bool:
    """Whether the lock is had. Some file systems over a network lock no folders; there nobody is waited for."""
    if sys.platform == "win32":
        return try_lock(handle)
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _lock_of(folder: Path) -> int:
    if sys.platform == "win32":  # a folder cannot be opened there
        return os.open(folder / ".interlock.lock", os.O_CREAT | os.O_RDWR)
    return os.open(folder, os.O_RDONLY)


def read_exactly(path: Path) -> str:
    """The text of a file that is to be changed, with its mark and its line ends as they are; "" if there is none."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""


def back_up(path: Path) -> Path | None:
    """A copy of `path` beside it, under the first free name; None if there is nothing to copy.

    The numbers only grow, so the newest copy has the highest. Of many, the first and the newest are kept.
    """
    if not path.exists():
        return None
    numbers = _numbers(path)
    copy = _copy(path, next_number(path))
    try:
        shutil.copy2(path, copy)
    except BaseException:
        copy.unlink(missing_ok=True)  # half of a copy is none
        raise
    for number in numbers[1 : 2 - MOST_COPIES]:
        _copy(path, number).unlink(missing_ok=True)
    return copy


def next_number(path: Path) -> int:
    return max(_numbers(path), default=0) + 1


def _copy(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.interlock-{number}.bak")


def _numbers(path: Path) -> list[int]:
    prefix, suffix = f"{path.name}.interlock-", ".bak"
    names = (entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else iter(())
    numbers = (name[len(prefix) : -len(suffix)] for name in names if name.startswith(prefix) and name.endswith(suffix))
    return sorted(int(number) for number in numbers if number.isdigit())


def try_lock(handle: int) -> bool:
    """Take the lock of an open file, unless someone has it. Held until the file is closed, or its process ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
