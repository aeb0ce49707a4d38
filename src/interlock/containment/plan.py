"""Computes what a contained server may reach: the system's programs, its own program, and the named folders."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from interlock.containment.backends import choose
from interlock.containment.installs import ServerInstall, bare, installed
from interlock.containment.policy import OPEN_FILES, Containment, ContainmentRefused, StartPlan
from interlock.containment.scripts import interpreter_of

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs and libraries of the system."""
SETTINGS: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
"""Settings that programs read at start. None is a secret."""
DEVICES: Final = ("/dev/null", "/dev/urandom", "/dev/random")
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
OWN_FILES: Final = {"@modelcontextprotocol/server-memory": ("MEMORY_FILE_PATH", "memory.jsonl")}
"""Packages that keep a file beside their program, where a contained server cannot write. For each, the variable that
sets another path, and the name of the file in the server's own home."""
_DROPPED: Final = ("LOGNAME", "SHELL", "USER")
"""Variables that reveal the user outside."""


def plan(containment: Containment, argv: tuple[str, ...], env: Mapping[str, str], cwd: str | None) -> StartPlan:
    """The plan to start a contained program. It creates folders. Raises `ContainmentRefused` or OSError."""
    backend = choose(containment)
    _demand_pinned(containment)
    install = installed(containment.folder, argv)
    if install is not None:
        argv = install.argv
    program = _program(argv[0], env.get("PATH", _PATH), cwd)
    argv = (*_interpreter(program, env), program, *argv[1:])
    home = Path(containment.folder, "home")
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    read_only, write = named_folders(containment)
    named = (*read_only, *write, str(home), *(() if install is None else (install.folder,)))
    beside = os.path.dirname(argv[0]) == os.path.dirname(program)
    programs = (*_of_program(program), *(_of_program(argv[0]) if beside else ()))
    read = dict.fromkeys([*_system(), *programs, *_script(argv, cwd), *named])
    real = _system_folders() + tuple(os.path.realpath(path) for path in read if path not in _system())
    if not _inside(os.path.realpath(argv[0]), real):
        raise ContainmentRefused(
            f"the server may not read {argv[0]}, which runs its program {program}",
            f"name the folder of {os.path.basename(argv[0])} in `read`",
        )
    place = str(home) if cwd is None else os.path.realpath(cwd)
    if not _inside(place, real):
        raise ContainmentRefused(
            f"the server may not read its working folder {place}", "name that folder in `read` or `write`"
        )
    return StartPlan(
        backend=backend,
        argv=argv,
        env=_own_file(install, home) | _environment(env, home, real),
        cwd=place,
        read=tuple(read),
        write=(*write, str(home)),
        home=str(home),
        hosts=tuple(host if ":" in host else f"{host}:443" for host in containment.hosts),
        memory_bytes=containment.memory_bytes,
        cpus=containment.cpus,
        processes=containment.processes,
        open_files=OPEN_FILES,
        time_s=containment.time_s,
    )


def _demand_pinned(containment: Containment) -> None:
    """Raises `ContainmentRefused` if a pinned file is not what a person approved."""
    for path, sha256 in containment.pinned:
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() != sha256:
            hint = "find out who changed it; a restart of the hub writes the approved source again"
            raise ContainmentRefused(f"{path} has changed since its source was approved", hint)


