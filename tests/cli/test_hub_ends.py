"""The end of a hub and of its terminal: no process and no socket stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from interlock.cli.control.hub_link import HubLink
from interlock.cli.control.starting import is_running
from waiting import block_until

from .conftest import User
from .hub_processes import write


def test_up_in_the_foreground_says_where_it_listens_and_ends_with_the_hub(user: User) -> None:
    user.configure()
    with user.process("up") as process:
        assert process.stdout is not None
        listens = process.stdout.readline().decode()
        assert f"http://{json.loads((user.home / 'run' / 'hub.json').read_text())['listen']}/mcp" in listens
        assert b"No servers are configured yet" in process.stdout.readline()
        assert b"interlock.toml" in process.stdout.readline()
        with HubLink.open(user.home) as link:
            link.ask("hub/stop")
        process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_hub_killed_hard_is_replaced_by_the_next_start_which_ends_its_servers(user: User) -> None:
    noted, script = user.folder / "noted", write(user.folder / "stubborn.py", STUBBORN)
    user.configure(f"[servers.stubborn]\ncommand = ['{sys.executable}', '{script}', '{noted}']\n")
    mark = {"INTERLOCK_MARK": "0" * 32}
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, env=mark
    ) as neighbour:
        user.finished("up", "-d")
        stubborn = int(block_until(lambda: noted.exists() and noted.read_text()) or 0)
        with HubLink.open(user.home) as link:
            os.kill(int(link.hello["pid"]), signal.SIGKILL)
            assert link.wait_closed(120)
        assert _runs(stubborn)
        assert user.finished("up", "-d")[0] == 0
        assert user.starts() == 2
        with HubLink.open(user.home) as link:
            ended = f"ended processes that a killed hub had left behind: {stubborn}"
            wanted = {"server": "hub", "lines": 500}
            block_until(lambda: ended in [line["text"] for line in link.ask("hub/logs", wanted)["lines"]])
        assert not _runs(stubborn)
        assert neighbour.poll() is None, "the mark is that of another hub"


STUBBORN = """\
import os, signal, sys
noted = sys.argv[1]
if os.path.exists(noted):  # the second hub's
    sys.stdin.read()
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(noted + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(noted + ".new", noted)
while True:
    signal.pause()
"""


def _runs(pid: int) -> bool:
    """Whether a process has not ended. One that nobody has waited for yet has no command line any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


@pytest.mark.parametrize("sign", ["hub.log", "hub.lock"])
@pytest.mark.parametrize("arguments", [["demo"], ["up", "-d"]])
def test_interrupting_whoever_starts_a_hub_ends_the_hub(user: User, arguments: list[str], sign: str) -> None:
    user.configure()
    places = user.root / "t"
    places.mkdir()
    user.environ["TMPDIR"] = str(places)
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with user.process(*arguments, preexec_fn=heeding) as process:
        while not [*places.glob(f"*/run/{sign}"), *user.home.glob(f"run/{sign}")]:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert list(places.iterdir()) == []
    assert not is_running(user.home)
    everyone = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert str(places) not in everyone


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_hub_whose_terminal_is_closed_ends_its_servers_and_tidies_up(user: User, number: signal.Signals) -> None:
    user.configure()
    with user.process("up") as hub:
        assert hub.stdout is not None
        while b"demo  connected" not in hub.stdout.readline():
            pass
        hub.send_signal(number)
        hub.communicate(timeout=120)
    assert hub.returncode == 0
    assert not (user.home / "run" / "hub.sock").exists()


def test_a_hub_started_to_outlive_its_terminal_does(user: User) -> None:
    user.configure()
    with user.process("up", preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)) as hub:
        assert hub.stdout is not None
        hub.stdout.readline()
        hub.send_signal(signal.SIGHUP)
        assert user.servers() == ["demo"]
        assert user.finished("down")[0] == 0
        hub.communicate(timeout=120)
    assert hub.returncode == 0


def test_a_hub_whose_words_nobody_reads_runs_all_the_same(user: User) -> None:
    user.configure()
    with user.process("up") as hub:
        assert hub.stdout is not None
        hub.stdout.readline()
        hub.stdout.close()
        assert user.servers() == ["demo"]
        assert user.finished("down")[0] == 0
        _, err = hub.communicate(timeout=120)
    assert (hub.returncode, err) == (0, b"")
