"""Writes files so that a reader sees the old content or the new, never half of it, even if this process is killed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path


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


def back_up(path: Path) -> Path | None:
    """A copy of `path` beside it, under the first free name; None if there is nothing to copy.

    The numbers only grow, so the newest copy has the highest.
    """
    if not path.exists():
        return None
    copy = path.with_name(f"{path.name}.interlock-{next_number(path)}.bak")
    shutil.copy2(path, copy)
    return copy


def newest_backup(path: Path) -> Path | None:
    number = next_number(path) - 1
    return path.with_name(f"{path.name}.interlock-{number}.bak") if number else None


def next_number(path: Path) -> int:
    prefix, suffix = f"{path.name}.interlock-", ".bak"
    names = (entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else iter(())
    numbers = (name[len(prefix) : -len(suffix)] for name in names if name.startswith(prefix) and name.endswith(suffix))
    return max((int(number) for number in numbers if number.isdigit()), default=0) + 1


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
