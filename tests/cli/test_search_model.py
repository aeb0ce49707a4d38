"""`interlock search-model` at the terminal: from a folder, from an address, and without network."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .conftest import User


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server of this machine, and the folder that it shows."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/model", tmp_path / "model"
    server.shutdown()
    server.server_close()


def test_other_weights_than_the_published_are_refused_from_an_address(user: User, mirror: tuple[str, Path]) -> None:
    url, folder = mirror
    folder.mkdir()
    for name in ("vocab.txt", "model.safetensors"):
        (folder / name).write_bytes(b"something else")
    done = user.run("search-model", "install", "--from", url)
    assert done.exit_code == 1
    assert "is not that of all-MiniLM-L6-v2 as it was published" in done.output
    assert not (user.home / "search-model").exists()


def test_an_address_without_the_files_says_so(user: User, mirror: tuple[str, Path]) -> None:
    done = user.run("search-model", "install", "--from", mirror[0])
    assert done.exit_code == 1
    assert "could not be fetched" in done.output
    assert "--from FOLDER" in done.output


def test_without_network_it_says_what_to_do(user: User) -> None:
    done = user.run("search-model", "install", "--from", "http://127.0.0.1:1/model")
    assert done.exit_code == 1
    assert "could not be fetched from http://127.0.0.1:1/model" in done.output
    assert "copy vocab.txt and model.safetensors to a folder" in done.output


def test_a_place_of_another_kind_is_refused(user: User) -> None:
    done = user.run("search-model", "install", "--from", "ftp://example.org/model")
    assert done.exit_code == 1
    assert "neither an https address nor a path" in done.output


def test_a_model_is_removed_from_the_home(user: User) -> None:
    folder = user.home / "search-model"
    folder.mkdir(parents=True)
    for name in ("vocab.txt", "model.safetensors"):
        (folder / name).write_bytes(b"x")
    assert "removed" in user.run("search-model", "remove").output
    assert not folder.exists()
    assert "no model is installed" in user.run("search-model", "remove").output
