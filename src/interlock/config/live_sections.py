"""Reads `[live]` and `[hooks]`: rules for events, quiet hours, and webhooks with their secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.protocols.patterns import FEATURE_SETS, NAMES, PatternError, compile_pattern

from .live_settings import HookSettings, LiveRuleSettings, LiveSettings
from .names import why_bad_agent, why_bad_name
from .problems import KeyPath, ProblemReport, Section
from .shape import build, kind, read_sections

if TYPE_CHECKING:
    from .settings import Config

MIN_SECRET_BYTES: Final = 24
"""Standard Webhooks: a secret has 24 to 64 bytes."""


def read_live(table: object, section: Section) -> LiveSettings:
    """Read the rules and the rest."""
    if not isinstance(table, Mapping):
        section.add((), f"`live` must be a table, not {kind(table)}", "write [live.rules.NAME]")
        return LiveSettings()
    rest = dict(table)
    rules = read_sections(rest.pop("rules", {}), section.inside("rules"), why_bad_name, _read_rule)
    return msgspec.structs.replace(build(LiveSettings, rest, section), rules=rules)


def read_hook(table: Mapping[str, object], name: str, section: Section) -> HookSettings:
    """Read one webhook."""
    hook = build(HookSettings, table, section)
    if why := why_bad_agent(hook.agent) if hook.agent else "is missing":
        section.add("agent", f"`agent` of the webhook `{name}` {why}", "name the agent that gets its events")
    if not hook.secret_env:
        message = f"the webhook `{name}` names no secret"
        section.add("secret_env", message, 'add secret_env = "NAME_OF_A_VARIABLE"')
    return hook


def why_weak_secret(secret: str) -> str:
    """Why a webhook's secret cannot be used, to follow its name in a sentence; empty for a good one."""
    if not secret:
        return "is not set"
    try:
        key = base64.b64decode(secret.removeprefix("whsec_") + "==", validate=False)
    except (binascii.Error, ValueError):
        return "is not base64"
    return "" if len(key) >= MIN_SECRET_BYTES else f"has less than {MIN_SECRET_BYTES} bytes"


def check_webhook_secrets(config: Config, environ: Mapping[str, str], report: ProblemReport) -> None:
    """Report each webhook whose secret is missing or weak. The hub runs without it, and the webhook does nothing."""
    rows: list[tuple[KeyPath, str, str]] = [
        (("hooks", name, "secret_env"), f"the webhook `{name}` takes no message", hook.secret_env)
        for name, hook in config.hooks.items()
        if hook.secret_env
    ]
    if config.live.webhook.url is not None:
        name = config.live.webhook.secret_env
        rows.append((("live", "webhook", "url"), "[live.webhook] is told of no wake", name))
    for name, channel in config.channels.items():
        if channel.webhook.url is not None:
            effect = f"[channels.{name}.webhook] gets no answer"
            rows.append((("channels", name, "webhook", "url"), effect, channel.webhook.secret_env))
    for at, effect, variable in rows:
        if why := why_weak_secret(environ.get(variable, "")):
            hint = f'export {variable}="$(openssl rand -base64 32)" before `interlock up`'
            report.add(at, f"{effect}: its secret in ${variable} {why}", hint, fatal=False)


def _read_rule(table: Mapping[str, object], name: str, section: Section) -> LiveRuleSettings:
    rule = build(LiveRuleSettings, table, section)
    for setting in ("agents", "servers", "channels", "tags_any", "tags_all", "tags_none", "feature_sets"):
        for pattern in getattr(rule, setting) or ():
            try:
                compile_pattern(pattern, FEATURE_SETS if setting == "feature_sets" else NAMES)
            except PatternError as why:
                section.add(setting, f"`{pattern}` in [live.rules.{name}] is no pattern: {why}", "correct it")
    return rule
