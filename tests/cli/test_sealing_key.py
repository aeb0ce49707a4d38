"""`interlock secrets key`: the key that seals tokens and secrets, in a file or in the system's keyring."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from interlock.config import hub_secret, system_keyring
from interlock.config.hub_secret import BadHubSecret, existing_secret
from interlock.config.secret_store import SecretStore
from interlock.config.settings import Config, HubSettings
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.sealing_key import claim_store
from interlock.hub.upstreams.login_records import LOGINS, SealedLogin, bound_to
from interlock.store import Store
from interlock.wire.encryption import Encryption

from .conftest import User

NAME = "Secret Service"


class Keyring:
    """A keyring in memory, in the place of the system's."""

    viable = True
    entries: ClassVar[dict[tuple[str, str], str]] = {}
    problem = ""

    def get_password(self, service: str, username: str) -> str | None:
        self._demand()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._demand()
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._demand()
        del self.entries[service, username]

    def _demand(self) -> None:
        if self.problem:
            raise RuntimeError(self.problem)


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Keyring]]:
    monkeypatch.setattr(system_keyring, "BACKENDS", {NAME: (__name__, "Keyring")})
    monkeypatch.setattr(Keyring, "problem", "")
    yield Keyring
    Keyring.entries.clear()


def key_check(user: User) -> tuple[str, str]:
    checks = json.loads(user.run("doctor", "--json").output)["checks"]
    (found,) = (check for check in checks if check["name"] == "key")
    return found["verdict"], found["detail"]


def test_the_key_moves_to_the_keyring_and_back_and_everything_sealed_stays_readable(
    user: User, keyring: type[Keyring]
) -> None:
    assert user.run("secrets", "set", "a-key", stdin="a-value").exit_code == 0
    secret = existing_secret(user.home)
    assert key_check(user) == ("ok", f"the key for tokens and secrets is in the file {user.home / 'keys.secret'}")

    assert json.loads(user.run("secrets", "key", "keyring", "--json").output) == {"place": "keyring", "in": NAME}
    assert len(keyring.entries) == 1
    assert not (user.home / "keys.secret").exists()
    for file in (file for file in user.home.rglob("*") if file.is_file()):
        assert secret not in file.read_bytes()
    assert SecretStore(user.home).get("a-key") == "a-value"
    assert key_check(user) == ("ok", f"the key for tokens and secrets is in {NAME}")
    assert NAME in user.run("secrets", "key", "keyring").output, "a second move changes nothing"
    assert len(keyring.entries) == 1

    assert json.loads(user.run("secrets", "key", "file", "--json").output)["place"] == "file"
    assert keyring.entries == {}
    assert existing_secret(user.home) == secret
    if sys.platform != "win32":
        assert (user.home / "keys.secret").stat().st_mode & 0o077 == 0
    assert SecretStore(user.home).get("a-key") == "a-value"


def test_a_new_key_replaces_the_one_in_the_keyring(user: User, keyring: type[Keyring]) -> None:
    user.configure()
    assert user.run("secrets", "set", "a-key", stdin="a-value").exit_code == 0
    assert user.run("secrets", "key", "keyring").exit_code == 0
    secret = existing_secret(user.home)
    assert user.run("secrets", "rekey").exit_code == 0
    assert existing_secret(user.home) != secret
    assert len(keyring.entries) == 1
    assert not (user.home / "keys.secret").exists()
    assert SecretStore(user.home).get("a-key") == "a-value"


def test_t24_a_key_that_cannot_be_read_is_never_replaced(user: User, keyring: type[Keyring]) -> None:
    assert user.run("secrets", "set", "a-key", stdin="a-value").exit_code == 0
    assert user.run("secrets", "key", "keyring").exit_code == 0
    (entry,) = keyring.entries
    kept = keyring.entries[entry]
    for spoil, said in (("locked", "locked"), ("", "no entry"), ("!", "no entry"), ("c2hvcnQ=", "no entry")):
        keyring.problem = spoil if spoil == "locked" else ""
        keyring.entries[entry] = spoil
        if not spoil:
            del keyring.entries[entry]
        for command in (("secrets", "set", "other"), ("secrets", "key"), ("secrets", "key", "file")):
            failed = user.run(*command, stdin="x")
            assert (failed.exit_code, said in failed.output) == (1, True), failed.output
        verdict, detail = key_check(user)
        assert (verdict, said in detail) == ("wrong", True)
        assert not (user.home / "keys.secret").exists()
    keyring.problem = ""
    keyring.entries[entry] = kept
    assert SecretStore(user.home).get("a-key") == "a-value"


