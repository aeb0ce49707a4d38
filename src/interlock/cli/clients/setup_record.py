"""The record of what `interlock setup` changed: `setup.json` in the hub's home.

It contains each file as it was before, so that `--undo` needs no other copy of it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from interlock.cli.terminal.failures import CommandFailure
from interlock.config.files import read_regular, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.config.settings import ServerSettings


class ChangedFile(msgspec.Struct, frozen=True):
    """One file, before and after a change."""

    path: str
    before: str | None
    """Its text; None if there was no file."""
    mode: int
    sha256: str
    """Of the file as it was written."""

    @classmethod
    def of(cls, path: Path, before: str | None, after: str) -> ChangedFile:
        mode = 0o600 if before is None else path.stat().st_mode & 0o777
        return cls(str(path), before, mode, hashlib.sha256(after.encode()).hexdigest())

    def is_unchanged(self) -> bool:
        """Whether nobody changed it since."""
        try:
            return hashlib.sha256(read_regular(Path(self.path))).hexdigest() == self.sha256
        except OSError:
            return False

    def restore(self) -> None:
        """Write it as it was before, every byte."""
        path = Path(self.path)
        if self.before is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, self.before.encode(), private=True)
            path.chmod(self.mode)


class SetupStep(msgspec.Struct, frozen=True):
    """One changed file of a client."""

    client: str
    file: ChangedFile
    taken: tuple[tuple[str, ...], ...]
    """The places of the servers that were taken out of it."""
    keyed: bool
    """Whether it got our entry with a new key, which `--undo` takes back."""


class Addition(msgspec.Struct, frozen=True):
    """Servers that were added to a configuration."""

    file: ChangedFile
    servers: dict[str, str]
    """The hash of the settings of each server."""

    def is_as_added(self, name: str, server: ServerSettings) -> bool:
        return self.servers.get(name) == _hash(server)


class _Content(msgspec.Struct):
    steps: list[SetupStep] = []
    additions: list[Addition] = []


class SetupRecord:
    """Reads and writes the record. Each change of a client's file is recorded before it is made."""

    def __init__(self, home: Path) -> None:
        self._file = home / "setup.json"

    def check(self) -> None:
        """Raises CommandFailure if the record cannot be read."""
        self._read()

    def add(self, step: SetupStep) -> None:
        content = self._read()
        content.steps.append(step)
        self._write(content)

    def drop(self, step: SetupStep) -> None:
        content = self._read()
        content.steps.remove(step)
        self._write(content)

    def steps_newest_first(self) -> list[SetupStep]:
        return self._read().steps[::-1]

    def add_servers(self, file: ChangedFile, servers: Mapping[str, ServerSettings]) -> None:
        content = self._read()
        content.additions.append(Addition(file, {name: _hash(server) for name, server in servers.items()}))
        self._write(content)

    def additions_newest_first(self) -> list[Addition]:
        return self._read().additions[::-1]

    def drop_addition(self, addition: Addition) -> None:
        content = self._read()
        content.additions.remove(addition)
        self._write(content)

    def _read(self) -> _Content:
        try:
            return msgspec.json.decode(read_regular(self._file), type=_Content)
        except FileNotFoundError:
            return _Content()
        except msgspec.MsgspecError as error:
            hint = "move it away; copies of your clients' old files are beside them (*.interlock-N.bak)"
            raise CommandFailure(f"{self._file} cannot be read: {error}", hint) from error

    def _write(self, content: _Content) -> None:
        write_atomically(self._file, msgspec.json.format(msgspec.json.encode(content)), private=True)


def _hash(server: ServerSettings) -> str:
    settings = msgspec.structs.replace(server, source="", problem=None)
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()
