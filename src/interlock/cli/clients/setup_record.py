"""The record of what `interlock setup` changed: `setup.json` in the hub's home."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from interlock.config.files import read_regular, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.config.settings import ServerSettings


class Step(msgspec.Struct, frozen=True):
    """One changed file of a client."""

    client: str
    path: str
    copy: str | None
    """The file as it was before; None if there was none."""
    sha256: str
    """Of the file as it was written."""
    keyed: bool = True
    """Whether a key was created for it, which `--undo` revokes."""

    @classmethod
    def of(cls, client: str, path: Path, copy: Path | None, text: str, keyed: bool) -> Step:
        return cls(client, str(path), str(copy) if copy else None, hashlib.sha256(text.encode()).hexdigest(), keyed)

    def is_unchanged(self) -> bool:
        try:
            return hashlib.sha256(read_regular(Path(self.path))).hexdigest() == self.sha256
        except OSError:
            return False

    def restore(self) -> None:
        if self.copy is None:
            Path(self.path).unlink()
        else:
            write_atomically(Path(self.path), read_regular(Path(self.copy)))


class _Content(msgspec.Struct):
    steps: list[Step] = []
    config: str = ""
    servers: dict[str, str] = {}
    """Each server that was added, by the hash of its settings."""


class SetupRecord:
    """Reads and writes the record. Each change is on disk before the file that it describes is written."""

    def __init__(self, home: Path) -> None:
        self._file = home / "setup.json"

    def add(self, step: Step) -> None:
        content = self._read()
        content.steps.append(step)
        self._write(content)

    def drop(self, step: Step) -> None:
        content = self._read()
        content.steps.remove(step)
        self._write(content)

    def steps_newest_first(self) -> list[Step]:
        return self._read().steps[::-1]

    def add_servers(self, path: Path, servers: Mapping[str, ServerSettings]) -> None:
        content = self._read()
        content.config = str(path)
        content.servers |= {name: _hash(server) for name, server in servers.items()}
        self._write(content)

    def servers(self) -> tuple[str, dict[str, str]]:
        """The configuration file, and the added servers."""
        content = self._read()
        return content.config, content.servers

    def is_as_added(self, name: str, server: ServerSettings) -> bool:
        return self._read().servers.get(name) == _hash(server)

    def drop_servers(self) -> None:
        content = self._read()
        content.servers = {}
        self._write(content)

    def _read(self) -> _Content:
        try:
            return msgspec.json.decode(read_regular(self._file), type=_Content)
        except FileNotFoundError:
            return _Content()

    def _write(self, content: _Content) -> None:
        write_atomically(self._file, msgspec.json.format(msgspec.json.encode(content)), private=True)


def _hash(server: ServerSettings) -> str:
    settings = msgspec.structs.replace(server, source="", problem=None)
    return hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()
