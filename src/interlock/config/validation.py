"""Reads what is set tool by tool, and checks at start what would otherwise fail at a call or a connection."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath

from interlock.judge.addresses import METADATA
from interlock.judge.arguments import KINDS, ArgumentKind
from interlock.protocols.mgp.permissions import expand
from interlock.protocols.patterns import PatternError, compile_pattern
from interlock.wire.errors import Fault

from .problems import KeyPath, Report
from .settings import Permissions, Server, ToolTimeouts, Validation
from .shape import S, build, kind

SHORTEST_FINGERPRINT = 16
"""Hexadecimal characters: fewer could be matched by a definition made for that."""


def read_validators(tables: object, at: KeyPath, report: Report, *, server: str) -> dict[str, Validation]:
    """Each tool's validators. Whatever is wrong is reported, with its line."""
    found = _by_tool(Validation, tables, at, report, server=server)
    for tool, rules in found.items():
        for key, message, hint in _wrong(rules):
            report.add((*at, tool, *key), message, hint, server=server)
    return found


def read_timeouts(tables: object, at: KeyPath, report: Report, *, server: str) -> dict[str, ToolTimeouts]:
    """Each tool's timeouts, likewise."""
    return _by_tool(ToolTimeouts, tables, at, report, server=server)


def _by_tool(cls: type[S], tables: object, at: KeyPath, report: Report, *, server: str) -> dict[str, S]:
    """A table for each tool, by its name or a pattern."""
    if not isinstance(tables, Mapping):
        name = at[-1]
        report.add(at, f"`{name}` must be tables, not {kind(tables)}", f'write [….{name}."TOOL"]', server=server)
        return {}
    found: dict[str, S] = {}
    for tool, table in tables.items():
        place = (*at, tool)
        try:
            compile_pattern(tool)
        except PatternError as why:
            report.add(
                place, f"`{tool}` is no tool name or pattern: {why}", "name a tool, or write `**`", server=server
            )
            continue
        found[tool] = build(cls, table, place, report, server=server)
    return found


def check_trust(trust: tuple[str, ...], at: KeyPath, report: Report, *, server: str) -> None:
    """Trust is in one definition, never in a name."""
    for number, entry in enumerate(trust):
        if not _TRUST.fullmatch(entry):
            report.add(
                (*at, number),
                f"`{entry}` does not say which definition is trusted",
                f"write name@fingerprint ({SHORTEST_FINGERPRINT} characters or more) as `interlock status` prints it",
                server=server,
            )


def check_permissions(permissions: Permissions, at: KeyPath, report: Report, *, server: str) -> None:
    """Only permissions that there are can be approved, denied or required."""
    for key in ("approve", "deny", "require"):
        for number, name in enumerate(getattr(permissions, key)):
            try:
                expand([name])
            except Fault as fault:
                report.add((*at, key, number), f"`{name}` in `{key}` is no permission", fault.hint, server=server)


def check_timeouts(server: Server, at: KeyPath, report: Report, *, name: str) -> None:
    """One word on each timeout."""
    if server.timeout_s is not None and server.timeouts.tool_s is not None:
        report.add(
            (*at, "timeout_s"), "`timeout_s` and `timeouts.tool_s` mean the same", "keep one of them", server=name
        )


def _wrong(rules: Validation) -> Iterator[tuple[KeyPath, str, str]]:
    for key, values, why_bad, hint in (
        ("ignore", rules.ignore, _why_bad_rule, "a refusal names its rule, like shell.pipe"),
        ("networks", rules.networks, _why_bad_network, 'write it like "10.1.0.0/16"'),
        ("hosts", rules.hosts or (), _why_bad_host, 'write "example.com", or "*.example.com" for names below it'),
        ("local_names", rules.local_names, _why_bad_host, 'write "printer.lan"'),
        ("roots", rules.roots, _why_bad_root, "write the folder in full, like /srv/data"),
        (
            "dialect",
            (rules.dialect,) if rules.dialect is not None else (),
            _why_bad_dialect,
            "name one that sqlglot reads",
        ),
    ):
        yield from _each(key, values, why_bad, hint)
    for argument, paths in rules.arguments.items():
        for number, path in enumerate(paths):
            if not path or path.startswith(".") or path.endswith(".") or ".." in path:
                yield (
                    ("arguments", argument, number),
                    f"`{path}` is no argument",
                    "write its name, or steps.*.cmd inside a list",
                )
    if "paths" in rules.use and not rules.roots:
        yield ("use",), "`paths` needs `roots`: the folders that paths must lie in", 'add roots = ["/srv/data"]'
    if rules.level == "unrestricted" and "code_safety" in rules.use:
        yield ("level",), "`unrestricted` checks nothing", "leave out `code_safety`, or choose another level"
    unseen = [kind_ for kind_ in rules.arguments if not _is_looked_at(kind_, rules)]
    for argument in unseen if rules.use else ():
        yield ("arguments", argument), f"no validator of this tool looks at a {argument}", "add one to `use`"


def _each(
    key: str, values: tuple[str, ...], why_bad: Callable[[str], str | None], hint: str
) -> Iterator[tuple[KeyPath, str, str]]:
    for number, value in enumerate(values):
        if why := why_bad(value):
            yield (key, number), f"`{value}` in `{key}` {why}", hint


def _is_looked_at(argument: ArgumentKind, rules: Validation) -> bool:
    return "none" in rules.use or any(argument in KINDS[name] for name in rules.use if name != "none")


def _why_bad_rule(rule: str) -> str | None:
    if rule == f"address.{METADATA}":
        return "cannot be switched off: a metadata service hands out the machine's credentials"
    return None if _RULE.fullmatch(rule) else "is not the name of a rule"


def _why_bad_network(network: str) -> str | None:
    try:
        ipaddress.ip_network(network)
    except ValueError as why:
        return f"is no network: {why}"
    return None


def _why_bad_host(host: str) -> str | None:
    return None if _HOST.fullmatch(host) else "is no host name"


def _why_bad_root(root: str) -> str | None:
    absolute = PurePosixPath(root).is_absolute() or PureWindowsPath(root).is_absolute()
    return None if absolute and "\0" not in root else "is not a folder written in full"


def _why_bad_dialect(dialect: str) -> str | None:
    return None if dialect in _DIALECTS else f"is none of {', '.join(_DIALECTS)}"


_TRUST = re.compile(rf".+@[0-9a-f]{{{SHORTEST_FINGERPRINT},64}}", re.DOTALL)
_RULE = re.compile(r"[a-z]+\.[a-z_]+")
_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")
_DIALECTS = ("postgres", "mysql", "sqlite", "tsql", "bigquery", "snowflake", "redshift", "duckdb", "oracle")
