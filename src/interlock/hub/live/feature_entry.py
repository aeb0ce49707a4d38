"""One entry on feature sets, as a person made it, and the entries of one agent on the feature sets of one server.

Rule: where an enabling and a disabling pattern name the same set, it is off.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from interlock.protocols.mcpl.feature_sets import FeatureSet
from interlock.protocols.mcpl.policy import names
from interlock.protocols.mcpl.wake import SEPARATOR
from interlock.store import Collection


class FeatureEntry(msgspec.Struct, frozen=True):
    """Whether the feature sets of a server that a pattern names are on for one agent."""

    id: str
    server: str
    agent: str
    feature: str
    """A name, or a pattern such as `memory.*`."""
    enabled: bool
    by: str
    at: datetime
    because: str = ""
    uses: tuple[str, ...] | None = None
    """The uses of these feature sets when they were enabled; None if unknown then. A set that uses more is off."""


FEATURES: Final = Collection("live_features", FeatureEntry, key="id", columns=("server",))


def entry_id(server: str, agent: str, feature: str) -> str:
    """The key of an entry."""
    return SEPARATOR.join((server, agent, feature))


def entry_parts(id_: str) -> tuple[str, str, str] | None:
    """The server, the agent and the pattern in an entry's id; None for an id of another form."""
    parts = id_.split(SEPARATOR)
    return None if len(parts) != 3 else (parts[0], parts[1], parts[2])


class AgentEntries(msgspec.Struct):
    """The entries of one agent on the feature sets of one server."""

    enabling: list[FeatureEntry] = []
    disabling: list[FeatureEntry] = []

    def enable(self, feature: str, declared: FeatureSet | None = None) -> bool:
        """Whether a set is on. A set that now uses more than a person enabled is off."""
        found = [entry for entry in self.enabling if names((entry.feature,), feature)]
        if not found or self.disable(feature):
            return False
        uses = frozenset[str]() if declared is None else declared.needs | declared.may
        return any(entry.uses is None or uses <= set(entry.uses) for entry in found)

    @property
    def may_enable(self) -> bool:
        """Whether some set may be on, whatever the server declares. True if that is uncertain."""
        return any(not self._covered(entry.feature) for entry in self.enabling)

    def _covered(self, pattern: str) -> bool:
        """Whether disabling patterns cover every set that a pattern names, judged by the texts of the patterns."""
        stems = (entry.feature.rstrip("*") for entry in self.disabling if entry.feature.endswith("*"))
        return any(entry.feature == pattern for entry in self.disabling) or any(
            "*" not in stem and pattern.startswith(stem) for stem in stems
        )

    def disable(self, feature: str) -> bool:
        """Whether a set is switched off. An unreadable pattern matches every set."""
        return names((entry.feature for entry in self.disabling), feature, unusable=True)


NO_ENTRIES: Final = AgentEntries()
