"""How contained servers start, run and end, with each backend that this machine has."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.containment import cgroups, launcher_client
from interlock.containment.launcher_client import ContainedProcess, launcher, start_contained
from interlock.containment.policy import BackendName, Containment, ContainmentRefused
from interlock.containment.scripts import interpreter_of
from waiting import block_until

from .outside import PYTHON, EscapeTargets
from .test_escapes import backend as backend
from .test_escapes import outside as outside

SPEAKS = "import sys; print('ready', flush=True); sys.stdin.read()"


def run(containment: Containment, code: str, *arguments: str) -> ContainedProcess:
    return start_contained(containment, (PYTHON, "-c", code, *arguments), {"PATH": os.defpath, "USER": "me"}, None)


def ended(process: ContainedProcess) -> tuple[str, str, int]:
    """The output of a process, and its exit code."""
    process.stdin.close()
    with process.stdout, process.stderr:
        return process.stdout.read().decode(), process.stderr.read().decode(), process.wait()


@pytest.fixture
def running(outside: EscapeTargets, backend: BackendName) -> Iterator[ContainedProcess]:
    process = run(outside.containment(backend), SPEAKS)
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    ended(process)


def test_home_and_temporary_files_are_private(outside: EscapeTargets, backend: BackendName) -> None:
    code = "import os, tempfile; print(os.environ['HOME'], tempfile.gettempdir(), os.getcwd(), os.environ.get('USER'))"
    written, complaints, exit_code = ended(run(outside.containment(backend), code))
    home = f"{outside.folder}/hub/contained/server/home"
    assert (written.split(), complaints, exit_code) == ([home, f"{home}/tmp", home, "None"], "", 0)


@pytest.mark.parametrize("first", ["#!{beside}\n", "#!/usr/bin/env python\n"])
def test_a_script_runs_with_the_interpreter_of_its_virtual_environment(
    outside: EscapeTargets, backend: BackendName, tmp_path: Path, first: str
) -> None:
    programs, versions = tmp_path / "venv" / "bin", tmp_path / "versions" / "bin"
    for folder in (programs, versions):
        folder.mkdir(parents=True)
    shutil.copy(os.path.realpath("/bin/sh"), versions / "python3")
    (programs / "python").symlink_to(versions / "python3")
    script = programs / "server"
    script.write_text(first.format(beside=programs / "python") + 'echo "$0" "$1" "$GIT_CONFIG_NOSYSTEM"\n')
    script.chmod(0o700)

    containment, env = outside.containment(backend), {"PATH": f"{programs}:/usr/bin:/bin"}
    written, complaints, _ = ended(start_contained(containment, (str(script), "hello"), env, None))
    assert (written.split(), complaints) == ([str(script), "hello", "1"], "")
    # Installers write this where the path is too long for the first line.
    script.write_text(f"""#!/bin/sh\n'''exec' '{programs / "python"}' "$0" "$@"\n' '''\n""")
    assert interpreter_of(str(script), "") == (str(programs / "python"),)
    # The first line of a script opens no other place.
    script.write_text(f"#!{versions / 'python3'}\n")
    with pytest.raises(ContainmentRefused, match="which runs its program") as refused:
        start_contained(containment, (str(script),), env, None)
    assert refused.value.hint == "name the folder of python3 in `read`"


def test_a_named_folder_can_be_written_and_read_again(outside: EscapeTargets, backend: BackendName) -> None:
    code = "import sys; open(sys.argv[1], 'w').write('kept'); print(open(sys.argv[1]).read())"
    written, _, exit_code = ended(run(outside.containment(backend), code, str(outside.own / "kept")))
    assert (written, exit_code, (outside.own / "kept").read_text()) == ("kept\n", 0, "kept")


def test_an_exit_code_and_the_end_of_input_pass_through(outside: EscapeTargets, backend: BackendName) -> None:
    _, _, exit_code = ended(run(outside.containment(backend), "import sys; sys.stdin.read(); sys.exit(7)"))
    assert exit_code == 7


