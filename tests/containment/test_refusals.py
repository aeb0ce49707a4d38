"""Refusals before a contained server starts, and the report on this kernel's abilities."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.containment import backends, cgroups, installs, plan, seccomp
from interlock.containment.policy import Containment, ContainmentRefused
from interlock.containment.syscalls import MACHINES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containment needs Linux")


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which sandlock serves."""
    monkeypatch.setattr(backends, "known_to_serve", {"sandlock"})


def asked(tmp_path: Path, **changed: Any) -> Containment:
    settings: dict[str, Any] = {
        "folder": str(tmp_path / "hub" / "contained" / "one"),
        "backend": "auto",
        "read": (),
        "write": (),
        "hosts": (),
        "memory_bytes": 1 << 28,
        "cpus": 1,
        "processes": 8,
        "time_s": 60.0,
    }
    return Containment(**(settings | changed))


def test_a_kernel_without_a_backend_refuses_and_names_every_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "known_to_serve", set())
    monkeypatch.setattr(backends, "landlock_abi", lambda: 3)
    monkeypatch.setattr("shutil.which", lambda name, **_: None)
    with pytest.raises(ContainmentRefused) as refused:
        backends.choose(asked(tmp_path))
    message = "sandlock: needs Landlock version 6, this kernel has version 3; bubblewrap: is not installed"
    assert refused.value.message == f"the server cannot be contained here: {message}"
    assert refused.value.hint == "use Linux 6.12 or later"


def test_bubblewrap_is_refused_where_memory_cannot_be_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "known_to_serve", set())
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")
    monkeypatch.setattr(cgroups, "parents", lambda: ())
    report = next(report for report in backends.reports() if report.backend == "bubblewrap")
    assert "no control groups" in report.missing


@pytest.mark.usefixtures("serving")
def test_t80_a_folder_that_something_outside_executes_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, programs, project = tmp_path / "me", tmp_path / "programs", tmp_path / "project"
    for folder in (home / ".config", programs, project / ".git", project / "data", tmp_path / "data"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (tmp_path / "linked").symlink_to(programs)
    hub = tmp_path / "hub" / "contained"
    hub.mkdir(parents=True)
    refused = ("/", "/usr/local/lib", "/etc", home, home / ".config", programs, tmp_path / "linked", project)
    for folder in (*refused, project / "data", hub, hub.parent, tmp_path):
        with pytest.raises(ContainmentRefused, match="may not write"):
            plan.plan(asked(tmp_path, write=(str(folder),)), ("cat",), dict(os.environ), None)
    made = plan.plan(asked(tmp_path, write=(str(tmp_path / "data"),)), ("cat",), dict(os.environ), None)
    assert made.write == (str(tmp_path / "data"), made.home)


@pytest.mark.usefixtures("serving")
def test_only_the_named_and_the_needed_is_readable(tmp_path: Path) -> None:
    script = tmp_path / "code" / "server.py"
    script.parent.mkdir()
    script.write_text("")
    data = tmp_path / "data"
    data.mkdir()
    command = (os.path.realpath(sys.executable), str(script), str(data))
    made = plan.plan(asked(tmp_path), command, {"PATH": f"{tmp_path}:/usr/bin", "SHELL": "/bin/sh", "KEY": "1"}, None)
    below = {path for path in made.read if path.startswith(str(tmp_path))}
    assert below == {str(script), made.home}, "an argument that is a folder is not read"
    assert not {"/etc", "/etc/shadow", "/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root"} & set(made.read)
    own = {"HOME": made.home, "TMPDIR": f"{made.home}/tmp", "GIT_CONFIG_NOSYSTEM": "1"}
    assert made.env == {"PATH": "/usr/bin", "KEY": "1", **own}


@pytest.mark.usefixtures("serving")
def test_a_working_folder_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ContainmentRefused, match="may not read its working folder"):
        plan.plan(asked(tmp_path), ("cat",), {}, str(tmp_path))
    named = asked(tmp_path, read=(str(tmp_path),))
    assert plan.plan(named, ("cat",), {}, str(tmp_path)).cwd == str(tmp_path)


@pytest.mark.usefixtures("serving")
def test_a_named_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ContainmentRefused, match="which does not exist"):
        plan.plan(asked(tmp_path, read=(str(tmp_path / "none"),)), ("cat",), {}, None)


def test_control_groups_stand_beside_the_hubs_own(tmp_path: Path) -> None:
    """Version 2: the parent hands out the controllers, since a group with processes cannot."""
    own = tmp_path / "own"
    own.write_text("0::/user.slice/app.slice/hub.scope\n")
    mount = tmp_path / "cgroup"
    parent = mount / "user.slice" / "app.slice"
    (parent / "hub.scope").mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpu memory pids\n")
    assert cgroups.parents(mount, own) == ()
    (parent / "cgroup.subtree_control").write_text("memory\n")
    assert cgroups.parents(mount, own) == (), "processes could not be bounded"
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (group,) = cgroups.make(cgroups.parents(mount, own), "one")
    for name in ("memory.max", "memory.swap.max", "pids.max"):
        (group / name).write_text("max")
    cgroups.bound([group], 1 << 20, 4)
    values = [(group / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")]
    assert (group.parent, values) == (parent, ["1048576", "0", "64"])


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_every_filter_is_a_program_that_the_kernel_takes(machine: Any) -> None:
    refused = [*seccomp.SHARED, *seccomp.OTHER_PROCESSES, *seccomp.METADATA]
    for changed in ({}, {"network": True}, {"sockets": False}):
        assert len(seccomp.program(machine, refused, **changed)) // 8 < 4096


@pytest.mark.parametrize(("env", "file"), [({}, "home/memory.jsonl"), ({"MEMORY_FILE_PATH": "/x"}, None)])
def test_a_package_that_keeps_its_file_beside_its_program_keeps_it_in_the_servers_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], file: str | None
) -> None:
    command = ("npx", "-y", "@modelcontextprotocol/server-memory@2026.1.1")
    install = installs.ServerInstall(command, ("/bin/cat",), str(tmp_path), command[2], "")
    monkeypatch.setattr(plan, "installed", lambda folder, argv: install)
    monkeypatch.setattr(plan, "choose", lambda containment: "sandlock")
    made = plan.plan(asked(tmp_path), command, env, None)
    expected = "/x" if file is None else str(Path(asked(tmp_path).folder, file))
    assert made.env["MEMORY_FILE_PATH"] == expected
