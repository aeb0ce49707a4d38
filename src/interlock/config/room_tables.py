"""Reads `[rooms]`: capability profiles and topics. A topic that names an unknown profile or member does not open."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.protocols.mcpx.capabilities import PROFILES, CapabilitySet, check_usable
from interlock.protocols.mcpx.envelopes import why_bad_participant
from interlock.protocols.patterns import PatternError

from .names import why_bad_name
from .problems import KeyPath, Report
from .settings import Rooms, Topic
from .shape import build, kind


def read_rooms(table: object, report: Report) -> Rooms:
    """Read the profiles and topics."""
    if not isinstance(table, Mapping):
        report.add(("rooms",), f"`rooms` must be a table, not {kind(table)}", "write [rooms.topics.NAME]")
        return Rooms()
    rest = dict(table)
    topics = rest.pop("topics", {})
    rooms = build(Rooms, rest, ("rooms",), report)
    _check_profiles(rooms.profiles, report)
    return msgspec.structs.replace(rooms, topics=_read_topics(topics, rooms.profiles, report))


def _check_profiles(profiles: Mapping[str, tuple[str, ...]], report: Report) -> None:
    for name, capabilities in profiles.items():
        at = ("rooms", "profiles", name)
        if why := why_bad_name(name):
            report.add(at, f"the name `{name}` in [rooms.profiles] {why}", "choose another name")
        elif name in PROFILES:
            report.add(at, f"the profile `{name}` is built in", "choose another name")
        try:
            CapabilitySet(capabilities)
            check_usable(capabilities)
        except PatternError as why_not:
            report.add(at, f"the profile `{name}` is not valid: {why_not}", 'write ["mcp/proposal:*", "chat"]')


def _read_topics(tables: object, profiles: Mapping[str, tuple[str, ...]], report: Report) -> dict[str, Topic]:
    if not isinstance(tables, Mapping):
        report.add(("rooms", "topics"), f"`topics` must be tables, not {kind(tables)}", "write [rooms.topics.NAME]")
        return {}
    found: dict[str, Topic] = {}
    for name, table in tables.items():
        at = ("rooms", "topics", name)
        if why := why_bad_name(name):
            report.add(at, f"the name `{name}` in [rooms.topics] {why}", "choose another name")
            continue
        found[name] = build(Topic, table, at, report)
        _check_topic(found[name], {*PROFILES, *profiles}, at, report)
    return found


def _check_topic(topic: Topic, profiles: set[str], at: KeyPath, report: Report) -> None:
    named: list[tuple[KeyPath, str]] = [(("profile",), topic.profile)]
    named += [(("members", member), profile) for member, profile in topic.members.items()]
    named += [(("kinds", of), profile) for of, profile in topic.kinds.items()]
    for key, profile in named:
        if profile not in profiles:
            hint = f"name one of {', '.join(sorted(profiles))}, or add it to [rooms.profiles]"
            report.add((*at, *key), f"there is no profile `{profile}`", hint)
    for server in topic.servers:
        if why := why_bad_name(server):
            report.add((*at, "servers"), f"the server `{server}` {why}", "name a server of the configuration")
    for member in topic.members:
        if why := why_bad_participant(member):
            report.add((*at, "members", member), f"`{member}` cannot be a member: {why}", "name a key's holder")
    if topic.visibility == "private" and topic.kinds:
        message = "`kinds` has no use in a private topic, which only members join"
        report.add((*at, "kinds"), message, 'remove it, or write visibility = "restricted"')
