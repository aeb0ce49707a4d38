"""Redirections: the file or the connection that a command reads or writes by one."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.judge.findings import Finding
from interlock.judge.shell.folders import is_inside
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.script import Redirect

_QUIET = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"})


def opens_connection(target: str) -> bool:
    return target.startswith(("/dev/tcp/", "/dev/udp/"))


def is_quiet(redirect: Redirect, target: str) -> bool:
    """Whether output goes nowhere, or to where output goes anyway."""
    return target in _QUIET or (redirect.operator.endswith("&") and target.isdigit())


def judge_alone(redirect: Redirect) -> Iterator[Finding]:
    """Of one simple command, every redirection is a fault."""
    span = (redirect.start, redirect.end)
    target = redirect.target.text if redirect.target is not None else ""
    if opens_connection(target):
        yield Finding("shell.network", "opens a connection by redirection", "use a network tool", span)
    if compiled("<SECRETS>").search(target) or (">" in redirect.operator and compiled("<WRITE>").search(target)):
        yield Finding("shell.system_file", f"redirects to or from {target[:60]!r}", "use a file of your own", span)
    if "<<" in redirect.operator:
        yield Finding("shell.heredoc", "gives text to a program's input", "pass the text as an argument", span)
    elif redirect.operator.startswith("<"):
        yield Finding("shell.redirect_in", "reads a file by redirection", "name the file as an argument", span)
    elif target != "/dev/null" or redirect.operator not in (">", "2>", "&>"):
        yield Finding("shell.redirect_out", "writes a file by redirection", "let the tool return the output", span)
    else:
        yield Finding("shell.redirect_out", "discards output by redirection", "let the tool return the output", span)


def judge_everyday(redirect: Redirect, target: str, *, known: bool) -> Iterator[Finding]:
    """Of everyday commands, a redirection may write inside the project. `target` is the file, if it is `known`."""
    span = (redirect.start, redirect.end)
    if opens_connection(target):
        yield Finding("shell.network", "opens a connection by redirection", "use a network tool", span)
    elif compiled("<SECRETS>|<SECRET_FILE>").search(target) and ">" not in redirect.operator:
        yield Finding(
            "shell.secret_file", f"{target[:60]!r} holds secrets", "ask for what you need by another tool", span
        )
    elif ">" in redirect.operator and not is_quiet(redirect, target):
        if compiled("<HOOKS>").search(target):
            yield Finding("shell.persistence", "writes a program that git runs later", "leave hooks to a person", span)
        elif compiled("<WRITE>|<SECRETS>").search(target):
            yield Finding("shell.system_file", f"writes to {target[:60]!r}", "use a file of your own", span)
        elif not is_inside(target) or not known:
            message = f"writes to {target[:60]!r}, outside the project"
            yield Finding("shell.redirect_out", message, "write below the working directory", span)
