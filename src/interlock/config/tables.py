"""Reads the tables of `interlock.toml` into settings and checks what their types cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from .names import why_bad_agent, why_bad_id, why_bad_name
from .oauth import check_oauth
from .problems import KeyPath, Report
from .settings import Agent, Config, Hub, Profile, Server, ToolTimeouts, split_listen
from .shape import build, kind
from .validation import check_permissions, check_timeouts, check_trust, read_timeouts, read_validators

T = TypeVar("T")

MOST_ARGUMENTS = 256
MOST_COMMAND_CHARS = 32_768


def read_config(document: Mapping[str, object], report: Report) -> Config:
    """The configuration that `document` describes, as far as it can be read; the rest is in `report`."""
    rest = dict(document)
    servers = _named(rest.pop("servers", {}), "servers", why_bad_id, read_server, report)
    profiles = _named(rest.pop("profiles", {}), "profiles", why_bad_name, _read_profile, report)
    agents = _named(rest.pop("agents", {}), "agents", why_bad_agent, _read_agent, report)
    for name, agent in agents.items():
        if agent.profile is not None and agent.profile not in profiles:
            others = ", ".join(sorted(profiles)) or "none yet"
            report.add(
                ("agents", name, "profile"),
                f"there is no profile `{agent.profile}`",
                f"add [profiles.{agent.profile}] or name one that exists ({others})",
            )
    top = build(Config, rest, (), report)
    _check_hub(top.hub, profiles, report)
    return msgspec.structs.replace(top, servers=servers, profiles=profiles, agents=agents)


def read_server(table: Mapping[str, object], name: str, at: KeyPath, report: Report) -> Server:
    """One server's table. Whatever is wrong with it is reported under its name."""
    report.places[name] = at
    rest = dict(table)
    command = _command(rest, name, at, report)
    validators = read_validators(rest.pop("validators", {}), (*at, "validators"), report, server=name)
    tools = rest.get("tools")
    timeouts: dict[str, ToolTimeouts] = {}
    if isinstance(tools, Mapping) and "timeouts" in tools:
        timeouts = read_timeouts(tools["timeouts"], (*at, "tools", "timeouts"), report, server=name)
        rest["tools"] = {key: value for key, value in tools.items() if key != "timeouts"}
    settings = build(Server, rest, at, report, server=name)
    server = msgspec.structs.replace(
        settings,
        command=command,
        validators=validators,
        tools=msgspec.structs.replace(settings.tools, timeouts=timeouts),
        source=str(report.file),
    )
    check_trust(server.tools.trust, (*at, "tools", "trust"), report, server=name)
    check_permissions(server.permissions, (*at, "permissions"), report, server=name)
    check_timeouts(server, at, report, name=name)
    check_server(server, name, at, report, has_command="command" in table)
    return server


def check_server(server: Server, name: str, at: KeyPath, report: Report, *, has_command: bool) -> None:
    """What must hold for any server, whoever wrote it."""

    def wrong(key: str, message: str, hint: str) -> None:
        report.add((*at, key) if key else at, message, hint, server=name)

    if has_command and server.url is not None:
        wrong("url", f"server `{name}` has both `command` and `url`", "keep the one that is meant")
    elif not has_command and server.url is None:
        wrong("", f"server `{name}` has neither `command` nor `url`", 'add command = ["program", "argument"] or a url')
    if server.url is not None and (why := why_bad_url(server.url)):
        wrong("url", f"the url of `{name}` {why}", "write it as https://host/path; credentials belong in `headers`")
    if server.url is None and server.headers:
        wrong("headers", f"server `{name}` is a program, and has `headers`", "use `env` to hand it a value")
    if server.url is not None and (server.env or server.cwd or server.inherit_env):
        wrong("env", f"server `{name}` is an address, and has `env`, `cwd` or `inherit_env`", "use `headers` instead")
    for key, variables in (("env", server.env), ("inherit_env", server.inherit_env)):
        for variable in variables:
            if not _VARIABLE.fullmatch(variable):
                wrong(key, f"`{variable}` cannot be the name of a variable", "use letters, digits and `_`")
    for header, value in server.headers.items():
        if not _TOKEN.fullmatch(header) or not is_one_line(value):
            wrong("headers", f"the header `{header}` of `{name}` is malformed", "one line, a plain name")
    if len(server.command) > MOST_ARGUMENTS or sum(map(len, server.command)) > MOST_COMMAND_CHARS:
        wrong("args", f"the command of `{name}` is too long", f"at most {MOST_ARGUMENTS} words")
    if any("\0" in text for text in (*server.command, *server.env.values(), server.cwd or "")):
        wrong("", f"server `{name}` has a NUL character in a value", "remove it")


def is_one_line(value: str) -> bool:
    return not any(char in value for char in "\r\n\0")


