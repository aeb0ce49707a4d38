"""Reads and writes files safely.

A write is atomic: a reader sees the old content or the new, even if this process is killed. A read ends: a checkout may
contain a FIFO, or a link to a device.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BYTE_ORDER_MARK: Final = "\ufeff"
"""Some editors write it before the first character."""
LOCK_WAIT_S: Final = 30.0
MAX_BACKUPS: Final = 20
MAX_BYTES: Final = 16 * 1024 * 1024
"""Upper bound for a configuration file. Some clients keep their history in it."""


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace the file at `path` and keep its permissions. Only the owner can read a new or `private` file."""
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
    """Raises OSError where `write_atomically` would, so that callers can fail before they do any work."""
    folder = path.resolve().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as trial:
        trial.write(bytes(4096))
        trial.flush()


@contextlib.contextmanager
def locked_for_change(path: Path) -> Iterator[None]:
    """Lock the folder of `path` against other Interlock processes, so that none overwrites a change of another."""
    folder = path.resolve().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + LOCK_WAIT_S
    handle = _open_lock(folder)
    try:
        while not _try_lock_folder(handle):
            if time.monotonic() > deadline:
                raise TimeoutError(f"another Interlock process has locked {folder} for more than {LOCK_WAIT_S:.0f} s")
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _try_lock_folder(handle: int) -> bool:
    """Try to take the lock. Some network file systems cannot lock folders; there it counts as taken."""
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


def _open_lock(folder: Path) -> int:
    if sys.platform == "win32":  # Windows cannot open a folder
        return os.open(folder / ".interlock.lock", os.O_CREAT | os.O_RDWR)
    return os.open(folder, os.O_RDONLY)


def read_regular(path: Path) -> bytes:
    """Read a regular file. Raises OSError for one that is too large, and for FIFOs, devices, sockets and folders."""
    _check_regular(path, os.stat(path).st_mode)  # opening a device may already change its state
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        _check_regular(path, os.fstat(handle).st_mode)
        content: bytes | None = file.read(MAX_BYTES + 1)
    if content is None:  # a file of the kernel that would have to wait, such as /proc/kmsg
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_BYTES // 1024**2} MB", str(path))
    return content


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_exactly(path: Path) -> str:
    """The text of a file with its byte order mark and line ends; "" if the file does not exist."""
    try:
        return read_regular(path).decode()
    except FileNotFoundError:
        return ""


def back_up(path: Path) -> Path | None:
    """Copy `path` to a new numbered file beside it; None if there is no file.

    The newest copy has the highest number. Of more than `MAX_BACKUPS`, the first and the newest stay.
    """
    if not path.exists():
        return None
    numbers = _numbers(path)
    copy = _copy(path, max(numbers, default=0) + 1)
    try:
        shutil.copy2(path, copy)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    for number in numbers[1 : 2 - MAX_BACKUPS]:
        _copy(path, number).unlink(missing_ok=True)
    return copy


def _copy(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.interlock-{number}.bak")


def _numbers(path: Path) -> list[int]:
    pattern = re.compile(re.escape(path.name) + r"\.interlock-([0-9]+)\.bak")
    names = os.listdir(path.parent) if path.parent.is_dir() else ()
    return sorted(int(found[1]) for found in map(pattern.fullmatch, names) if found)


def try_lock(handle: int) -> bool:
    """Lock an open file, unless another process has. The lock ends when the file is closed or the process ends."""
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
