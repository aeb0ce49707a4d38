"""Reads the sections of `interlock.toml` into settings, and checks the rules that their types cannot express."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from .channel_sections import check_channels, read_channel
from .listen import split_listen
from .live_sections import read_hook, read_live
from .model_sections import check_host, read_model
from .names import why_bad_agent, why_bad_id, why_bad_name, why_bad_url
from .oauth import check_oauth
from .problems import ProblemReport, Section
from .room_sections import read_rooms
from .settings import AgentSettings, Config, HubSettings, ProfileSettings, ServerSettings, ToolTimeoutSettings
from .shape import T, build, kind, read_sections
from .validation import check_mask, check_permissions, check_trust, read_timeouts, read_validators, wrong_sandbox

B = TypeVar("B", ProfileSettings, AgentSettings)

MAX_ARGUMENTS = 256
MAX_COMMAND_CHARS = 32_768


def read_config(document: Mapping[str, object], report: ProblemReport) -> Config:
    """Read the configuration from `document`. Settings that cannot be read are in `report`."""
    rest = dict(document)
    top = Section(report)

    def named(section: str, why_bad: Callable[[str], str | None], read: Callable[..., T]) -> dict[str, T]:
        return read_sections(rest.pop(section, {}), top.inside(section), why_bad, read)

    servers = named("servers", why_bad_id, read_server)
    profiles = named("profiles", why_bad_name, partial(_read_budgeted, ProfileSettings))
    agents = named("agents", why_bad_agent, partial(_read_budgeted, AgentSettings))
    for name, agent in agents.items():
        if agent.profile is not None and agent.profile not in profiles:
            others = ", ".join(sorted(profiles)) or "none yet"
            hint = f"add [profiles.{agent.profile}] or name one that exists ({others})"
            top.add(("agents", name, "profile"), f"there is no profile `{agent.profile}`", hint)
    rooms = read_rooms(rest.pop("rooms", {}), top.inside("rooms"))
    hooks = named("hooks", why_bad_name, read_hook)
    live = read_live(rest.pop("live", {}), top.inside("live"))
    models = named("models", why_bad_name, read_model)
    channels = named("channels", why_bad_name, read_channel)
    config = build(Config, rest, top)
    _check_hub(config.hub, profiles, top.inside("hub"))
    check_host(config.host, models, top.inside("host"))
    return msgspec.structs.replace(
        config,
        servers=servers,
        profiles=profiles,
        agents=agents,
        rooms=rooms,
        live=live,
        hooks=hooks,
        models=models,
        channels=channels,
    )


def read_server(table: Mapping[str, object], name: str, section: Section) -> ServerSettings:
    """Read one server's section. Its problems are reported under its name."""
    section = section.report.sections[name] = section._replace(server=name)
    rest = dict(table)
    command = _command(rest, name, section)
    validators = read_validators(rest.pop("validators", {}), section.inside("validators"))
    tools = rest.get("tools")
    timeouts: dict[str, ToolTimeoutSettings] = {}
    if isinstance(tools, Mapping) and "timeouts" in tools:
        timeouts = read_timeouts(tools["timeouts"], section.inside("tools", "timeouts"))
        rest["tools"] = {key: value for key, value in tools.items() if key != "timeouts"}
    settings = build(ServerSettings, rest, section)
    server = msgspec.structs.replace(
        settings,
        command=command,
        validators=validators,
        tools=msgspec.structs.replace(settings.tools, timeouts=timeouts),
        source=str(section.report.file),
    )
    check_trust(server.tools.trust, section.inside("tools", "trust"))
    check_permissions(server.permissions, section.inside("permissions"))
    check_mask(server.mask, section.inside("mask"))
    check_channels(server.live.observes_channels, "observes_channels", section.inside("live"))
    if server.timeout_s is not None and server.timeouts.tool_s is not None:
        section.add("timeout_s", "`timeout_s` and `timeouts.tool_s` are the same setting", "remove one of them")
    check_server(server, name, section, has_command="command" in table)
    return server