def why_bad_url(url: str) -> str | None:
    """What keeps `url` from being a server's address. A variable may stand for any part of it."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        return "cannot be read"
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        return "holds a space or control character"
    if url.startswith("${"):
        return None
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not parts.netloc:
        return "names no host"
    if "@" in parts.netloc:
        return "holds credentials"
    return None


def _command(rest: dict[str, object], name: str, at: KeyPath, report: Report) -> tuple[str, ...]:
    """`command` (list, or a program's name) and `args` as one list; both are taken out of `rest`."""
    command, args = rest.pop("command", []), rest.pop("args", [])
    if isinstance(command, str):
        if " " in command.strip() and not Path(command).exists():
            report.add(
                (*at, "command"),
                f"`command` of `{name}` is one program's name; a shell never reads it",
                "write command = [" + ", ".join(f'"{word}"' for word in command.split()) + "]",
                server=name,
            )
        command = [command]
    words: list[str] = []
    for key, value in (("command", command), ("args", args)):
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            report.add(
                (*at, key),
                f"`{key}` of `{name}` must be a list of texts, not {_not_texts(value)}",
                server=name,
                hint=f'write {key} = ["…", "…"]',
            )
        else:
            words += value
    if words and not words[0].strip():
        report.add((*at, "command"), f"`command` of `{name}` is empty", "name the program to run", server=name)
    return tuple(words)


def _not_texts(value: object) -> str:
    others = [word for word in value if not isinstance(word, str)] if isinstance(value, list) else []
    return f"one with {kind(others[0])} in it" if others else kind(value)


def _check_hub(hub: Hub, profiles: Mapping[str, Profile], report: Report) -> None:
    try:
        split_listen(hub.listen)
    except ValueError as error:
        report.add(("hub", "listen"), f"`listen` cannot be read: {error}", 'write listen = "127.0.0.1:7420"')
        return
    if hub.anonymous and not hub.on_loopback:
        report.add(
            ("hub", "anonymous"),
            f"anyone who reaches {hub.listen} could call every tool without a key",
            "remove `anonymous`, and make a key with `interlock keys create NAME`; or listen on 127.0.0.1",
        )
    if hub.webhook.url is not None and (why := why_bad_url(hub.webhook.url)):
        report.add(("hub", "webhook", "url"), f"the webhook's url {why}", "write it as https://host/path")
    if hub.embeddings.url is not None:
        if why := why_bad_url(hub.embeddings.url):
            report.add(("hub", "embeddings", "url"), f"the endpoint's url {why}", "write it as https://host/v1")
        if hub.embeddings.path is not None:
            report.add(
                ("hub", "embeddings", "path"),
                "vectors come from one place, and both `url` and `path` are set",
                "leave one of them out",
            )
    if hub.tracing.endpoint is not None and (why := why_bad_url(hub.tracing.endpoint)):
        report.add(("hub", "tracing", "endpoint"), f"the endpoint {why}", "write it as http://127.0.0.1:4318")
    for number, origin in enumerate(hub.allowed_origins):
        if not _ORIGIN.fullmatch(origin):
            report.add(
                ("hub", "allowed_origins", number),
                f"`{origin}` is not an origin",
                'write scheme and host alone, like "https://app.example.com"',
            )
    check_oauth(hub, profiles, report)


def _read_profile(table: Mapping[str, object], name: str, at: KeyPath, report: Report) -> Profile:
    read = build(Profile, table, at, report)
    _check_budget(read, at, report)
    return read


def _read_agent(table: Mapping[str, object], name: str, at: KeyPath, report: Report) -> Agent:
    read = build(Agent, table, at, report)
    _check_budget(read, at, report)
    return read


def _named(
    tables: object,
    section: str,
    why_bad: Callable[[str], str | None],
    read: Callable[[Mapping[str, object], str, KeyPath, Report], T],
    report: Report,
) -> dict[str, T]:
    """Each `[section.NAME]` read on its own."""
    if not isinstance(tables, Mapping):
        report.add((section,), f"`{section}` must be tables, not {kind(tables)}", f"write [{section}.NAME]")
        return {}
    found: dict[str, T] = {}
    for name, table in tables.items():
        at = (section, name)
        if why := why_bad(name):
            report.add(at, f"the name `{name}` in [{section}] {why}", "choose another name")
        elif not isinstance(table, Mapping):
            report.add(at, f"[{section}.{name}] must be a table, not {kind(table)}", f"write [{section}.{name}]")
        else:
            found[name] = read(table, name, at, report)
    return found


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")


def _check_budget(of: Profile | Agent, at: KeyPath, report: Report) -> None:
    """A budget is stated once, and its parts fit into it."""
    said, at = of.tool_context_budget, (*at, "tool_context_budget")
    named = (said.pinned_reserve, said.discovery_reserve, said.cache_limit)
    if said.max_tokens is None:
        if any(part is not None for part in named):
            report.add(at, "the parts of a budget need its whole", "write max_tokens, too")
    elif of.budget is not None:
        report.add(at, "both `budget` and `tool_context_budget` say how much", "leave one of them out")
    elif said.parts is None:
        if any(part is not None for part in named):
            hint = "write all of pinned_reserve, discovery_reserve and cache_limit, or none of them"
            report.add(at, "some parts of the budget are missing", hint)
    elif sum(said.parts) > said.max_tokens:
        hint = f"raise max_tokens to {sum(said.parts)}, or lower one of them"
        report.add(at, f"the parts of the budget add up to {sum(said.parts)}, over {said.max_tokens}", hint)
