"""Finds the program that listens on a port, on systems that show it."""

from __future__ import annotations

from pathlib import Path

LISTENING = "0A"


def find_listener(port: int) -> str | None:
    """`name (pid N)` of the listener; None if it is another user's or the system does not show it."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(Path("/proc/net") / table, port)}
    if not sockets:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(handle.readlink()) in sockets for handle in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
        except OSError:
            continue
    return None


def _inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port]
