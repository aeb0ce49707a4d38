"""Which project-local files a person has confirmed, by path and content. A changed file is unconfirmed again.

A cloned folder must not start programs by being entered; so a file from there starts nothing until its path, its hash
and its full commands were shown and accepted.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .files import write_whole


class Planned(msgspec.Struct, frozen=True):
    """What a file would start or reach, exactly as written: no variable is filled in."""

    id: str
    command: tuple[str, ...] = ()
    url: str | None = None
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    cwd: str | None = None
    variables: tuple[str, ...] = ()
    """Variables of yours that it would be given."""
    refused: str | None = None
    """Why it would not be started even then."""


class Unconfirmed(msgspec.Struct, frozen=True):
    """A project-local file that nobody has confirmed as it stands now."""

    path: str
    hash: str
    servers: tuple[Planned, ...] = ()
    settings: tuple[str, ...] = ()
    """Whatever else it would set, as written; only a project's own `interlock.toml` can."""


class Confirmations:
    """`confirmed.json` in the hub's home: path to SHA-256."""

    def __init__(self, home: Path) -> None:
        self._file = home / "confirmed.json"

    def holds(self, path: Path, sha256: str) -> bool:
        return self._read().get(str(path.resolve())) == sha256

    def add(self, path: Path, sha256: str) -> None:
        """Confirms the content with that hash. Written at once and whole."""
        confirmed = {**self._read(), str(path.resolve()): sha256}
        write_whole(self._file, msgspec.json.format(msgspec.json.encode(confirmed, order="sorted")))

    def _read(self) -> dict[str, str]:
        """What cannot be read confirms nothing."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}
