"""Changing interlock.toml from the outside: the rest of the file stays as the operator wrote it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from interlock.config.edit import EditError, add_servers, remove_server
from interlock.config.load import load
from interlock.config.settings import PermissionSettings, RestartSettings, ServerSettings

TEXT = """\
# my hub
[hub]
mode = "guard"  # strict enough

[servers.a]   # keep me
url = "https://a/"

# the last word
[servers.b]
command = ["x"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "interlock.toml"
    path.write_text(TEXT)
    return path


def servers(path: Path) -> dict[str, ServerSettings]:
    loaded = load(path, home=path.parent, environ={"K": "v"})
    assert loaded.problems == ()
    return loaded.config.servers


def test_an_added_server_loads_and_the_comments_stay(file: Path) -> None:
    server = ServerSettings(command=("uvx", "db"), env={"K": "${K}"}, cwd="/data", start="on-demand")
    copy = add_servers(file, {"db": server})
    added = servers(file)["db"]
    assert (added.command, added.env, added.cwd, added.start) == (("uvx", "db"), {"K": "v"}, "/data", "on-demand")
    for comment in ("# my hub", "# strict enough", "# keep me", "# the last word"):
        assert comment in file.read_text()
    assert copy is not None
    assert copy.read_text() == TEXT


def test_a_server_can_be_added_where_there_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "interlock.toml"
    assert add_servers(path, {"a": ServerSettings(url="https://h/", headers={"X": "y"})}) is None
    assert servers(path)["a"].headers == {"X": "y"}


def test_removing_deletes_one_server(file: Path) -> None:
    remove_server(file, "a")
    assert list(servers(file)) == ["b"]
    assert "# my hub" in file.read_text()


def test_adding_then_removing_gives_the_same_servers(file: Path) -> None:
    before = servers(file)
    add_servers(file, {"c": ServerSettings(command=("y",))})
    remove_server(file, "c")
    assert servers(file) == before


def test_a_name_that_is_taken_is_refused_and_nothing_is_written(file: Path) -> None:
    with pytest.raises(EditError, match="already"):
        add_servers(file, {"c": ServerSettings(url="https://h/"), "a": ServerSettings(url="https://h/")})
    assert file.read_text() == TEXT


@pytest.mark.parametrize("server", [ServerSettings(), ServerSettings(url="ftp://h/")])
def test_a_server_that_would_not_load_is_not_written(file: Path, server: ServerSettings) -> None:
    with pytest.raises(EditError):
        add_servers(file, {"c": server})
    assert file.read_text() == TEXT


def test_a_file_that_cannot_be_read_is_not_changed(file: Path) -> None:
    file.write_text("[broken")
    with pytest.raises(EditError, match="cannot be read") as caught:
        add_servers(file, {"c": ServerSettings(url="https://h/")})
    assert "was not changed" in caught.value.hint
    assert file.read_text() == "[broken"


def test_removing_an_unknown_server_names_the_known_ones(file: Path) -> None:
    with pytest.raises(EditError) as caught:
        remove_server(file, "zz")
    assert "a, b" in caught.value.hint


def test_every_change_keeps_its_own_copy(file: Path) -> None:
    copies = [add_servers(file, {name: ServerSettings(url="https://h/")}) for name in ("c", "d")]
    assert copies[0] != copies[1]
    assert copies[1] is not None
    assert "[servers.c]" in copies[1].read_text()


def test_of_many_copies_the_first_and_the_newest_stay(file: Path) -> None:
    for number in range(30):
        add_servers(file, {f"s{number}": ServerSettings(url="https://h/")})
    left = sorted(int(copy.name.split("-")[-1].removesuffix(".bak")) for copy in file.parent.glob("*.bak"))
    assert left == [1, *range(12, 31)]


def test_trust_permissions_and_restarts_of_an_imported_server_are_written(file: Path) -> None:
    server = ServerSettings(
        command=("x",),
        trust="sandboxed",
        permissions=PermissionSettings(require=("shell.execute",)),
        restart=RestartSettings(policy="never"),
    )
    add_servers(file, {"c": server})
    found = servers(file)["c"]
    assert (found.trust, found.permissions, found.restart) == (server.trust, server.permissions, server.restart)


def test_where_folders_cannot_be_locked_servers_are_added_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(handle: int, how: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", unsupported)
    add_servers(file, {"new": ServerSettings(command=("a",))})
    assert "[servers.new]" in file.read_text()