def test_a_server_is_ended_by_signals(running: ContainedProcess) -> None:
    running.terminate()
    assert running.wait() != 0


def test_a_server_that_is_told_to_end_ends_by_itself(outside: EscapeTargets, backend: BackendName) -> None:
    code = """
import os, signal
def end(*_):
    os.write(1, b"saved")
    os._exit(3)
signal.signal(signal.SIGTERM, end)
os.write(1, b"ready\\n")
while True: signal.pause()
"""
    process = run(outside.containment(backend), code)
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    written, _, exit_code = ended(process)
    assert (written, exit_code) == ("saved", 3)


def test_t44_no_program_of_a_server_starts_outside_its_containment(
    outside: EscapeTargets, backend: BackendName
) -> None:
    """A program that a backend starts is looked for in the hub's PATH, and gets none of the server's variables."""
    planted = outside.own / "bwrap"
    planted.write_text(f"#!/bin/sh\ntouch {outside.folder}/planted\n")
    planted.chmod(0o755)
    env = {"PATH": f"{outside.own}:{os.defpath}", "LD_PRELOAD": str(outside.own / "missing.so")}
    process = start_contained(outside.containment(backend), (PYTHON, "-c", "print('ran')"), env, None)
    written, complaints, _ = ended(process)
    assert written == "ran\n"
    assert complaints.count("missing.so") == 1, "only the server itself loads its libraries"
    assert not (outside.folder / "planted").exists()
    planted.unlink()


