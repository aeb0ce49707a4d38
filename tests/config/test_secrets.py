"""Secrets in the operator's own file: where they come from, and that no other file may name them."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.config.confirmations import Confirmations
from interlock.config.hub_secret import BadHubSecret
from interlock.config.load import LoadedConfig
from interlock.config.secret_store import SecretStore

from .conftest import UserFiles

Own = Callable[..., LoadedConfig]
URL = '[servers.a]\nurl = "https://a.example"\n'
GOOD_KEY = base64.b64encode(bytes(range(100, 132))).decode()


def header_of(loaded: LoadedConfig) -> str:
    assert loaded.problems == ()
    return loaded.config.servers["a"].headers["X-Key"]


def test_values_come_from_the_store_a_file_and_a_program(user_files: UserFiles, tmp_path: Path) -> None:
    SecretStore(user_files.home).put("key", "from the store")
    file = tmp_path / "key.txt"
    file.write_text("from a file\n")
    file.chmod(0o600)
    program = tmp_path / "program.py"
    program.write_text("import sys; print('from', *sys.argv[1:])")
    for reference, value in (
        ("${secret:key}", "from the store"),
        (f"${{file:{file}}}", "from a file"),
        (f"Bearer ${{cmd:{sys.executable} {program} 'a program'}}", "Bearer from a program"),
    ):
        assert header_of(user_files.own(f'{URL}headers = {{ X-Key = "{reference}" }}\n')) == value


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a script")
def test_1password_is_asked_by_its_own_program(user_files: UserFiles, tmp_path: Path) -> None:
    program = tmp_path / "op"
    program.write_text('#!/bin/sh\necho "$1 $2"\n')
    program.chmod(0o700)
    text = f'{URL}headers = {{ X-Key = "${{op://vault/item/field}}" }}\n'
    assert header_of(user_files.own(text, {"PATH": f"{tmp_path}:/bin"})) == "read op://vault/item/field"


def test_a_secret_of_a_login_is_filled_in_too(user_files: UserFiles) -> None:
    SecretStore(user_files.home).put("client", "s3cret")
    text = (
        URL + '[servers.a.oauth]\ngrant = "client_credentials"\nclient_id = "hub"\nclient_secret = "${secret:client}"\n'
    )
    assert user_files.own(text).config.servers["a"].oauth.client_secret == "s3cret"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("${secret:none}", "there is no secret `none`"),
        ("${file:/nowhere/at/all}", "cannot be read"),
        ("${cmd:/nowhere/at/all}", "cannot be run"),
        ("${cmd:false}", "gave no usable value"),
        ("${op://vault/item/field}", "`op`"),
    ],
)
def test_a_secret_that_cannot_be_had_keeps_only_its_server_from_starting(own: Own, reference: str, words: str) -> None:
    loaded = own(f'{URL}headers = {{ X-Key = "{reference}" }}\n', {"PATH": "/usr/bin:/bin"})
    (problem,) = loaded.problems
    assert words in problem.message
    assert loaded.usable
    assert loaded.config.servers["a"].problem == problem


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
def test_a_file_that_every_user_can_read_is_no_secret(own: Own, tmp_path: Path) -> None:
    file = tmp_path / "key.txt"
    file.write_text("known to all")
    file.chmod(0o644)
    (problem,) = own(f'{URL}headers = {{ X-Key = "${{file:{file}}}" }}\n').problems
    assert "every user" in problem.message
    assert "known to all" not in str(problem)


def test_stored_secrets_are_encrypted_private_and_bound_to_their_names(user_files: UserFiles) -> None:
    store = SecretStore(user_files.home)
    store.put("one", "first-value")
    store.put("two", "second-value")
    file = user_files.home / "secrets.json"
    assert b"value" not in file.read_bytes()
    if sys.platform != "win32":
        assert os.stat(file).st_mode & 0o077 == 0
    kept = json.loads(file.read_bytes())
    file.write_text(json.dumps({"one": kept["two"], "two": kept["one"]}))
    with pytest.raises(BadHubSecret, match="another key sealed it, or it was altered"):
        store.get("one")
    assert store.remove("one")
    assert store.names() == ["two"]


@pytest.mark.parametrize("reference", ["${cmd:touch MARK}", "${file:SECRET}", "${secret:key}", "${op://a/b/c}"])
def test_t45_no_file_but_the_operators_own_reads_secrets_or_runs_programs(
    user_files: UserFiles, tmp_path: Path, reference: str
) -> None:
    SecretStore(user_files.home).put("key", "the-stored-value")
    (tmp_path / "secret.txt").write_text("the-file-value")
    mark = tmp_path / "mark"
    reference = reference.replace("MARK", str(mark)).replace("SECRET", str(tmp_path / "secret.txt"))
    foreign = {"mcpServers": {"a": {"url": "https://a.example", "headers": {"X-Key": reference}}}}
    path = user_files.write(".mcp.json", json.dumps(foreign))
    user_files.write(
        "interlock.toml", f'{URL.replace("[servers.a]", "[servers.b]")}headers = {{ X-Key = "{reference}" }}\n'
    )
    # Imported by the operator's own file, found in a project, and a project's file that a person confirmed.
    loads = [user_files.own(f'import = ["{path}"]\n'), user_files.in_project()]
    for unconfirmed in loads[1].unconfirmed:
        Confirmations(user_files.home).add(Path(unconfirmed.path), unconfirmed.hash)
    loads.append(user_files.in_project())
    for loaded in loads:
        assert "the-stored-value" not in repr([server.headers for server in loaded.config.servers.values()])
        assert "the-file-value" not in repr([server.headers for server in loaded.config.servers.values()])
    assert "only your own interlock.toml" in str(loads[0].problems)
    assert "only your own interlock.toml" in str(loads[2].problems)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("written", "value", "words"),
    [
        ("${env:KEY}", None, "needs the variable `KEY`"),
        ("${env:KEY}", "", "too weak"),
        ("${env:KEY}", "c2hvcnQga2V5", "too weak: it needs 32 random bytes, and has 9 bytes"),
        ("${env:KEY}", "QUFB" * 16, "too weak"),
        ("${env:KEY}", "no base64!", "is not base64"),
        ("${file:/nowhere/at/all}", None, "cannot be read"),
        (GOOD_KEY, None, "has the key itself"),
    ],
)
def test_t24_a_sealing_key_that_is_missing_weak_or_written_down_stops_the_hub(
    own: Own, written: str, value: str | None, words: str
) -> None:
    loaded = own(f'[hub]\nsealing_key = "{written}"\n', {} if value is None else {"KEY": value})
    (problem,) = loaded.problems
    assert words in problem.message
    assert not loaded.usable
    assert GOOD_KEY not in str(problem)


def test_t45_only_the_operators_own_file_chooses_the_sealing_key(user_files: UserFiles) -> None:
    text = '[hub]\nsealing_key = "${env:KEY}"\n'
    environ = {"KEY": GOOD_KEY}
    loaded = user_files.own(text, environ)
    assert (loaded.problems, loaded.config.hub.sealing_key) == ((), GOOD_KEY)
    path = user_files.write("interlock.toml", text)
    (waiting,) = user_files.in_project(environ).unconfirmed
    Confirmations(user_files.home).add(path, waiting.hash)
    confirmed = user_files.in_project(environ)
    assert "only in your own" in str(confirmed.problems)
    assert not confirmed.usable
