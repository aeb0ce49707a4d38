"""Reads `[channels]`."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.protocols.mcpl.channels import split_hub_channel_id
from interlock.protocols.patterns import PatternError, compile_pattern

from .channel_settings import ChannelSettings
from .names import why_bad_agent, why_bad_url
from .problems import Section
from .shape import build


def read_channel(table: Mapping[str, object], name: str, section: Section) -> ChannelSettings:
    """Read one `[channels.NAME]`."""
    channel = build(ChannelSettings, table, section)
    if why := why_bad_agent(channel.agent) if channel.agent else "is missing":
        section.add("agent", f"`agent` of [channels.{name}] {why}", "name the agent whose rights it has")
    check_channels(channel.incoming, "incoming", section)
    if channel.publish is not None:
        try:
            split_hub_channel_id(channel.publish)
        except ValueError as why_bad:
            section.add("publish", f"`publish` of [channels.{name}]: {why_bad}", "write server/channel")
    if channel.webhook.url is not None and (why := why_bad_url(channel.webhook.url)):
        message = f"`url` of [channels.{name}.webhook] {why}"
        section.add(("webhook", "url"), message, "write it as https://host/path")
    return channel


def check_channels(patterns: tuple[str, ...], key: str, section: Section) -> None:
    """Report each text that is no pattern over `server/channel`."""
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except PatternError as why:
            section.add(key, f"{pattern!r} is no pattern: {why}", "write server/channel, such as chat/*")