def test_a_process_that_left_its_session_ends_with_its_server(outside: EscapeTargets, backend: BackendName) -> None:
    """It has no parent, no session and no mark in its environment any more, and holds a lock while it lives."""
    code = f"""
import ctypes, fcntl, os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        lock = open({str(outside.own / "lock")!r}, "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        open({str(outside.own / "locked")!r}, "w").close()
        while True: pass
    os._exit(0)
os.wait()
import time
while not os.path.exists({str(outside.own / "locked")!r}): time.sleep(0.01)
print('ready', flush=True)
sys.stdin.read()
"""
    (outside.own / "locked").unlink(missing_ok=True)
    process = run(outside.containment(backend), code)
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    ended(process)
    with open(outside.own / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # returns when nobody holds it


def test_a_server_ends_when_its_time_is_over(outside: EscapeTargets, backend: BackendName) -> None:
    process = run(outside.containment(backend, time_s=0.2), "import signal; signal.pause()")
    with process.stdout, process.stderr:
        assert process.stdout.read() == b""
    assert process.wait() != 0


def test_servers_end_with_the_launcher(outside: EscapeTargets, backend: BackendName) -> None:
    """A launcher that is killed takes its servers and their children along, and the next server gets another."""
    forks = "import os, signal, sys; os.fork() or signal.pause(); print('ready', flush=True); sys.stdin.read()"
    process = run(outside.containment(backend), forks)
    assert process.stdout.readline() == b"ready\n"
    killed = launcher().process
    killed.kill()
    assert process.wait() == -9
    with process.stdout:
        assert process.stdout.read() == b""  # the child has the pipe too
    left = [group for parent in cgroups.parents() for group in Path(parent).glob(f"{cgroups.names_of(killed.pid)}*")]
    assert left == []
    assert ended(run(outside.containment(backend), "print('again')"))[0] == "again\n"


def test_a_server_that_starts_too_late_is_ended_and_forgotten(
    outside: EscapeTargets, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a lock while it lives, and nobody has its pipes."""
    running = launcher()
    code = f"""
import fcntl, time
lock = open({str(outside.own / "late")!r}, "w")
fcntl.flock(lock, fcntl.LOCK_EX)
while True: time.sleep(60)
"""
    held: list[dict[str, Any]] = []
    monkeypatch.setattr(running, "take", held.append)
    monkeypatch.setattr(launcher_client, "START_S", 0.0)
    with pytest.raises(ContainmentRefused, match="it took too long"):
        run(outside.containment(backend), code)
    assert not running.starting
    block_until(lambda: held)
    monkeypatch.undo()
    for message in held:
        running.take(message)
    # Its end is reported before that of a server that was started later.
    ended(run(outside.containment(backend), "pass"))
    block_until(lambda: not running.running)
    with pytest.raises(ContainmentRefused, match="too long to contain"):
        run(outside.containment(backend), "#" * launcher_client.PACKET)
    assert not running.starting


def test_a_process_that_a_server_left_behind_lives_as_long_as_the_server(
    outside: EscapeTargets, backend: BackendName
) -> None:
    """The orphan answers after another process of the server has ended, and been reaped."""
    code = """
import os, sys
asked, ask = os.pipe()
told, tell = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.read(asked, 1)
        os.write(tell, b"x")
        os._exit(0)
    os._exit(0)
os.wait()
for _ in range(3):
    if os.fork() == 0: os._exit(os.fork() and 0)
    os.wait()
print("ready", flush=True)
sys.stdin.readline()
os.write(ask, b"x")
print(os.read(told, 1), flush=True)
"""
    process = run(outside.containment(backend), code)
    assert process.stdout.readline() == b"ready\n"
    ended(run(outside.containment(backend), "pass"))  # the launcher looks after its processes
    process.stdin.write(b"\n")
    assert process.stdout.readline() == b"b'x'\n"
    ended(process)


def test_a_server_reads_facts_about_itself_and_dies_of_a_closed_pipe(
    outside: EscapeTargets, backend: BackendName
) -> None:
    code = """
print(open("/proc/self/stat").read() != "", "MemTotal" in open("/proc/meminfo").read())
"""
    written, complaints, exit_code = ended(run(outside.containment(backend), code))
    assert (written, complaints, exit_code) == ("True True\n", "", 0)
    shell = ("/bin/sh", "-c", "kill -s PIPE $$; echo ignored")
    started = start_contained(outside.containment(backend), shell, {"PATH": os.defpath}, None)
    assert ended(started)[0] == "", "the signal is not ignored"


def test_a_program_that_is_missing_is_not_started(outside: EscapeTargets, backend: BackendName) -> None:
    with pytest.raises(FileNotFoundError):
        start_contained(outside.containment(backend), ("no-such-program",), {"PATH": os.defpath}, None)


def test_only_named_hosts_are_reached(outside: EscapeTargets, backend: BackendName) -> None:
    if backend == "bubblewrap":
        with pytest.raises(ContainmentRefused, match="cannot limit the network to named hosts"):
            run(outside.containment(backend, hosts=("127.0.0.1:80",)), SPEAKS)
        return
    code = """
import socket, sys
for port in sys.argv[1:]:
    try:
        print(socket.create_connection(("127.0.0.1", int(port)), 5).recv(1))
    except OSError as held:
        print(type(held).__name__)
"""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        named, unnamed = str(outside.targets["tcp"]), str(other.getsockname()[1])
        process = run(outside.containment(backend, hosts=(f"127.0.0.1:{named}",)), code, named, unnamed)
        assert ended(process)[0].split() == ["b'x'", "ConnectionRefusedError"]
    _, complaints, exit_code = ended(run(outside.containment(backend, hosts=("no-such.invalid:443",)), SPEAKS))
    assert exit_code != 0
    assert "the host no-such.invalid of `hosts` cannot be found" in complaints


def test_nothing_is_left_of_servers_that_ended(outside: EscapeTargets, backend: BackendName) -> None:
    for _ in range(3):
        ended(run(outside.containment(backend), "pass"))
    numbers = Path(f"/proc/{launcher().process.pid}/task/{launcher().process.pid}/children").read_text().split()
    assert len(numbers) <= 3  # a spare for each kind of server: with and without network, and of the other backend
