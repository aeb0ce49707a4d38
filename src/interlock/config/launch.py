"""Checks which commands a project's file may not start, even after a person confirmed the file.

A person who confirms `npx some-server` understands it. A shell line, code fetched from an address or a variable that
changes what a program loads is easily overlooked, so it must be written in the operator's own file.
"""

from __future__ import annotations

import re
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


def why_unsafe(server: Server, folder: Path) -> list[str]:
    """Every reason not to start a server of a project file in `folder`."""
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


def _command(command: tuple[str, ...], folder: Path) -> list[str]:
    program, arguments = command[0], command[1:]
    name = PurePath(program).name.removesuffix(".exe").removesuffix(".cmd")
    reasons: list[str] = []
    if PurePath(program).name != program and not _inside(program, folder):
        reasons.append(f"runs {program}, outside its project")
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
    own = _own_flags(arguments)
    if any(argument.partition("=")[0] in _FLAGS for argument in own):
        reasons.append("passes code to its launcher, or another place to fetch code from")
    fetched = [argument.partition("=")[2] or argument for argument in own] + list(arguments[len(own) : len(own) + 1])
    if any(_REMOTE_CODE.match(argument) for argument in fetched):
        reasons.append("fetches code from an address instead of a registry")
    return reasons


def _own_flags(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments that the launcher reads itself: all before the package or script, with their values."""
    start = next((number for number, word in enumerate(arguments) if word not in _SUBCOMMANDS), len(arguments))
    for number in range(start, len(arguments)):
        is_value = number > 0 and arguments[number - 1] in _TAKE_VALUE
        if not arguments[number].startswith("-") and not is_value:
            return arguments[:number]
    return arguments


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


def _inside(path: str, folder: Path) -> bool:
    return (folder / Path(path).expanduser()).resolve().is_relative_to(folder.resolve())


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
_SUBCOMMANDS = frozenset({"run", "exec", "x", "tool", "dlx"})
_TAKE_VALUE = frozenset(
    {"--from", "--with", "--spec", "--package", "--python", "-p", "--project", "--directory", "-m"} | _FLAGS
)
_REMOTE_CODE = re.compile(r"(?:git\+|hg\+|svn\+|bzr\+)?(?:https?|ssh|file|git|ftp)://|git\+|[^@/\s]+@git\+")
_MODULES = frozenset({"http.server", "pip", "ensurepip", "venv", "code", "pdb", "timeit", "runpy", "cProfile"})
"""Python modules that run or fetch code, or open this machine. None is a tool server."""
_HOST_ROOT = re.compile(
    r"^/(?::|$)|(?:source|src)=/(?:,|$)|docker\.sock|^/(?:etc|root|proc|sys|dev|var|home)(?:[:/]|$)"
)
