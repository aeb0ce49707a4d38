"""Remembers which project-local files a person has confirmed, by path and content. A changed file needs it again.

Entering a cloned folder must not start programs. A file in it starts nothing until a person has seen its path, its hash
and its full commands, and accepted them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .files import write_atomically


class PlannedServer(msgspec.Struct, frozen=True):
    """A server that a file would start or connect to, exactly as written, without its variables filled in."""

    id: str
    command: tuple[str, ...] = ()
    url: str | None = None
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    cwd: str | None = None
    variables: tuple[str, ...] = ()
    """Variables of your environment that it would receive."""
    refused: str | None = None
    """Why the server would not start even after a confirmation."""
    enabled: bool = True


class UnconfirmedFile(msgspec.Struct, frozen=True):
    """A project-local file whose current content nobody has confirmed."""

    path: str
    hash: str
    servers: tuple[PlannedServer, ...] = ()
    settings: tuple[str, ...] = ()
    """Other settings as written. Only a project's `interlock.toml` has them."""


class Confirmations:
    """`confirmed.json` in the hub's home: path to SHA-256."""

    def __init__(self, home: Path) -> None:
        self._file = home / "confirmed.json"

    def holds(self, path: Path, sha256: str) -> bool:
        return self._read().get(str(path.resolve())) == sha256

    def add(self, path: Path, sha256: str) -> None:
        """Confirm the content with that hash."""
        confirmed = {**self._read(), str(path.resolve()): sha256}
        write_atomically(self._file, msgspec.json.format(msgspec.json.encode(confirmed, order="sorted")))

    def _read(self) -> dict[str, str]:
        """An unreadable file confirms nothing."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}


def project_folder(path: Path) -> Path:
    """The project of a file: for `.cursor/mcp.json` and `.vscode/mcp.json` the folder above."""
    return path.parent.parent if path.parent.name in (".cursor", ".vscode") else path.parent