def named_folders(containment: Containment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that the server may read, and those that it may write. Raises `ContainmentRefused`."""
    write = tuple(_named(containment.write, "write"))
    for path in write:
        if why := executed_outside(Path(path), Path(containment.folder).parent.parent):
            raise ContainmentRefused(
                f"the server may not write to {path}: {why}", "name a folder of its own in `write`"
            )
    return tuple(_named(containment.read, "read")), write


def executed_outside(path: Path, hub_home: Path) -> str:
    """Why a server that writes to this path could run code outside; empty if it could not."""
    home = Path.home().resolve()
    if path == home or home.is_relative_to(path):
        return "your programs start from your home folder"
    if path.is_relative_to(home) and path.relative_to(home).parts[0].startswith("."):
        return "your programs read their settings there"
    hub = hub_home.resolve()
    if path.is_relative_to(hub) or hub.is_relative_to(path):
        return "the hub keeps its own files there"
    for folder in (*SYSTEM, "/etc", "/boot", "/dev", "/proc", "/sys", "/run", *os.environ.get("PATH", "").split(":")):
        if folder and (path.is_relative_to(folder) or Path(folder).is_relative_to(path)):
            return f"programs of this machine are in {folder}"
    for name in (".git", ".hg"):
        if any((parent / name).exists() for parent in (path, *path.parents)):
            return f"it belongs to a repository, whose hooks ({name}) run outside"
    return ""


def _program(name: str, path: str, cwd: str | None) -> str:
    """The absolute path of a program. Raises FileNotFoundError."""
    found = shutil.which(os.path.join(cwd or "", name) if os.sep in name else name, path=path)
    if found is None:
        raise FileNotFoundError(name)
    return os.path.abspath(found)


def _interpreter(program: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The interpreter of a script, if it is not one of the system's programs; otherwise empty."""
    command = interpreter_of(program, env.get("PATH", _PATH))
    return () if not command or _inside(os.path.realpath(command[0]), _system_folders()) else command


def _of_program(program: str) -> Iterator[str]:
    """The program and the libraries that are installed with it, also for the target of a link."""
    place = program
    for _ in range(8):
        yield place
        prefix = Path(place).parent.parent
        if Path(place).parent.name == "bin":
            yield from _existing(tuple(str(prefix / name) for name in ("lib", "lib64", "libexec", "pyvenv.cfg")))
        if not os.path.islink(place):
            return
        place = os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(place)))


def _script(argv: tuple[str, ...], cwd: str | None) -> Iterator[str]:
    """The script that an interpreter runs. A folder is never made readable because an argument names it."""
    for argument in argv[1:]:
        path = os.path.realpath(os.path.join(cwd or "", argument))
        if not argument.startswith("-"):
            if os.path.isabs(argument) and os.path.isfile(path):
                yield argument
                yield path
            return


def _named(paths: tuple[str, ...], key: str) -> Iterator[str]:
    for path in paths:
        real = os.path.realpath(os.path.expanduser(path))
        if not os.path.exists(real):
            raise ContainmentRefused(f"`{key}` names {path}, which does not exist", f"create it, or correct `{key}`")
        yield real


def _existing(paths: tuple[str, ...]) -> Iterator[str]:
    return (path for path in paths if os.path.exists(path))


@cache
def _system() -> tuple[str, ...]:
    return tuple(_existing((*SYSTEM, *SETTINGS)))


@cache
def _system_folders() -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(os.path.realpath, _existing(SYSTEM))))


def _inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _own_file(install: ServerInstall | None, home: Path) -> dict[str, str]:
    """The variable that moves a package's file to the server's home. A configured value overrides it."""
    known = None if install is None else OWN_FILES.get(bare(install.package))
    return {} if known is None else {known[0]: str(home / known[1])}


def _environment(env: Mapping[str, str], home: Path, read: tuple[str, ...]) -> dict[str, str]:
    """The configured variables; HOME and temporary files are private."""
    kept = {name: value for name, value in env.items() if name not in _DROPPED}
    reachable = [part for part in env.get("PATH", _PATH).split(":") if _inside(os.path.realpath(part), read)]
    # git accepts a missing settings file, but fails on one that it may not open.
    quiet = {} if "GIT_CONFIG_SYSTEM" in kept else {"GIT_CONFIG_NOSYSTEM": "1"}
    private = {"HOME": str(home), "TMPDIR": str(home / "tmp"), "PATH": ":".join(reachable) or _PATH}
    return quiet | kept | private
