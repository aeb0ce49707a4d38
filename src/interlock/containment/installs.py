"""The install step for contained servers whose command is `npx` or `uvx`, which would fetch packages at every start.

The packages go into a folder of the server, without running their install scripts. Their digest is recorded, and a
start uses exactly these files, which the server can read but not change.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from interlock.containment.policy import ContainmentRefused

RECORD: Final = "install.json"
INSTALL_S: Final = 600.0
_FETCHING: Final = frozenset({"npm", "pnpm", "yarn", "bunx", "bun", "pipx", "uv", "deno"})
verified: dict[str, str] = {}
"""Folders whose files this process has verified, with their digests."""


class ServerInstall(msgspec.Struct, frozen=True):
    """The installation of one server."""

    command: tuple[str, ...]
    """The configured command that was installed."""
    argv: tuple[str, ...]
    """The command that runs the installed files."""
    folder: str
    package: str
    digest: str


class WantedPackage(msgspec.Struct, frozen=True):
    """The package that a command fetches, the program in it, and that program's arguments."""

    launcher: str
    package: str
    program: str
    arguments: tuple[str, ...]


def wanted(command: tuple[str, ...]) -> WantedPackage | None:
    """The package that a command would fetch; None if it fetches none.

    Raises `ContainmentRefused` for launchers that fetch packages and have no install step here.
    """
    launcher = os.path.basename(command[0])
    if launcher in _FETCHING and _fetches(launcher, command[1:]):
        hint = "use `npx` or `uvx`, or install the server and name its program"
        raise ContainmentRefused(f"`{launcher}` fetches code at every start, which a contained server cannot", hint)
    if launcher not in ("npx", "uvx"):
        return None
    package = ""
    rest = list(command[1:])
    while rest and rest[0].startswith("-"):
        flag, _, value = rest.pop(0).partition("=")
        if flag in ("-p", "--package", "--from"):
            package = value or (rest.pop(0) if rest else "")
        elif flag not in ("-y", "--yes", "-q", "--quiet"):
            raise ContainmentRefused(f"`{launcher} {flag}` is not supported for contained servers", "remove that flag")
    if not rest:
        raise ContainmentRefused(f"`{launcher}` names no package", f"write {launcher} PACKAGE")
    program = rest.pop(0)
    return WantedPackage(launcher, package or program, bare(program) if not package else program, tuple(rest))


def names_own_program(package: WantedPackage) -> bool:
    """Whether a command runs the program with the name of its package, and no other program of its environment."""
    return package.program == bare(package.package)


def installed(folder: str, command: tuple[str, ...]) -> ServerInstall | None:
    """The installed form of a command; None if it needs none. Raises `ContainmentRefused` without it."""
    if wanted(command) is None:
        return None
    try:
        record = msgspec.json.decode(Path(folder, RECORD).read_bytes(), type=ServerInstall)
    except (OSError, msgspec.MsgspecError):
        record = None
    hint = f"run `interlock install {os.path.basename(folder)}`"
    if record is None or record.command != command:
        raise ContainmentRefused(f"`{' '.join(command[:3])}` is not installed for the contained server", hint)
    if verified.get(record.folder) != record.digest:
        if digest_of(Path(record.folder)) != record.digest:
            raise ContainmentRefused("the installed files of the server have changed since they were installed", hint)
        verified[record.folder] = record.digest
    return record


def install(folder: Path, command: tuple[str, ...], env: Mapping[str, str]) -> ServerInstall:
    """Fetch the packages of a command into the server's folder. Blocks. Raises `ContainmentRefused`."""
    package = wanted(command)
    if package is None:
        raise ContainmentRefused(f"`{command[0]}` needs no install step")
    place = folder / f"package-{secrets.token_hex(4)}"
    place.mkdir(parents=True)
    try:
        argv = (_npm if package.launcher == "npx" else _uv)(place, package, env)
        record = ServerInstall(command, (*argv, *package.arguments), str(place), package.package, digest_of(place))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    written = folder / f"{RECORD}.new"
    written.write_bytes(msgspec.json.encode(record))
    written.replace(folder / RECORD)
    for old in folder.glob("package-*"):
        if old != place:
            shutil.rmtree(old, ignore_errors=True)
    return record


def digest_of(folder: Path) -> str:
    """SHA-256 over every path, type, executable bit and content below a folder."""
    total = hashlib.sha256()
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*files, *(one for one in folders if os.path.islink(os.path.join(root, one)))]):
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                kind, content = "link", os.readlink(path).encode()
            else:
                kind = "program" if mode & 0o100 else "file"
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest()
            total.update(f"{os.path.relpath(path, folder)}\0{kind}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _npm(place: Path, wanted: WantedPackage, env: Mapping[str, str]) -> tuple[str, ...]:
    flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--global=false")
    _run(("npm", "install", "--prefix", str(place), *flags, "--", wanted.package), place, env)
    node = shutil.which("node", path=env.get("PATH"))
    if node is None:
        raise ContainmentRefused("`node` was not found", "install Node.js 22 or later (https://nodejs.org)")
    module = place / "node_modules" / bare(wanted.package)
    programs = json.loads((module / "package.json").read_bytes()).get("bin") or {}
    if isinstance(programs, str):
        programs = {wanted.program: programs}
    name = os.path.basename(wanted.program)
    found = programs.get(name) or (next(iter(programs.values())) if len(programs) == 1 else None)
    if found is None:
        raise ContainmentRefused(
            f"the package `{wanted.package}` has no program `{name}`", f"it has {', '.join(programs) or 'none'}"
        )
    return node, str((module / found).resolve())


def _uv(place: Path, wanted: WantedPackage, env: Mapping[str, str]) -> tuple[str, ...]:
    venv = place / "venv"
    _run(("uv", "venv", "--quiet", "--python", sys.executable, str(venv)), place, env)
    only_wheels = ("--only-binary", ":all:")  # Building a source package would run its code.
    package = wanted.package.replace("@", "==", 1)
    _run(("uv", "pip", "install", "--quiet", "--python", str(venv / "bin/python"), *only_wheels, package), place, env)
    program = venv / "bin" / wanted.program
    if not program.exists():
        raise ContainmentRefused(
            f"the package `{wanted.package}` has no program `{wanted.program}`", "name it with --from"
        )
    return (str(program),)


def _run(command: tuple[str, ...], place: Path, env: Mapping[str, str]) -> None:
    program = shutil.which(command[0], path=env.get("PATH"))
    if program is None:
        where = "Node.js 22 or later (https://nodejs.org)" if command[0] == "npm" else "uv (https://docs.astral.sh/uv)"
        raise ContainmentRefused(f"`{command[0]}` was not found", f"install {where}")
    try:
        done = subprocess.run(
            (program, *command[1:]),
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ContainmentRefused(f"`{command[0]}` took longer than {INSTALL_S:.0f} s", "try again") from None
    if done.returncode != 0:
        output = (done.stderr or done.stdout).decode(errors="replace").strip()[-500:]
        raise ContainmentRefused(
            f"`{' '.join(command[:3])}` failed: {output}", "correct the package's name or the network"
        )


def bare(package: str) -> str:
    """A package without its version: `@scope/name@1.2` is `@scope/name`."""
    name, _, _ = package[1:].partition("@")
    return package[:1] + name.partition("==")[0]


def _fetches(launcher: str, arguments: tuple[str, ...]) -> bool:
    words = [word for word in arguments if not word.startswith("-")]
    return launcher == "bunx" or words[:1] in (["exec"], ["x"], ["dlx"], ["run"], ["tool"])
