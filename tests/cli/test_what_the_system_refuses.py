"""A command reports a refusal of the system like any other failure: the place, the reason, the fix."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from interlock.cli.terminal.failures import system_failure

from .conftest import User
from .fake_hub import FakeHub


def failed(user: User, *arguments: str) -> str:
    """The standard error of a command that must fail with 1."""
    code, _, err = user.finished(*arguments)
    assert code == 1, err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("arguments", [("up",), ("up", "-d"), ("stdio",), ("connect", "cursor")])
def test_a_home_that_cannot_be_made_is_named(user: User, arguments: tuple[str, ...]) -> None:
    user.home.write_text("this is a file")
    told = failed(user, *arguments)
    assert f"{user.home}" in told
    assert "this path is a file" in told
    assert "is a file" in user.run("doctor").output


@pytest.mark.parametrize("arguments", [("add", "x", "--", "ls"), ("new", "thing", "--in", "c/interlock")])
def test_a_folder_that_cannot_be_made_is_named(user: User, arguments: tuple[str, ...]) -> None:
    (user.root / "c").write_text("this is a file")
    (user.folder / "c").write_text("this is a file")
    assert "this path is a file" in failed(user, *arguments)


@pytest.mark.parametrize("what", ["catalog", "openapi"])
def test_a_file_that_cannot_be_written_is_named(user: User, hub: FakeHub, what: str) -> None:
    told = failed(user, "export", what, "-o", str(user.root / "nowhere" / "x.json"))
    assert "nowhere/x.json" in told
    assert "create the folder first" in told


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that not even root can write to")
def test_a_client_keeps_its_key_where_its_file_cannot_be_written(user: User, hub: FakeHub) -> None:
    user.environ["CLAUDE_CONFIG_DIR"] = "/proc"
    assert "interlock: /proc" in failed(user, "connect", "claude-code")
    assert hub.params_of("hub/keys.revoke") == hub.params_of("hub/keys.create") == []


@pytest.mark.parametrize("arguments", [("up",), ("doctor",), ("new", "thing"), ("import", "x.json")])
def test_a_folder_that_is_gone_is_told_from_a_file_that_is_missing(user: User, arguments: tuple[str, ...]) -> None:
    user.folder = user.root / "gone"
    user.folder.mkdir()
    done = subprocess.run(
        line(*arguments),
        env=user.environ,
        cwd=user.folder,
        preexec_fn=user.folder.rmdir,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"the current folder no longer exists" in done.stderr


def test_a_full_disk_is_told_with_its_fix() -> None:
    failure = system_failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/b"))
    assert failure.message.startswith("/a/b: ")
    assert "free some space" in failure.hint


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_an_output_that_takes_nothing_more_is_told(user: User, hub: FakeHub) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(line("status"), env=user.environ, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"interlock: No space left")


def test_a_reader_that_has_enough_is_no_failure(user: User, hub: FakeHub) -> None:
    with user.process("list", "--json") as process:
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("arguments", [("status",), ("doctor",), ("list",), ("nonsense",)])
def test_without_an_output_a_command_still_ends_as_it_would(
    user: User, hub: FakeHub, arguments: tuple[str, ...]
) -> None:
    without = subprocess.run(
        line(*arguments), env=user.environ, preexec_fn=partial(os.close, 1), stderr=subprocess.PIPE, check=False
    )
    assert without.returncode == user.finished(*arguments)[0]
    assert b"Traceback" not in without.stderr


def test_an_interrupt_before_there_is_a_command_ends_with_130(user: User) -> None:
    slow = user.root / "click.py"
    slow.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environ = {**user.environ, "PYTHONPATH": f"{user.root}{os.pathsep}{user.environ['PYTHONPATH']}"}
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    done = subprocess.run(line("status"), env=environ, preexec_fn=heeding, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


UNKNOWN_USER = """
import os, pwd
def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = unknown
"""


def of_an_unknown_user(user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As in a container that runs under a number which nobody gave a name."""
    (user.root / "sitecustomize.py").write_text(UNKNOWN_USER)
    kept = {name: value for name, value in user.environ.items() if name != "HOME"}
    kept["PYTHONPATH"] = f"{user.root}{os.pathsep}{kept['PYTHONPATH']}"
    return subprocess.run(line(*arguments), env=kept, cwd=user.folder, capture_output=True, text=True, check=False)


def test_a_user_without_a_name_has_a_hub_all_the_same(user: User) -> None:
    user.configure()
    started = of_an_unknown_user(user, "up", "-d")
    assert (started.returncode, started.stderr) == (0, "")
    assert of_an_unknown_user(user, "status").returncode == 0


@pytest.mark.parametrize("arguments", [("status",), ("up",), ("connect", "cursor"), ("doctor",)])
def test_a_user_without_a_home_is_told_what_to_set(user: User, arguments: tuple[str, ...]) -> None:
    del user.environ["INTERLOCK_HOME"]
    done = of_an_unknown_user(user, *arguments)
    assert done.returncode == 1
    assert (
        done.stderr
        == "interlock: this user has no home folder; set HOME, or set INTERLOCK_HOME to a folder for the hub\n"
    )


def line(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "interlock.cli", *arguments]
