"""The capability grant, which alone authorizes messages (MCPL 0.5, Capability Grants).

A path that is not in the grant is denied. A parent path grants none of its leaves, and `*` stands for one segment.
Channel rules restrict a path to some channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from interlock.protocols.mcpl.capabilities import CHANNELS_STREAMING
from interlock.protocols.patterns import Pattern, PatternError, PatternSet, compile_capability_path

THINKING: Final = "thinking"
"""The private pseudo-channel. It can be observed if granted by name, and never published to (MCPL, Security and
Scoping)."""
MAX_LAYERS: Final = 8


class ChannelRules(msgspec.Struct, frozen=True):
    """Patterns for the channels that a path covers. Deny wins."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...] = ()

    def allows(self, channel: str) -> bool:
        """Whether a channel is covered. Raises PatternError for a pattern that cannot be compiled."""
        return _compiled_rules(self).allows(channel)


class CapabilityGrant(msgspec.Struct, frozen=True):
    """The capabilities granted to one connection."""

    paths: frozenset[str] = frozenset()
    channels: tuple[tuple[str, tuple[ChannelRules, ...]], ...] = ()
    """By path, rules that must all allow a channel. A path without rules covers every channel."""
    thinking: bool = False
    """Whether the thinking pseudo-channel may be observed."""

    def allows(self, path: str) -> bool:
        """Whether the grant contains a path."""
        if path in self.paths:
            return "*" not in path
        return any(entry.matches(path) for entry in _wildcards(self.paths)) and _is_path(path)

    def allows_channel(self, path: str, channel: str) -> bool:
        """Whether the grant contains a path for one channel."""
        if not self.allows(path):
            return False
        if channel == THINKING:
            return path == CHANNELS_STREAMING and self.thinking
        try:
            return all(rules.allows(channel) for rules in dict(self.channels).get(path, ()))
        except PatternError:
            return False

    def allows_any(self, paths: Iterable[str]) -> bool:
        """Whether the grant contains one of these paths."""
        return any(self.allows(path) for path in paths)

    def __and__(self, other: CapabilityGrant) -> CapabilityGrant:
        """The intersection of two grants, including channel rules."""
        mine, theirs = dict(self.channels), dict(other.channels)
        paths = frozenset(p for p in self.paths if other.allows(p)) | frozenset(
            p for p in other.paths if self.allows(p)
        )
        paths |= self.paths & other.paths
        rules = {p: tuple(dict.fromkeys(mine.get(p, ()) + theirs.get(p, ()))) for p in mine.keys() | theirs.keys()}
        crowded = {path for path, layers in rules.items() if len(layers) > MAX_LAYERS}
        return CapabilityGrant(
            paths - crowded,
            tuple(sorted((p, layers) for p, layers in rules.items() if p not in crowded)),
            self.thinking and other.thinking,
        )


NO_GRANT: Final = CapabilityGrant()


def read_grant(entries: Iterable[str]) -> CapabilityGrant:
    """The grant in `effectiveCapabilities`. An entry that is not a path grants nothing."""
    return CapabilityGrant(frozenset(entry for entry in entries if _compiled(entry) is not None))


def compile_rules(rules: Mapping[str, Iterable[ChannelRules]]) -> tuple[tuple[str, tuple[ChannelRules, ...]], ...]:
    """Compile the channel rules of a grant."""
    return tuple(sorted((path, tuple(layers)) for path, layers in rules.items() if layers))


@lru_cache(maxsize=1024)
def _compiled_rules(rules: ChannelRules) -> PatternSet:
    return PatternSet(rules.allowed, rules.denied)


def _compiled(entry: str) -> Pattern | None:
    try:
        return compile_capability_path(entry)
    except PatternError:
        return None


@lru_cache(maxsize=1024)
def _wildcards(entries: frozenset[str]) -> tuple[Pattern, ...]:
    return tuple(found for entry in entries if "*" in entry and (found := _compiled(entry)) is not None)


def _is_path(text: str) -> bool:
    return "*" not in text and all(text.split("."))
