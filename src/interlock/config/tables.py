"""Reads the tables of `interlock.toml` into settings, and checks the rules that their types cannot express."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from .channel_tables import check_channels, read_channel
from .listen import split_listen
from .live_tables import read_hook, read_live
from .model_tables import check_host, read_model
from .names import why_bad_agent, why_bad_id, why_bad_name, why_bad_url
from .oauth import check_oauth
from .problems import KeyPath, Report
from .room_tables import read_rooms
from .settings import Agent, Config, Hub, Profile, Server, ToolTimeouts
from .shape import build, kind
from .validation import check_mask, check_permissions, check_trust, read_timeouts, read_validators, wrong_sandbox

T = TypeVar("T")
B = TypeVar("B", Profile, Agent)

MAX_ARGUMENTS = 256
MAX_COMMAND_CHARS = 32_768


def read_config(document: Mapping[str, object], report: Report) -> Config:
    """Read the configuration from `document`. Settings that cannot be read are in `report`."""
    rest = dict(document)
    servers = _named(rest.pop("servers", {}), "servers", why_bad_id, read_server, report)
    profiles = _named(rest.pop("profiles", {}), "profiles", why_bad_name, partial(_read_budgeted, Profile), report)
    agents = _named(rest.pop("agents", {}), "agents", why_bad_agent, partial(_read_budgeted, Agent), report)
    for name, agent in agents.items():
        if agent.profile is not None and agent.profile not in profiles:
            others = ", ".join(sorted(profiles)) or "none yet"
            report.add(
                ("agents", name, "profile"),
                f"there is no profile `{agent.profile}`",
                f"add [profiles.{agent.profile}] or name one that exists ({others})",
            )
    rooms = read_rooms(rest.pop("rooms", {}), report)
    hooks = _named(rest.pop("hooks", {}), "hooks", why_bad_name, read_hook, report)
    live = read_live(rest.pop("live", {}), report)
    models = _named(rest.pop("models", {}), "models", why_bad_name, read_model, report)
    channels = _named(rest.pop("channels", {}), "channels", why_bad_name, read_channel, report)
    top = build(Config, rest, (), report)
    _check_hub(top.hub, profiles, report)
    check_host(top.host, models, report)
    return msgspec.structs.replace(
        top,
        servers=servers,
        profiles=profiles,
        agents=agents,
        rooms=rooms,
        live=live,
        hooks=hooks,
        models=models,
        channels=channels,
    )


def read_server(table: Mapping[str, object], name: str, at: KeyPath, report: Report) -> Server:
    """Read one server's table. Its problems are reported under its name."""
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
    check_mask(server.mask, (*at, "mask"), report, server=name)
    check_channels(server.live.observes_channels, (*at, "live", "observes_channels"), report, server=name)
    if server.timeout_s is not None and server.timeouts.tool_s is not None:
        message = "`timeout_s` and `timeouts.tool_s` are the same setting"
        report.add((*at, "timeout_s"), message, "remove one of them", server=name)
    check_server(server, name, at, report, has_command="command" in table)
    return server


