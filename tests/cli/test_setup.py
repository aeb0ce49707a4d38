"""`interlock setup` with a real hub: every client's servers move into the hub, and back."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.clients.clients import ENTRY, NAMES, client, with_member
from interlock.config.documents import read_document
from interlock.config.problems import Problem

from .conftest import User
from .fake_hub import FakeHub
from .hub_processes import hello, ready

SERVER = """\
from interlock import Server

server = Server("clock")


@server.tool
def time_of(place: str) -> str:
    return place


server.run()
"""


def section(name: str) -> dict[str, Any]:
    chosen = client(name)
    document = read_document(chosen.path)
    assert not isinstance(document, Problem), document
    found: Any = document.content
    for key in chosen.at:
        found = found[key]
    return dict(found)


def as_written_by(name: str, command: list[str], env: dict[str, str]) -> dict[str, Any]:
    """A server as that client writes it."""
    match client(name).form:
        case "opencode":
            return {"type": "local", "command": command, "environment": env, "enabled": True}
        case "goose":
            return {"type": "stdio", "cmd": command[0], "args": command[1:], "envs": env, "enabled": True}
        case _:
            return {"command": command[0], "args": command[1:], "env": env}


def write(name: str, servers: dict[str, Any]) -> str:
    """The file of a client with these servers and something of its own. Returns the text."""
    chosen = client(name)
    chosen.path.parent.mkdir(parents=True, exist_ok=True)
    if chosen.path.suffix == ".toml":
        rows = ['model = "x" # mine']
        for server, table in servers.items():
            rows += [f"[mcp_servers.{server}]", f"command = {json.dumps(table['command'])}"]
            rows += [f"args = {json.dumps(table['args'])}"]
            rows += [
                "env = { " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table["env"].items()) + " }"
            ]
        text = "\n".join(rows) + "\n"
    elif chosen.path.suffix == ".yaml":
        text = "# mine\nGOOSE_MODEL: 'x'\nextensions:\n"
        for server, table in {"developer": {"type": "builtin", "enabled": True}, **servers}.items():
            text += f"  {server}: {json.dumps(table)}\n"
    else:
        content = json.dumps({"theme": "dark", chosen.at[0]: servers}, indent=2)
        text = content.replace('"theme"', '// mine\n  "theme"')
    chosen.path.write_text(text)
    return text


def finished(user: User, *arguments: str) -> dict[str, Any]:
    code, out, err = user.finished(*arguments, "--json")
    assert code == 0, out + err
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_setup_moves_the_servers_of_every_client_into_the_hub_and_back(user: User) -> None:
    user.configure()
    file = user.folder / "clock.py"
    file.write_text(SERVER)
    command = [sys.executable, "-m", "clock"]
    env = {"PYTHONPATH": f"{user.folder}:{user.environ['PYTHONPATH']}"}
    before = {name: write(name, {"clock": as_written_by(name, command, env)}) for name in NAMES}
    configured = user.config.read_text()

    done = finished(user, "setup", "--yes", "--trust")
    assert done["added"] == ["clock"]
    assert {one["client"] for one in done["clients"]} == set(NAMES)
    assert done["problems"] == []
    keys = set()
    for name in NAMES:
        left = section(name)
        assert set(left) - {"developer"} == {ENTRY}
        assert "mine" in client(name).path.read_text()
        keys |= {value for table in left[ENTRY].values() if isinstance(table, dict) for value in table.values()}
    assert len([key for key in keys if str(key).startswith("ilk_")]) == len(NAMES)

    ready(user)
    entry = section("cursor")[ENTRY]
    call = {"name": "clock__time_of", "arguments": {"place": "Rome"}}
    with user.fork("stdio") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(hello({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
    assert entry["args"][-1] == "stdio"
    called = {answer["id"]: answer for answer in answers}[1]
    assert called.get("result", {}).get("structuredContent") == {"result": "Rome"}, called

    assert finished(user, "setup", "--yes", "--trust")["clients"] == []  # again: nothing to do
    write("zed", {"clock": as_written_by("zed", command, env)})
    _, _, shown = user.finished("setup")
    assert f"  1 clock (Zed, in the hub already): {sys.executable} -m clock" in shown
    client("zed").path.write_text(before["zed"])

    undone = finished(user, "setup", "--undo")
    assert undone["problems"] == []
    assert undone["removed"] == ["clock"]
    assert {name: client(name).path.read_text() for name in NAMES} == before
    assert "clock" not in user.config.read_text()
    assert configured.strip() in user.config.read_text()
    assert finished(user, "keys", "list")["keys"] == []
    assert finished(user, "setup", "--undo")["restored"] == []


@pytest.mark.parametrize("name", ["cursor", "codex", "goose"])
def test_undo_gives_a_file_that_was_edited_since_its_servers_back(user: User, hub: FakeHub, name: str) -> None:
    first, second, third = (as_written_by(name, ["npx", "-y", word], {"A": word}) for word in ("one", "two", "three"))
    chosen = client(name)
    write(name, {"one": first, "again": second})
    before = section(name)
    assert user.run("setup", "--yes").exit_code == 0
    assert not user.config.read_text().startswith("[hub]")
    # The client, or a person, adds a server, and setup moves that one, too. Then the file is edited again.
    chosen.path.write_text(with_member(chosen, chosen.path.read_text(), (*chosen.at, "later"), third))
    assert user.run("setup", "--yes").exit_code == 0
    left = {key: value for key, value in before.items() if key not in ("one", "again")}
    assert section(name).keys() == {ENTRY, *left}
    text = with_member(chosen, chosen.path.read_text(), (*chosen.at, "again"), third)
    chosen.path.write_text(text.replace("mine", "edited"))
    undone = json.loads(user.run("setup", "--undo", "--json").stdout)
    assert section(name) == {**left, "one": first, "later": third, "again": third}
    assert "edited" in chosen.path.read_text()
    assert undone["problems"] == [f"{chosen.path}: `again` was added again since, and stays as it is"]
    assert sorted(undone["removed"]) == ["again", "later", "one"]
    assert not user.config.exists(), "there was none before"
    assert json.loads(user.run("setup", "--undo", "--json").stdout)["restored"] == []


def test_undo_restores_a_file_whose_copies_are_gone_and_keeps_the_servers_of_one_that_is_broken(
    user: User, hub: FakeHub
) -> None:
    user.configure()
    configured = user.config.read_bytes()
    before = {name: write(name, {"web": {"url": f"http://127.0.0.1:9/{name}"}}) for name in ("cursor", "windsurf")}
    client("windsurf").path.chmod(0o644)
    assert user.run("setup", "--yes").exit_code == 0
    added = user.config.read_bytes()
    for name in before:
        for copy in client(name).path.parent.glob("*.bak"):
            copy.unlink()
    moved = client("cursor").path.read_text()
    client("cursor").path.write_text("{ ] [")
    undone = json.loads(user.run("setup", "--undo", "--json").stdout)
    assert client("windsurf").path.read_text() == before["windsurf"]
    assert client("windsurf").path.stat().st_mode & 0o777 == 0o644
    assert user.config.read_bytes() == added, "cursor has no servers of its own yet"
    assert [name["agent"] for name in hub.params_of("hub/keys.revoke")] == ["windsurf"]
    assert "run `interlock setup --undo` again" in undone["problems"][-1]
    client("cursor").path.write_text(moved)
    assert user.run("setup", "--undo").exit_code == 0
    assert client("cursor").path.read_text() == before["cursor"]
    assert user.config.read_bytes() == configured


def test_a_record_that_cannot_be_read_stops_setup_before_anything_is_changed(user: User, hub: FakeHub) -> None:
    text = write("cursor", {"web": {"url": "http://127.0.0.1:9/mcp"}})
    (user.home / "setup.json").write_text('{"steps": 7}')
    for words in (("setup", "--yes"), ("setup", "--undo")):
        result = user.run(*words)
        assert result.exit_code == 1
        assert "setup.json cannot be read" in result.stderr
    assert client("cursor").path.read_text() == text
    assert not user.config.exists()


def test_setup_without_a_person_changes_nothing_and_shows_every_command(user: User) -> None:
    text = write("cursor", {"a": as_written_by("cursor", ["npx", "-y", "some-server", "x" * 500], {"TOKEN": "t"})})
    code, _, err = user.finished("setup")
    assert code == 5
    assert f"npx -y some-server {'x' * 500}" in err
    assert "--yes" in err
    assert client("cursor").path.read_text() == text
    assert not user.config.exists()


def test_setup_names_the_unusual_commands_that_it_left_and_changes_no_client_that_keeps_all(user: User) -> None:
    user.configure()
    odd = as_written_by("cursor", ["sh", "-c", "id"], {})
    write("cursor", {"odd": odd, "web": {"url": "http://127.0.0.1:9/mcp"}})
    untouched = write("windsurf", {"odd": odd, "other": as_written_by("windsurf", ["/opt/x/server"], {})})
    write("junie", {})
    done = finished(user, "setup", "--yes")
    assert done["added"] == ["web"]
    assert {one["client"] for one in done["clients"]} == {"cursor", "junie"}
    left = {one["server"]: one for one in done["left"]}
    assert {name: one["clients"] for name, one in left.items()} == {
        "odd": ["cursor", "windsurf"],
        "other": ["windsurf"],
    }
    assert all(one["unusual"] and "--trust" in one["hint"] for one in left.values())
    assert set(section("cursor")) == {"odd", ENTRY}
    assert client("windsurf").path.read_text() == untouched

    code, out, err = user.finished("setup", "--yes")  # again, for a person
    assert (code, "Nothing to do" in out) == (0, False)
    assert all(text in err for text in ("odd, which cursor, windsurf starts", "other", "--trust"))


def test_two_clients_with_the_same_name_for_different_servers_keep_both(user: User) -> None:
    user.configure()
    write("cursor", {"web": {"url": "http://127.0.0.1:9/one"}})
    write("windsurf", {"web": {"url": "http://127.0.0.1:9/two"}})
    write("junie", {"web": {"url": "http://127.0.0.1:9/two"}})
    assert finished(user, "setup", "--yes")["added"] == ["web", "web-junie"]
    assert set(user.servers()) == {"web", "web-junie"}


def test_setup_keeps_plain_tokens_encrypted_and_knows_them_again(user: User, hub: FakeHub) -> None:
    user.configure()
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    text = write("cursor", {"code": as_written_by("cursor", ["npx", "x", "--api-key", "s3cr3t"], {"GH_TOKEN": token})})
    result = user.run("setup", "--yes", "--move-secrets")
    assert result.exit_code == 0, result.output
    assert "${secret:code-gh-token}" in user.config.read_text()
    assert "s3cr3t" not in user.config.read_text()
    said = result.output
    # The same server in another client is the one that the hub has.
    write("windsurf", {"same": as_written_by("windsurf", ["npx", "x", "--api-key", "s3cr3t"], {"GH_TOKEN": token})})
    again = user.run("setup", "--yes", "--json")
    assert json.loads(again.stdout)["added"] == []
    assert set(section("windsurf")) == {ENTRY}
    said += again.output
    assert user.run("setup", "--undo").exit_code == 0
    assert client("cursor").path.read_text() == text
    assert token not in said
    assert "s3cr3t" not in said
    assert "GH_TOKEN=[secret]" in said
    # Without `--move-secrets` nobody is asked, and the person reads what to do.
    assert "--move-secrets" in user.run("setup", "--yes").stderr


def test_a_client_that_is_connected_keeps_its_key_through_setup_and_undo(user: User, hub: FakeHub) -> None:
    user.configure()
    write("cursor", {"web": {"url": "http://127.0.0.1:9/mcp"}})
    connected = user.run("connect", "cursor")
    assert "`interlock setup`" in connected.output
    before = client("cursor").path.read_text()
    made, revoked = (len(hub.params_of(name)) for name in ("hub/keys.create", "hub/keys.revoke"))
    assert user.run("setup", "--yes").exit_code == 0
    assert set(section("cursor")) == {ENTRY}
    assert user.run("setup", "--undo").exit_code == 0
    assert client("cursor").path.read_text() == before
    assert len(hub.params_of("hub/keys.create")) == made
    assert len(hub.params_of("hub/keys.revoke")) == revoked


def test_undo_takes_out_an_entry_whose_key_is_gone(user: User, hub: FakeHub) -> None:
    user.configure()
    write("cursor", {"web": {"url": "http://127.0.0.1:9/mcp"}})
    user.run("connect", "cursor")
    hub.answers["hub/keys.list"] = {"keys": []}
    assert user.run("setup", "--yes").exit_code == 0
    undone = user.run("setup", "--undo")
    assert set(section("cursor")) == {"web"}
    assert "interlock connect cursor" in undone.output


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_file_of_a_client_stops_setup_before_anything_is_changed(user: User, name: str) -> None:
    user.configure()
    write("cursor", {"web": {"url": "http://127.0.0.1:9/"}})
    chosen = client(name)
    chosen.path.parent.mkdir(parents=True, exist_ok=True)
    chosen.path.write_text("{ ] [")
    before = {path: path.read_text() for path in (client("cursor").path, chosen.path, user.config)}
    result = user.run("setup", "--yes")
    assert result.exit_code == 1, result.output
    assert Path(str(chosen.path)).name in result.stderr
    assert {path: path.read_text() for path in before} == before


def test_a_setup_that_stops_halfway_says_how_far_it_came_and_how_to_go_back(user: User) -> None:
    before = write("cursor", {"clock": as_written_by("cursor", [sys.executable, "-m", "clock"], {})})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        user.configure()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        user.config.write_text(user.config.read_text().replace("127.0.0.1:0", address))
        code, _, err = user.finished("setup", "--yes", "--trust")
    assert code != 0
    assert f"clock is in {user.config}; no client was changed" in err
    assert "`interlock setup --undo`" in err
    assert client("cursor").path.read_text() == before
    undone = finished(user, "setup", "--undo")
    assert undone["removed"] == ["clock"]
    assert "clock" not in user.config.read_text()