def test_a_configured_key_seals_tokens_and_the_homes_key_the_secrets(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARED_KEY", base64.b64encode(os.urandom(32)).decode())
    user.configure('sealing_key = "${env:SHARED_KEY}"\n')
    assert key_check(user) == ("ok", f"the key for tokens is `sealing_key` of {user.config}")
    shown = json.loads(user.run("secrets", "key", "--json").output)
    assert shown == {"place": "file", "in": str(user.home / "keys.secret"), "tokens": str(user.config)}
    assert f"`sealing_key` of {user.config}" in user.run("secrets", "key").output
    # The store has the check value of another key.
    config = Config(hub=HubSettings(sealing_key=base64.b64encode(os.urandom(32)).decode()))

    async def claim() -> None:
        store = await Store.open(user.home / "hub.db", COLLECTIONS)
        await claim_store(store, config, user.home)
        await store.close()

    asyncio.run(claim())
    checks = json.loads(user.run("doctor", "--json").output)["checks"]
    (found,) = (check for check in checks if check["name"] == "store")
    assert (found["verdict"], "sealed with another key" in found["detail"]) == ("wrong", True)
    backup = user.run("backup", str(user.folder / "monday")).stderr
    assert f"`sealing_key` of {user.config}; keep a copy" in backup


def test_every_command_says_that_the_key_is_lost_and_what_to_type(user: User) -> None:
    user.configure()
    assert user.run("secrets", "set", "a-key", stdin="a-value").exit_code == 0
    secret = existing_secret(user.home)

    async def log_in() -> None:
        store = await Store.open(user.home / "hub.db", COLLECTIONS)
        await claim_store(store, Config(), user.home)
        login = Encryption(hub_secret.derived_key(secret, b"logins")).seal("{}", bound_to("docs", "agent:ann"))
        async with store.transaction() as change:
            change.put(LOGINS, SealedLogin("1", "docs", "agent:ann", login, logged_in=True))
        await store.close()

    asyncio.run(log_in())
    (user.home / "keys.secret").unlink()
    for command in (("status",), ("login", "docs"), ("secrets", "list"), ("secrets", "set", "b"), ("doctor",)):
        told = user.run(*command, stdin="x")
        assert (told.exit_code != 0, "lost" in told.output, "secrets rekey" in told.output) == (True,) * 3, told.output
    assert not (user.home / "keys.secret").exists()
    assert "--lost" in user.run("secrets", "rekey", stdin="").output
    assert user.run("secrets", "rekey", "--lost", stdin="").exit_code == 5, "it asks first"
    done = user.run("secrets", "rekey", "--lost", "--yes")
    assert done.exit_code == 0, done.output
    assert "interlock login docs --for agent:ann" in done.output
    assert "interlock secrets rotate a-key" in done.output
    assert "interlock secrets rotate a-key" in user.run("secrets", "list").output
    assert user.run("secrets", "rekey", "--lost", "--yes").exit_code == 2, "the key is not lost any more"
    assert user.run("secrets", "rotate", "a-key", stdin="again").exit_code == 0
    assert json.loads(user.run("secrets", "rekey", "--json").output)["secrets"] == 1
    assert SecretStore(user.home).get("a-key") == "again"


@pytest.mark.parametrize(
    "backend", ["keyring.backends.null.Keyring", "keyring.backends.fail.Keyring", "keyrings.alt.file.PlaintextKeyring"]
)
def test_t24_no_backend_of_the_environment_gets_the_key(
    user: User, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={user.root / 'none'}")
    named = {name: place for name, place in system_keyring.BACKENDS.items() if name == NAME}
    monkeypatch.setattr(system_keyring, "BACKENDS", named)
    secret = hub_secret.hub_secret(user.home)
    failed = user.run("secrets", "key", "keyring")
    assert failed.exit_code == 1
    assert "stays in its file" in failed.output
    assert existing_secret(user.home) == secret
    # Nor may the file that names the entry choose another backend.
    module, _, member = backend.rpartition(".")
    entry = {"backend": f"{module}:{member}", "entry": "hub-1", "check": hub_secret.derived_key(b"", b"x").hex()}
    (user.home / "keys.keyring").write_text(json.dumps(entry))
    with pytest.raises(BadHubSecret, match="not available"):
        existing_secret(user.home)


def test_a_keyring_that_waits_for_a_person_fails_in_time(
    keyring: type[Keyring], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    answered = threading.Event()
    monkeypatch.setattr(keyring, "get_password", lambda self, service, username: answered.wait() and None)
    monkeypatch.setattr(system_keyring, "ANSWER_WITHIN_S", 0.01)
    with pytest.raises(system_keyring.KeyringFailed, match="did not answer"):
        system_keyring.read_entry(NAME, "hub-1")
    answered.set()


@pytest.mark.skipif(
    shutil.which("gnome-keyring-daemon") is None or shutil.which("dbus-run-session") is None,
    reason="not measured: no gnome-keyring here",
)
def test_the_key_lives_in_a_real_secret_service(user: User, tmp_path: Path) -> None:
    command = f"{sys.executable} -m interlock.cli secrets key"
    script = (
        "printf pass | gnome-keyring-daemon --unlock --components=secrets >/dev/null; "
        f"{command} keyring && test ! -e $INTERLOCK_HOME/keys.secret && {command} && {command} file"
    )
    user.home.mkdir()
    before = hub_secret.hub_secret(user.home)
    environ = {**os.environ, **user.environ, "XDG_RUNTIME_DIR": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    line = ["dbus-run-session", "--", "sh", "-c", script]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(NAME) == 2
    assert existing_secret(user.home) == before