def check_server(server: Server, name: str, at: KeyPath, report: Report, *, has_command: bool) -> None:
    """The rules for every server, of `interlock.toml` or of an imported file."""

    def wrong(key: str, message: str, hint: str) -> None:
        report.add((*at, key) if key else at, message, hint, server=name)

    if has_command and server.url is not None:
        wrong("url", f"server `{name}` has both `command` and `url`", "remove one of them")
    elif not has_command and server.url is None:
        wrong("", f"server `{name}` has neither `command` nor `url`", 'add command = ["program", "argument"] or a url')
    if server.url is not None and (why := why_bad_url(server.url)):
        wrong("url", f"the url of `{name}` {why}", "write it as https://host/path; credentials belong in `headers`")
    if server.url is None and server.headers:
        wrong("headers", f"server `{name}` runs a program, so `headers` have no use", "pass the value in `env`")
    if server.url is not None and (server.env or server.cwd or server.inherit_env):
        message = f"server `{name}` has a `url`, so `env`, `cwd` and `inherit_env` have no use"
        wrong("env", message, "pass the value in `headers`")
    for key, variables in (("env", server.env), ("inherit_env", server.inherit_env)):
        for variable in variables:
            if not _VARIABLE.fullmatch(variable):
                wrong(key, f"`{variable}` is not a valid variable name", "use letters, digits and `_`")
    for header, value in server.headers.items():
        if not _TOKEN.fullmatch(header) or not is_one_line(value):
            wrong("headers", f"the header `{header}` of `{name}` is malformed", "write a plain name and one line")
    if len(server.command) > MAX_ARGUMENTS or sum(map(len, server.command)) > MAX_COMMAND_CHARS:
        wrong("args", f"the command of `{name}` is too long", f"use at most {MAX_ARGUMENTS} words")
    for key, message, hint in wrong_sandbox(server):
        wrong(key, message, hint)
    if any("\0" in text for text in (*server.command, *server.env.values(), server.cwd or "")):
        wrong("", f"server `{name}` has a NUL character in a value", "remove it")


def is_one_line(value: str) -> bool:
    return not any(char in value for char in "\r\n\0")


def _command(rest: dict[str, object], name: str, at: KeyPath, report: Report) -> tuple[str, ...]:
    """Remove `command` (a list, or a program's name) and `args` from `rest`, and join them."""
    command, args = rest.pop("command", []), rest.pop("args", [])
    if isinstance(command, str):
        if " " in command.strip() and not Path(command).exists():
            report.add(
                (*at, "command"),
                f"`command` of `{name}` must be one program's name, because no shell splits it",
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
        report.add(("hub", "listen"), f"`listen` is not valid: {error}", 'write listen = "127.0.0.1:7420"')
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
                "[hub.embeddings] has both `url` and `path`",
                "remove one of them",
            )
    if hub.tracing.endpoint is not None and (why := why_bad_url(hub.tracing.endpoint)):
        report.add(("hub", "tracing", "endpoint"), f"the endpoint {why}", "write it as http://127.0.0.1:4318")
    for number, origin in enumerate(hub.allowed_origins):
        if not _ORIGIN.fullmatch(origin):
            report.add(
                ("hub", "allowed_origins", number),
                f"`{origin}` is not an origin",
                'write only scheme and host, such as "https://app.example.com"',
            )
    check_oauth(hub, profiles, report)


def _read_budgeted(cls: type[B], table: Mapping[str, object], name: str, at: KeyPath, report: Report) -> B:
    read = build(cls, table, at, report)
    _check_budget(read, (*at, "tool_context_budget"), report)
    return read


def _named(
    tables: object,
    section: str,
    why_bad: Callable[[str], str | None],
    read: Callable[[Mapping[str, object], str, KeyPath, Report], T],
    report: Report,
) -> dict[str, T]:
    """Read each `[section.NAME]`."""
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
    """A budget is set once, with all of its parts or none, and they fit into it."""
    budget = of.tool_context_budget
    parts = (budget.pinned_reserve, budget.discovery_reserve, budget.cache_limit)
    total = sum(part or 0 for part in parts)
    if budget.max_tokens is None:
        if total:
            report.add(at, "the parts of a budget need `max_tokens`", "add max_tokens")
    elif of.budget is not None:
        report.add(at, "both `budget` and `tool_context_budget` are set", "remove one of them")
    elif total and None in parts:
        hint = "write all of pinned_reserve, discovery_reserve and cache_limit, or none of them"
        report.add(at, "some parts of the budget are missing", hint)
    elif total > budget.max_tokens:
        hint = f"raise max_tokens to {total}, or lower one of them"
        report.add(at, f"the parts of the budget add up to {total}, more than {budget.max_tokens}", hint)
