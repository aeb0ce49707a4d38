"""`interlock service`: the unit that systemd gets, the agent that launchd gets, and how both are started."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli.clients.clients import client
from interlock.cli.lifecycle.service import launchd_agent, systemd_unit

from .conftest import User
from .fake_hub import FakeHub

COMMAND = ["/opt/a b/python", "-m", "interlock.cli", "up", "--config", "/home/me/50%/$x.toml"]


@pytest.fixture
def systemctl(user: User, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that notes what it is told."""
    folder = user.root / "bin"
    folder.mkdir()
    said = user.root / "said"
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return said


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_a_unit_is_written_started_and_taken_away(user: User, systemctl: Path) -> None:
    user.configure()
    assert user.run("service", "install", "--config", str(user.config)).exit_code == 0
    unit = user.root / "c" / "systemd" / "user" / "interlock.service"
    text = unit.read_text()
    assert f"--config {user.config}" in text
    assert f"INTERLOCK_HOME={user.home}" in text
    assert systemctl.read_text().splitlines() == ["--user daemon-reload", "--user enable --now interlock.service"]
    printed = user.run("service", "install", "--print", "--config", str(user.config))
    assert printed.output == text
    assert user.run("service", "status").exit_code == 0
    assert user.run("service", "uninstall").exit_code == 0
    assert user.run("service", "status").exit_code == 1
    assert not unit.exists()
    assert "--user disable --now interlock.service" in systemctl.read_text()
    assert user.run("service", "uninstall").exit_code == 1


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
@pytest.mark.parametrize(
    ("variable", "value", "home"),
    [
        ("INTERLOCK_HOME", "data", "work/data"),
        ("INTERLOCK_HOME", "~/data", "data"),
        ("XDG_STATE_HOME", "/s", "/s/interlock"),
    ],
)
def test_the_service_and_clients_use_the_hub_of_the_terminal(
    user: User, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, home: str
) -> None:
    monkeypatch.delenv("INTERLOCK_HOME")
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("INTERLOCK_CONFIG", "own.toml")
    Path("own.toml").write_text("")
    unit = user.run("service", "install", "--print").output.splitlines()
    expected = {"INTERLOCK_HOME": str(user.root / home), "INTERLOCK_CONFIG": str(user.folder / "own.toml")}
    assert [line for line in unit if "INTERLOCK" in line] == [
        f"Environment={name}={place}" for name, place in sorted(expected.items())
    ]
    assert client("cursor").entry(["/bin/interlock"], "k")["env"] == {"INTERLOCK_KEY": "k", **expected}


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_a_service_beside_a_running_hub_says_how_it_takes_over(user: User, systemctl: Path, hub: FakeHub) -> None:
    told = user.run("service", "install")
    assert "A hub runs already" in told.output
    assert "systemctl --user restart interlock.service" in told.output
    assert "A hub runs already" not in user.run("service", "install").output, "this one is the service"


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_variables_that_the_service_lacks_are_told_and_can_be_given(user: User, systemctl: Path) -> None:
    user.configure('[servers.db]\ncommand = ["db"]\nenv = { TOKEN = "${env:DB_TOKEN}" }\n')
    told = user.run("service", "install", "--config", str(user.config))
    assert "does not have these variables of the configuration: DB_TOKEN" in told.output
    assert "interlock secrets set" in told.output
    unit = user.root / "c" / "systemd" / "user" / "interlock.service"
    kept = unit.read_text().partition("EnvironmentFile=-")[2].splitlines()[0]
    Path(kept).parent.mkdir(parents=True, exist_ok=True)
    Path(kept).write_text("DB_TOKEN=x\n")
    assert "DB_TOKEN" not in user.run("service", "install", "--config", str(user.config)).output


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_a_unit_that_systemd_refuses_is_taken_away_again(user: User, systemctl: Path) -> None:
    user.configure()
    (user.root / "bin" / "systemctl").write_text("#!/bin/sh\necho no >&2; exit 1\n")
    assert user.run("service", "install", "--config", str(user.config)).exit_code == 1
    assert user.run("service", "status").exit_code == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd's own check")
def test_systemd_takes_the_unit_with_unusual_paths(tmp_path: Path) -> None:
    program = tmp_path / "a b" / "python"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    unit = tmp_path / "interlock.service"
    unit.write_bytes(systemd_unit([str(program), *COMMAND[1:]], {"PATH": "/usr/bin", "NO_PROXY": "a, b"}))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "interlock.service" in line]
    assert ours == []


def test_launchd_gets_each_word_as_it_is() -> None:
    agent = plistlib.loads(launchd_agent(COMMAND, {"PATH": "/usr/bin"}))
    assert agent["ProgramArguments"] == COMMAND
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