def check_server(server: ServerSettings, name: str, section: Section, *, has_command: bool) -> None:
    """The rules for every server, of `interlock.toml` or of an imported file."""
    if has_command and server.url is not None:
        section.add("url", f"server `{name}` has both `command` and `url`", "remove one of them")
    elif not has_command and server.url is None:
        section.add(
            (), f"server `{name}` has neither `command` nor `url`", 'add command = ["program", "argument"] or a url'
        )
    if server.url is not None and (why := why_bad_url(server.url)):
        section.add(
            "url", f"the url of `{name}` {why}", "write it as https://host/path; credentials belong in `headers`"
        )
    if server.url is None and server.headers:
        section.add("headers", f"server `{name}` runs a program, so `headers` have no use", "pass the value in `env`")
    if server.url is not None and (server.env or server.cwd or server.inherit_env):
        message = f"server `{name}` has a `url`, so `env`, `cwd` and `inherit_env` have no use"
        section.add("env", message, "pass the value in `headers`")
    for key, variables in (("env", server.env), ("inherit_env", server.inherit_env)):
        for variable in variables:
            if not _VARIABLE.fullmatch(variable):
                section.add(key, f"`{variable}` is not a valid variable name", "use letters, digits and `_`")
    for header, value in server.headers.items():
        if not _TOKEN.fullmatch(header) or not is_one_line(value):
            section.add("headers", f"the header `{header}` of `{name}` is malformed", "write a plain name and one line")
    if len(server.command) > MAX_ARGUMENTS or sum(map(len, server.command)) > MAX_COMMAND_CHARS:
        section.add("args", f"the command of `{name}` is too long", f"use at most {MAX_ARGUMENTS} words")
    for key, message, hint in wrong_sandbox(server):
        section.add(key, message, hint)
    if any("\0" in text for text in (*server.command, *server.env.values(), server.cwd or "")):
        section.add((), f"server `{name}` has a NUL character in a value", "remove it")


def is_one_line(value: str) -> bool:
    return not any(char in value for char in "\r\n\0")


def _command(rest: dict[str, object], name: str, section: Section) -> tuple[str, ...]:
    """Remove `command` (a list, or a program's name) and `args` from `rest`, and join them."""
    command, args = rest.pop("command", []), rest.pop("args", [])
    if isinstance(command, str):
        if " " in command.strip() and not Path(command).exists():
            message = f"`command` of `{name}` must be one program's name, because no shell splits it"
            hint = "write command = [" + ", ".join(f'"{word}"' for word in command.split()) + "]"
            section.add("command", message, hint)
        command = [command]
    words: list[str] = []
    for key, value in (("command", command), ("args", args)):
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            message = f"`{key}` of `{name}` must be a list of texts, not {_not_texts(value)}"
            section.add(key, message, f'write {key} = ["…", "…"]')
        else:
            words += value
    if words and not words[0].strip():
        section.add("command", f"`command` of `{name}` is empty", "name the program to run")
    return tuple(words)


def _not_texts(value: object) -> str:
    others = [word for word in value if not isinstance(word, str)] if isinstance(value, list) else []
    return f"one with {kind(others[0])} in it" if others else kind(value)


def _check_hub(hub: HubSettings, profiles: Mapping[str, ProfileSettings], section: Section) -> None:
    try:
        split_listen(hub.listen)
    except ValueError as error:
        section.add("listen", f"`listen` is not valid: {error}", 'write listen = "127.0.0.1:7420"')
        return
    if hub.anonymous and not hub.on_loopback:
        message = f"anyone who reaches {hub.listen} could call every tool without a key"
        hint = "remove `anonymous`, and make a key with `interlock keys create NAME`; or listen on 127.0.0.1"
        section.add("anonymous", message, hint)
    for at, url, title, example in (
        (("webhook", "url"), hub.webhook.url, "webhook's url", "https://host/path"),
        (("embeddings", "url"), hub.embeddings.url, "endpoint's url", "https://host/v1"),
        (("tracing", "endpoint"), hub.tracing.endpoint, "endpoint", "http://127.0.0.1:4318"),
    ):
        if url is not None and (why := why_bad_url(url)):
            section.add(at, f"the {title} {why}", f"write it as {example}")
    if hub.embeddings.url is not None and hub.embeddings.path is not None:
        section.add(("embeddings", "path"), "[hub.embeddings] has both `url` and `path`", "remove one of them")
    for number, origin in enumerate(hub.allowed_origins):
        if not _ORIGIN.fullmatch(origin):
            hint = 'write only scheme and host, such as "https://app.example.com"'
            section.add(("allowed_origins", number), f"`{origin}` is not an origin", hint)
    check_oauth(hub, profiles, section.inside("oauth"))


def _read_budgeted(cls: type[B], table: Mapping[str, object], _name: str, section: Section) -> B:
    read = build(cls, table, section)
    _check_budget(read, section.inside("tool_context_budget"))
    return read


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")


def _check_budget(of: ProfileSettings | AgentSettings, section: Section) -> None:
    """A budget is set once, with all of its parts or none, and they fit into it."""
    budget = of.tool_context_budget
    parts = (budget.pinned_reserve, budget.discovery_reserve, budget.cache_limit)
    total = sum(part or 0 for part in parts)
    if budget.max_tokens is None:
        if total:
            section.add((), "the parts of a budget need `max_tokens`", "add max_tokens")
    elif of.budget is not None:
        section.add((), "both `budget` and `tool_context_budget` are set", "remove one of them")
    elif total and None in parts:
        hint = "write all of pinned_reserve, discovery_reserve and cache_limit, or none of them"
        section.add((), "some parts of the budget are missing", hint)
    elif total > budget.max_tokens:
        hint = f"raise max_tokens to {total}, or lower one of them"
        section.add((), f"the parts of the budget add up to {total}, more than {budget.max_tokens}", hint)
