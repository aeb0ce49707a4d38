"""Reads the settings of single tools, and checks at start what would otherwise fail at the first call."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath

from interlock.judge.addresses import METADATA
from interlock.judge.arguments import KINDS
from interlock.judge.regexes import RegexError, compile_regex
from interlock.protocols.mgp.permissions import expand
from interlock.protocols.patterns import PatternError, compile_pattern
from interlock.wire.errors import Fault

from .problems import KeyPath, Section
from .settings import (
    MaskSettings,
    PermissionSettings,
    SandboxSettings,
    ServerSettings,
    ToolTimeoutSettings,
    ValidationSettings,
)
from .shape import build, read_sections

_TOOL_HINT = "name a tool, or write `**`"
_MASK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
MIN_FINGERPRINT_CHARS = 16
"""With fewer hexadecimal characters, somebody could construct another definition that matches."""


def read_validators(tables: object, section: Section) -> dict[str, ValidationSettings]:
    """Read the validators of each tool."""
    return read_sections(tables, section, _why_bad_tool, _read_validation, hint=_TOOL_HINT)


def read_timeouts(tables: object, section: Section) -> dict[str, ToolTimeoutSettings]:
    def read(table: Mapping[str, object], _tool: str, section: Section) -> ToolTimeoutSettings:
        return build(ToolTimeoutSettings, table, section)

    return read_sections(tables, section, _why_bad_tool, read, hint=_TOOL_HINT)


def _read_validation(table: Mapping[str, object], _tool: str, section: Section) -> ValidationSettings:
    rules = build(ValidationSettings, table, section)
    for key, message, hint in _wrong(rules):
        section.add(key, message, hint)
    return rules


def _why_bad_tool(tool: str) -> str | None:
    try:
        compile_pattern(tool)
    except PatternError as why:
        return f"is not a tool name or pattern: {why}"
    return None


def check_trust(trust: tuple[str, ...], section: Section) -> None:
    """Each entry must name one definition. A name alone is not enough."""
    for number, entry in enumerate(trust):
        if not _TRUST.fullmatch(entry):
            section.add(
                (number,),
                f"`{entry}` does not name a definition to trust",
                f"write name@fingerprint ({MIN_FINGERPRINT_CHARS} characters or more) as `interlock status` prints it",
            )


def check_permissions(permissions: PermissionSettings, section: Section) -> None:
    """Every permission named here must exist."""
    for key in ("approve", "deny", "require"):
        for number, name in enumerate(getattr(permissions, key)):
            try:
                expand([name])
            except Fault as fault:
                section.add((key, number), f"`{name}` in `{key}` is not a permission", fault.hint)


def wrong_sandbox(server: ServerSettings) -> Iterator[tuple[str, str, str]]:
    """The settings of a contained server: key, message and hint of each mistake."""
    sandbox = server.sandbox
    if server.isolation == "none":
        if sandbox != SandboxSettings():
            yield "sandbox", '`sandbox` has no effect without `isolation = "sandbox"`', 'add isolation = "sandbox"'
        return
    if server.url is not None:
        yield "isolation", "only a program can run contained, not a `url`", "remove `isolation`"
    for key, paths in (("read", sandbox.read), ("write", sandbox.write)):
        for path in paths:
            if "\0" in path or not PurePosixPath(path.removeprefix("~")).is_absolute():
                yield "sandbox", f"`{path}` in `{key}` is not an absolute path", "write /folder or ~/folder"
    for host in sandbox.hosts:
        if not _HOST_AND_PORT.fullmatch(host):
            yield "sandbox", f"`{host}` in `hosts` is not a host", 'write "example.com" or "example.com:8443"'


def check_mask(mask: MaskSettings, section: Section) -> None:
    """Every expression must run in linear time, and have a name that can be shown in its place."""
    for name, text in mask.own.items():
        if not _MASK_NAME.fullmatch(name):
            section.add(("own", name), f"`{name}` cannot be shown in place of a match", "use a word")
            continue
        try:
            compile_regex(text)
        except RegexError as why:
            section.add(("own", name), f"`{name}`: {why}", "write it for RE2")


def _wrong(rules: ValidationSettings) -> Iterator[tuple[KeyPath, str, str]]:
    for key, values, why_bad, hint in (
        ("ignore", rules.ignore, _why_bad_rule, "write the rule as a refusal names it, such as shell.pipe"),
        ("networks", rules.networks, _why_bad_network, 'write it as "10.1.0.0/16"'),
        ("hosts", rules.hosts or (), _why_bad_host, 'write "example.com", or "*.example.com" for names below it'),
        ("local_names", rules.local_names, _why_bad_host, 'write "printer.lan"'),
        ("roots", rules.roots, _why_bad_root, "write an absolute path, such as /srv/data"),
        ("dialect", (rules.dialect,) if rules.dialect is not None else (), _why_bad_dialect, "choose one of them"),
    ):
        for number, value in enumerate(values):
            if why := why_bad(value):
                yield (key, number), f"`{value}` in `{key}` {why}", hint
    for argument, paths in rules.arguments.items():
        for number, path in enumerate(paths):
            if not path or path.startswith(".") or path.endswith(".") or ".." in path:
                hint = "write its name, or steps.*.cmd inside a list"
                yield ("arguments", argument, number), f"`{path}` is not an argument", hint
    if "paths" in rules.use and not rules.roots:
        yield ("use",), "`paths` needs `roots`, the folders that paths must be in", 'add roots = ["/srv/data"]'
    if rules.level == "unrestricted" and "code_safety" in rules.use:
        yield ("level",), "`unrestricted` checks nothing", "remove `code_safety`, or choose another level"
    for argument in rules.arguments if rules.use and "none" not in rules.use else ():
        if not any(argument in KINDS[name] for name in rules.use if name != "none"):
            yield ("arguments", argument), f"no validator of this tool checks a {argument}", "add one to `use`"


def _why_bad_rule(rule: str) -> str | None:
    if rule == f"address.{METADATA}":
        return "cannot be turned off, because a metadata service gives out the machine's credentials"
    return None if _RULE.fullmatch(rule) else "is not a rule name"


def _why_bad_network(network: str) -> str | None:
    try:
        ipaddress.ip_network(network)
    except ValueError as why:
        return f"is not a network: {why}"
    return None


def _why_bad_host(host: str) -> str | None:
    return None if _HOST.fullmatch(host) else "is not a host name"


def _why_bad_root(root: str) -> str | None:
    absolute = PurePosixPath(root).is_absolute() or PureWindowsPath(root).is_absolute()
    return None if absolute and "\0" not in root else "is not an absolute path"


def _why_bad_dialect(dialect: str) -> str | None:
    return None if dialect in _DIALECTS else f"is not one of {', '.join(_DIALECTS)}"


_TRUST = re.compile(rf".+@[0-9a-f]{{{MIN_FINGERPRINT_CHARS},64}}", re.DOTALL)
_RULE = re.compile(r"[a-z]+\.[a-z_]+")
_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")
_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
_DIALECTS = ("postgres", "mysql", "sqlite", "tsql", "bigquery", "snowflake", "redshift", "duckdb", "oracle")
