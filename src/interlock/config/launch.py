"""What a file that came with a project may not start, even after it was confirmed.

A person who confirms a list of commands sees `npx some-server` and knows what it is; a shell line, code from an address
or a variable that makes the loader run something else are easily overlooked. Those belong in the operator's own file.
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
"""Programs that a project file may name; beside them, programs inside the project itself."""


def why_unsafe(server: Server, folder: Path) -> list[str]:
    """Each thing that keeps a server of a project file in `folder` from being started."""
    reasons = [f"sets `{name}`, which changes what programs load" for name in server.env if changes_loading(name)]
    reasons += [
        f"asks for your variable `{name}`, which changes what programs load"
        for name in server.inherit_env
        if changes_loading(name)
    ]
    texts = (*server.env.values(), *server.headers.values())
    reasons += [f"reads `{name}`" for text in texts for name in variables_in(text) if name.startswith("INTERLOCK_")]
    for text in (*server.command, server.url or "", server.cwd or ""):
        reasons += [
            f"puts your variable `{name}` where others can read it"
            for name in variables_in(text)
            if name not in _PLACES
        ]
    if server.cwd is not None and not _inside(server.cwd, folder):
        reasons.append(f"runs in {server.cwd}, outside its project")
    if server.command:
        reasons += _command(server.command, folder)
    return reasons


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
        reasons.append(f"runs `{program}`, which is no launcher of packages")
    if any(_SHELL_SYNTAX.search(argument) for argument in arguments):
        reasons.append("has shell syntax in an argument")
    if any(_is_flag(argument, _FLAGS) for argument in _own_flags(name, arguments)):
        reasons.append("hands its launcher code, or another place to fetch code from")
    if name in ("docker", "podman") and _opens_host(arguments):
        reasons.append("opens this machine to its container")
    if name not in ("docker", "podman") and any(_REMOTE_CODE.match(argument) for argument in _sources(name, arguments)):
        reasons.append("fetches code from an address instead of a registry")
    return reasons


def _own_flags(name: str, arguments: tuple[str, ...]) -> list[str]:
    """The arguments that the launcher itself reads: those before the package or script, and the values they take."""
    own: list[str] = []
    for argument in arguments:
        if not argument.startswith("-") and argument not in ("run", "exec", "x", "tool", "dlx"):
            if own and own[-1] in _TAKE_VALUE:
                own.append(argument)
                continue
            break
        own.append(argument)
    return own


def _sources(name: str, arguments: tuple[str, ...]) -> list[str]:
    """What the launcher would fetch: its own flags' values and the first thing after them."""
    own = _own_flags(name, arguments)
    return [argument.partition("=")[2] or argument for argument in own] + list(arguments[len(own) : len(own) + 1])


def _is_flag(argument: str, flags: frozenset[str]) -> bool:
    return argument.partition("=")[0] in flags


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


_PLACES = frozenset({"workspaceFolder", "userHome"})
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
_TAKE_VALUE = frozenset(
    {"--from", "--with", "--spec", "--package", "--python", "-p", "--project", "--directory", "-m"} | _FLAGS
)
_REMOTE_CODE = re.compile(r"(?:git\+|hg\+|svn\+|bzr\+)?(?:https?|ssh|file|git|ftp)://|git\+|[^@/\s]+@git\+")
_HOST_ROOT = re.compile(
    r"^/(?::|$)|(?:source|src)=/(?:,|$)|docker\.sock|^/(?:etc|root|proc|sys|dev|var|home)(?:[:/]|$)"
)
