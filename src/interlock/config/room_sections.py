"""Reads `[rooms]`: capability profiles and topics. A topic that names an unknown profile or member does not open."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.protocols.mcpx.capabilities import PROFILES, CapabilitySet, check_usable
from interlock.protocols.mcpx.envelopes import why_bad_participant
from interlock.protocols.patterns import PatternError

from .names import why_bad_name
from .problems import KeyPath, Section
from .settings import RoomSettings, TopicSettings
from .shape import build, kind, read_sections


def read_rooms(table: object, section: Section) -> RoomSettings:
    """Read the profiles and topics."""
    if not isinstance(table, Mapping):
        section.add((), f"`rooms` must be a table, not {kind(table)}", "write [rooms.topics.NAME]")
        return RoomSettings()
    rest = dict(table)
    topics = rest.pop("topics", {})
    rooms = build(RoomSettings, rest, section)
    _check_profiles(rooms.profiles, section.inside("profiles"))
    profiles = {*PROFILES, *rooms.profiles}

    def read_topic(table: Mapping[str, object], _name: str, section: Section) -> TopicSettings:
        topic = build(TopicSettings, table, section)
        _check_topic(topic, profiles, section)
        return topic

    return msgspec.structs.replace(
        rooms, topics=read_sections(topics, section.inside("topics"), why_bad_name, read_topic)
    )


def _check_profiles(profiles: Mapping[str, tuple[str, ...]], section: Section) -> None:
    for name, capabilities in profiles.items():
        if why := why_bad_name(name):
            section.add(name, f"the name `{name}` in [rooms.profiles] {why}", "choose another name")
        elif name in PROFILES:
            section.add(name, f"the profile `{name}` is built in", "choose another name")
        try:
            CapabilitySet(capabilities)
            check_usable(capabilities)
        except PatternError as why_not:
            section.add(name, f"the profile `{name}` is not valid: {why_not}", 'write ["mcp/proposal:*", "chat"]')


def _check_topic(topic: TopicSettings, profiles: set[str], section: Section) -> None:
    named: dict[KeyPath, str] = {("profile",): topic.profile}
    named |= {("members", member): profile for member, profile in topic.members.items()}
    named |= {("kinds", of): profile for of, profile in topic.kinds.items()}
    for key, profile in named.items():
        if profile not in profiles:
            hint = f"name one of {', '.join(sorted(profiles))}, or add it to [rooms.profiles]"
            section.add(key, f"there is no profile `{profile}`", hint)
    for server in topic.servers:
        if why := why_bad_name(server):
            section.add("servers", f"the server `{server}` {why}", "name a server of the configuration")
    for member in topic.members:
        if why := why_bad_participant(member):
            section.add(("members", member), f"`{member}` cannot be a member: {why}", "name a key's holder")
    if topic.visibility == "private" and topic.kinds:
        message = "`kinds` has no use in a private topic, which only members join"
        section.add("kinds", message, 'remove it, or write visibility = "restricted"')
