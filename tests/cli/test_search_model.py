"""`interlock search-model` at the terminal: from a folder, from an address, and without network."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from interlock.discovery.model_files import FILES

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


@pytest.mark.parametrize(
    "place", ["ftp://example.org/model", "http://192.0.2.1/model", "http://169.254.169.254/model", "https:///model"]
)
def test_an_address_that_is_neither_https_nor_of_this_machine_is_refused(user: User, place: str) -> None:
    done = user.run("search-model", "install", "--from", place)
    assert done.exit_code == 1
    assert "neither an https address, nor an http address of this machine, nor a path" in done.output
    assert "fetching" not in done.output


def test_a_metadata_service_is_not_asked_for_the_model(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    done = user.run("search-model", "install", "--from", "https://169.254.169.254/model")
    assert done.exit_code == 1
    assert "is a cloud metadata service" in done.output


def test_a_redirection_to_another_machine_without_tls_is_not_followed(user: User) -> None:
    class Away(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "http://192.0.2.1/model")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Away)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = user.run("search-model", "install", "--from", f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
    assert done.exit_code == 1
    assert "it is redirected to http://192.0.2.1/model, which is not https" in done.output


def test_a_folder_without_the_files_says_which_are_missing(user: User, tmp_path: Path) -> None:
    done = user.run("search-model", "install", "--from", str(tmp_path / "gone"))
    assert done.exit_code == 1
    assert "there is no file or folder" in done.output
    (tmp_path / "vocab.txt").write_text("x")
    done = user.run("search-model", "install", "--from", str(tmp_path))
    assert "has no model.safetensors" in done.output
    assert "must hold vocab.txt and model.safetensors" in done.output


def test_the_doctor_says_how_tools_are_found(user: User, tmp_path: Path) -> None:
    def check() -> dict[str, str]:
        checks = json.loads(user.run("doctor", "--json").output)["checks"]
        return next(check for check in checks if check["name"] == "search model")

    assert "interlock search-model install" in check()["hint"]
    user.config.parent.mkdir(parents=True, exist_ok=True)
    user.config.write_text(f'[hub.embeddings]\npath = "{tmp_path}/gone"\n')
    assert (check()["verdict"], "there is no file or folder" in check()["detail"]) == ("warning", True)
    user.config.write_text("")
    folder = user.home / "search-model"
    folder.mkdir(parents=True)
    for name in ("vocab.txt", "model.safetensors"):
        (folder / name).write_bytes(b"x")
    damaged = check()
    assert damaged["verdict"] == "warning"
    assert "vocab.txt is not that of all-MiniLM-L6-v2 as it was published" in damaged["detail"]
    assert "interlock search-model install" in damaged["hint"]
    (folder / "vocab.txt").unlink()
    assert "has no vocab.txt" in check()["detail"]


def test_the_doctor_reads_every_byte_of_the_model(user: User) -> None:
    folder = user.home / "search-model"
    folder.mkdir(parents=True)
    for file in FILES:
        with (folder / file.name).open("wb") as sparse:
            sparse.truncate(file.size)
    checks = json.loads(user.run("doctor", "--json").output)["checks"]
    found = next(check for check in checks if check["name"] == "search model")
    assert (found["verdict"], "as it was published" in found["detail"]) == ("warning", True)


def test_a_model_is_removed_from_the_home(user: User) -> None:
    folder = user.home / "search-model"
    folder.mkdir(parents=True)
    for name in ("vocab.txt", "model.safetensors"):
        (folder / name).write_bytes(b"x")
    assert "removed" in user.run("search-model", "remove").output
    assert not folder.exists()
    assert "no model is installed" in user.run("search-model", "remove").output


def test_status_says_how_tools_are_found(user: User) -> None:
    shown = user.run("search-model", "status")
    assert (shown.exit_code, shown.output.splitlines()[0]) == (0, "none: tools are found by their words")
    assert "`interlock search-model install`" in shown.output
    assert json.loads(user.run("search-model", "status", "--json").output)["installed"] is False
    user.configure('[hub.embeddings]\npath = "/nowhere/at/all"\n')
    assert "there is no file or folder /nowhere/at/all" in user.run("search-model", "status").output


def test_a_place_that_is_neither_a_file_nor_a_folder_is_called_that(user: User) -> None:
    os.mkfifo(user.folder / "pipe")
    for place in ("pipe", "/dev/zero"):
        done = user.run("search-model", "install", "--from", place)
        assert (done.exit_code, f"{place} is neither a file nor a folder" in done.output) == (1, True), done.output
