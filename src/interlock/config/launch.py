"""Checks which commands a project's file may not start, even after a person confirmed the file.

A person who confirms `npx some-server` understands it. A shell line, code fetched from an address or a variable that
changes what a program loads is easily overlooked, so it must be written in the operator's own file.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path, PurePath

from .expand import variables_in
from .settings import Server

LAUNCHERS = frozenset(
    {
        "npx",
        "npm",
        "node",
        "pnpm",
        "yarn",
        "bun",
        "bunx",
        "deno",
        "uvx",
        "uv",
        "pipx",
        "python",
        "python3",
        "docker",
        "podman",
    }
)
"""Programs that a project file may name, besides programs inside the project."""


def why_unsafe(server: Server, folder: Path | None) -> list[str]:
    """Every reason not to start a server of another program's file.

    `folder` is the project that the file belongs to, whose own programs may run; None if none may.
    """
    reasons = [f"sets `{name}`, which changes what programs load" for name in server.env if changes_loading(name)]
    reasons += [
        f"asks for your variable `{name}`, which changes what programs load"
        for name in server.inherit_env
        if changes_loading(name)
    ]
    texts = (*server.env.values(), *server.headers.values())
    reasons += [f"reads `{name}`" for text in texts for name in variables_in(text) if _GUARDS_OTHERS.search(name)]
    for text in (*server.command, server.url or "", server.cwd or ""):
        reasons += [
            f"puts your variable `{name}` where other programs can read it"
            for name in variables_in(text)
            if name != "userHome"
        ]
    if server.url is not None and _is_metadata(server.url):
        reasons.append("leads to a cloud metadata service")
    if server.cwd is not None and not _inside(server.cwd, folder):
        reasons.append(f"runs in {server.cwd}, outside its project")
    if server.command:
        reasons += _command(server.command, folder)
    return reasons


def _is_metadata(url: str) -> bool:
    from interlock.judge.urls import judge_url  # slow to import, and most files have no address

    return any(finding.rule == "address.metadata" for finding in judge_url(url))


def changes_loading(variable: str) -> bool:
    """Whether a variable makes a program load other code, or fetch it from elsewhere."""
    return _LOADING.fullmatch(variable.upper()) is not None


def _command(command: tuple[str, ...], folder: Path | None) -> list[str]:
    program, arguments = command[0], command[1:]
    name = PurePath(program).name.removesuffix(".exe").removesuffix(".cmd")
    reasons: list[str] = []
    if PurePath(program).name != program and not _inside(program, folder):
        reasons.append(f"runs {program}, which is {'outside its project' if folder else 'not a program of your PATH'}")
    elif PurePath(program).name == program and not (name in LAUNCHERS or _PYTHON.fullmatch(name)):
        reasons.append(f"runs `{program}`, which is not a package launcher such as npx or uvx")
    if any(_SHELL_SYNTAX.search(argument) for argument in arguments):
        reasons.append("has shell syntax in an argument")
    if any(argument in _UNCHECKED for argument in arguments):
        reasons.append("turns off encryption or certificate checks")
    if name in ("docker", "podman"):
        if _opens_host(arguments):
            reasons.append("gives its container access to this machine")
        return reasons
    if _PYTHON.fullmatch(name) and arguments[:1] == ("-m",) and _MODULES.intersection(arguments[1:2]):
        reasons.append(f"runs Python's `{arguments[1]}`, which is not a tool server")
    own, subcommands, target = _split(name, arguments)
    if any(argument.partition("=")[0] in _FLAGS for argument in own):
        reasons.append("passes code to its launcher, or another place to fetch code from")
    if not _only_runs(name, subcommands, target):
        reasons.append(f"uses `{name}` for something else than running a server")
    if any(not _is_plain(package) for package in _packages(name, own, subcommands, target)):
        reasons.append("fetches code from another place than a registry: its package is not a plain name and version")
    return reasons


def _split(launcher: str, arguments: tuple[str, ...]) -> tuple[list[str], list[str], str]:
    """The flags and values that the launcher reads itself, its subcommands, and the package or script that it runs."""
    own: list[str] = []
    subcommands: list[str] = []
    words = iter(arguments)
    for word in words:
        if word.startswith("-"):
            own.append(word)
            if word in _TAKE_VALUE:
                own.append(next(words, ""))
        elif word in _SUBCOMMANDS and launcher in _HAVE_SUBCOMMANDS:
            subcommands.append(word)
        else:
            return own, subcommands, word
    return own, subcommands, ""


def _only_runs(launcher: str, subcommands: list[str], target: str) -> bool:
    if launcher in _RUNNING:
        return " ".join(subcommands) in _RUNNING[launcher] or (launcher == "npm" and target == "start")
    return launcher not in ("pnpm", "yarn", "bun") or subcommands != [] or target not in _INSTALLING


def _packages(launcher: str, own: list[str], subcommands: list[str], target: str) -> list[str]:
    """The words that tell the launcher which code to run."""
    named = [value for flag, _, value in (word.partition("=") for word in own) if flag in _PACKAGE_FLAGS and value]
    named += [word for flag, word in pairwise(own) if flag in _PACKAGE_FLAGS]
    runs_file = (launcher in _RUN_FILES or _PYTHON.fullmatch(launcher)) and not _FETCHES.intersection(subcommands)
    if target and (not runs_file or _ADDRESS.match(target)):  # a path is code of this machine; an address is not
        named.append(target)
    return named


def _is_plain(package: str) -> bool:
    """Whether `package` is a name with an optional version, and no archive, which launchers take for a local file."""
    return _PACKAGE.fullmatch(package) is not None and not _ARCHIVE.search(package)


def _opens_host(arguments: tuple[str, ...]) -> bool:
    for number, argument in enumerate(arguments):
        flag, _, value = argument.partition("=")
        value = value or (arguments[number + 1] if number + 1 < len(arguments) else "")
        if flag in ("--privileged", "--cap-add", "--device", "--security-opt"):
            return True
        if flag in ("--pid", "--network", "--net", "--ipc", "--uts", "--userns") and value == "host":
            return True
        if flag in ("-v", "--volume", "--mount") and _HOST_ROOT.search(value):
            return True
    return False


def _inside(path: str, folder: Path | None) -> bool:
    return folder is not None and (folder / Path(path).expanduser()).resolve().is_relative_to(folder.resolve())


_GUARDS_OTHERS = re.compile(
    r"^(?:INTERLOCK|HUB)_|(?:^|_)(?:MASTER|ROOT|ADMIN)_(?:KEY|TOKEN|PASSWORD|SECRET)|^SSH_AUTH_SOCK$", re.IGNORECASE
)
"""Variables that protect more than one server's account: the hub's secrets, master keys, the SSH agent."""
_UNCHECKED = frozenset({"--allow-http", "--insecure", "--no-check-certificate", "--no-verify-ssl", "--tls-skip-verify"})
_LOADING = re.compile(
    r"LD_.*|DYLD_.*|PYTHON.*|NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|NPM_CONFIG_.*|UV_.*|PIP_.*|PIPX_.*|DENO_.*|BUN_.*"
    r"|PATH|PATHEXT|SHELL|IFS|ENV|BASH_ENV|BASH_FUNC_.*|PERL5.*|PERLLIB|RUBYOPT|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS"
    r"|JDK_JAVA_OPTIONS|CLASSPATH|GIT_.*|GCONV_PATH|DOCKER_.*|INTERLOCK_.*"
)
_PYTHON = re.compile(r"python3?(?:\.\d+)?")
_SHELL_SYNTAX = re.compile(r"\$\(|`|\n|;\s|&&|\|\|?\s*\w*sh\b")
_FLAGS = frozenset(
    {
        "--with-editable",
        "--with-requirements",
        "--editable",
        "--constraints",
        "--overrides",
        "-c",
        "--call",
        "-e",
        "--eval",
        "-p",
        "--print",
        "-r",
        "--require",
        "--import",
        "--loader",
        "--experimental-loader",
    }
    | {"--index-url", "--extra-index-url", "--index", "--default-index", "--find-links", "-f", "-i", "--registry"}
    | {
        "--node-options",
        "--userconfig",
        "--config-file",
        "--allow-insecure-host",
        "--pip-args",
        "--inspect",
        "--inspect-brk",
    }
)
_PACKAGE_FLAGS = frozenset({"--from", "--with", "--spec", "--package", "-p", "--python"})
_SUBCOMMANDS = frozenset({"run", "exec", "x", "tool", "dlx"})
_TAKE_VALUE = frozenset(
    {"--project", "--directory", "-m", "--prefix", "-C", "--cwd", "--filter", "-w", "--workspace"}
    | _PACKAGE_FLAGS
    | _FLAGS
)
_RUN_FILES = frozenset({"node", "deno", "bun", "uv", "npm", "pnpm", "yarn"})
"""Launchers whose argument is a file or a script of the project, unless a subcommand of `_FETCHES` is given."""
_HAVE_SUBCOMMANDS = frozenset({"npm", "pnpm", "yarn", "bun", "uv", "pipx", "deno"})
_FETCHES = frozenset({"exec", "x", "dlx", "tool"})
_RUNNING = {
    "npm": frozenset({"exec", "x", "run"}),
    "uv": frozenset({"run", "tool run"}),
    "pipx": frozenset({"run"}),
    "deno": frozenset({"run"}),
}
"""The subcommands that run a server. Others install, publish or configure something."""
_INSTALLING = frozenset(
    {"add", "ci", "config", "create", "global", "i", "import", "init", "install", "link", "patch", "plugin", "pm"}
    | {"publish", "remove", "set", "up", "update", "upgrade"}
)
"""Subcommands of the launchers that run a script of any other name."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""A URL, `npm:`, `jsr:`, `data:` …; one letter before the colon is a drive of Windows."""
_PACKAGE = re.compile(
    r"(?:@\w[\w.~-]*/)?\w[\w.~-]*"  # npm's scope, and the name
    r"(?:\[[\w., -]*\])?"  # Python's extras
    r"(?:\s*(?:@|[=<>~!]=?=?)\s*[\w.^~<>=|*+! ,-]+)?",
    re.ASCII,
)
_ARCHIVE = re.compile(r"\.(?:tgz|tar|gz|whl|zip)", re.IGNORECASE)
_MODULES = frozenset({"http.server", "pip", "ensurepip", "venv", "code", "pdb", "timeit", "runpy", "cProfile"})
"""Python modules that run or fetch code, or open this machine. None is a tool server."""
_HOST_ROOT = re.compile(
    r"^/(?::|$)|(?:source|src)=/(?:,|$)|docker\.sock|^/(?:etc|root|proc|sys|dev|var|home)(?:[:/]|$)"
)
