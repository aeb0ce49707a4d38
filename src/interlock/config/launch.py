"""Checks which commands a project's file may not start, even after a person confirmed the file.

A person who confirms `npx some-server` understands it. A shell line, code fetched from an address or a variable that
changes what a program loads is easily overlooked, so it must be written in the operator's own file.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from .expand import variables_in
from .launchers import launcher_name, launchers, why_unusual
from .settings import ServerSettings


def why_unsafe(server: ServerSettings, folder: Path | None) -> list[str]:
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
    name = launcher_name(PurePath(program).name)
    reasons: list[str] = []
    if PurePath(program).name != program and not _inside(program, folder):
        reasons.append(f"runs {program}, which is {'outside its project' if folder else 'not a program of your PATH'}")
    elif PurePath(program).name == program and name not in launchers():
        reasons.append(f"runs `{program}`, which is not a package launcher such as npx or uvx")
    if any(_SHELL_SYNTAX.search(argument) for argument in arguments):
        reasons.append("has shell syntax in an argument")
    if any(argument in _UNCHECKED for argument in arguments):
        reasons.append("turns off encryption or certificate checks")
    if name in launchers() and (problem := why_unusual(name, arguments)):
        reasons.append(problem)
    return reasons


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
    r"|JDK_JAVA_OPTIONS|CLASSPATH|GIT_.*|GCONV_PATH|DOCKER_.*|INTERLOCK_.*|YARN_.*|PNPM_.*|COREPACK_.*|CONTAINERS?_.*"
    r"|XDG_.*|SSL_CERT_.*|NODE_TLS_.*|NODE_REPL_.*"
)
_SHELL_SYNTAX = re.compile(r"\$\(|`|\n|;\s|&&|\|\|?\s*\w*sh\b")
