"""Decides which feature sets are on, per server and agent. Every feature set is off until a person enables it.

`feature_entries.py` follows the store. Every message of a server is checked here when it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from interlock.config.settings import Config
from interlock.hub.live.feature_entries import FeatureEntries
from interlock.hub.live.feature_entry import NO_ENTRIES, AgentEntries
from interlock.protocols.mcpl.feature_sets import FeatureSet, ScopeRules
from interlock.protocols.mcpl.negotiation import UNSUPPORTED
from interlock.protocols.mcpl.policy import HostPolicy, names
from interlock.store import Store
from interlock.wire.errors import Fault

NOBODY: Final[Mapping[str, AgentEntries]] = {}


class DeclaredFeatureSets(Protocol):
    """Finds the feature sets that servers declare now."""

    def declaration(self, server: str, agent: str, feature: str) -> FeatureSet | None:
        """A feature set as a server declares it to an agent; None if it is undeclared or the server disconnected."""


class Features:
    """The feature sets that are on, and the policies of servers."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self.entries = FeatureEntries()
        self._config = config
        self._agents: frozenset[str] | None = None
        """Agents for which something is on."""
        self._hosted: Mapping[str, frozenset[str]] = {}
        """By agent: what its clients can do that are hosts themselves, of `UNSUPPORTED`."""
        self._on_change: Callable[[str], None] | None = None
        self._declarations: DeclaredFeatureSets | None = None

    async def start(self, store: Store, on_change: Callable[[str], None], declarations: DeclaredFeatureSets) -> None:
        """Load the entries. `on_change` gets the server of every further change."""
        self._declarations, self._on_change = declarations, on_change
        await self.entries.start(store, self._changed)

    def host(self, agent: str, supported: frozenset[str]) -> None:
        """Note the capabilities of an agent's clients that are hosts. Feature sets that need them may then be on."""
        if self._hosted.get(agent, frozenset()) == supported:
            return
        others = {name: known for name, known in self._hosted.items() if name != agent}
        self._hosted = {**others, agent: supported} if supported else others
        for server in self.entries.servers_of(agent):
            self._changed(server)

    def policy(
        self,
        server: str,
        declared: Mapping[str, FeatureSet],
        agent: str | None = None,
        *,
        only: Collection[str] | None = None,
        supported: frozenset[str] = frozenset(),
    ) -> HostPolicy:
        """The policy for a server and one agent; without an agent, the union of all agents.

        Several agents may share a connection. There a set is on if it is on for one of them, and its events reach that
        agent alone. `only` restricts the sets. `supported` adds capabilities of a host that is not registered yet.
        """
        mine = self._known_by_agent(server)
        entries = list(mine.values()) if agent is None else [mine.get(agent, NO_ENTRIES)]
        on = {name for name, found in declared.items() if any(each.enable(name, found) for each in entries)}
        on = on if only is None else on & set(only)
        off = {name for name in declared if any(each.disable(name) for each in entries)}
        config = self._config()
        settings = config.servers.get(server)
        scopes = {} if settings is None else settings.scopes
        return HostPolicy(
            enabled=tuple(sorted(on)),
            disabled=tuple(sorted(off - on)),
            granted=() if settings is None else _granted(settings.live.grant, [declared[name] for name in on]),
            denied=_denied(config, supported.union(*self._hosts(agent))),
            scopes={name: ScopeRules(rules.whitelist, rules.blacklist) for name, rules in scopes.items()},
            scope_labels={name: rules.label for name, rules in scopes.items() if rules.label is not None},
        )

    def basis(self, server: str) -> tuple[object, ...]:
        """The objects that a server's policies are computed from. While they are the same, so are the policies."""
        return self._known_by_agent(server), self._config(), self._hosted

    def enabled(self, server: str, agent: str, feature: str) -> bool:
        """Whether a feature set is on for an agent: it is enabled, and uses no more than when it was enabled.

        Raises SERVER_NOT_READY if an entry on the server's feature sets cannot be read.
        """
        mine = self.entries.by_agent(server).get(agent, NO_ENTRIES)
        declared = None if self._declarations is None else self._declarations.declaration(server, agent, feature)
        return mine.enable(feature, declared)

    def agents(self, server: str, feature: str, declared: FeatureSet | None) -> tuple[str, ...]:
        """The agents for which a feature set is on, as a connection declares it."""
        known = self._known_by_agent(server)
        return tuple(sorted(agent for agent, mine in known.items() if mine.enable(feature, declared)))

    def enabled_by(self, server: str, feature: str) -> str:
        """A text that identifies the current entries on a feature set. It differs after each change of one."""
        self.entries.check(server)
        found = (each for each in self.entries.all() if each.server == server and names((each.feature,), feature))
        return " ".join(sorted(f"{each.id}={each.enabled}@{each.at.timestamp()}" for each in found))

    def has_any(self, agent: str) -> bool:
        """Whether any feature set is on for an agent."""
        if self._agents is None:
            servers = {entry.server for entry in self.entries.all()}
            found = (known for server in servers for known in self._known_by_agent(server).items())
            self._agents = frozenset(agent for agent, mine in found if mine.may_enable)
        return agent in self._agents

    def any_on(self, server: str, agent: str) -> bool:
        """Whether any feature set of a server is on for an agent, also while the server is disconnected.

        Raises SERVER_NOT_READY if an entry on them cannot be read.
        """
        return self.entries.by_agent(server).get(agent, NO_ENTRIES).may_enable

    def _changed(self, server: str) -> None:
        self._agents = None
        if self._on_change is not None:
            self._on_change(server)

    def _known_by_agent(self, server: str) -> Mapping[str, AgentEntries]:
        """The entries of a server by agent; empty while one is unreadable, so that the server works without them."""
        try:
            return self.entries.by_agent(server)
        except Fault:
            return NOBODY

    def _hosts(self, agent: str | None) -> Iterable[frozenset[str]]:
        return self._hosted.values() if agent is None else (self._hosted.get(agent, frozenset()),)


def _denied(config: Config, hosted: frozenset[str]) -> tuple[str, ...]:
    """The uses that nobody can serve: a hub without a model relies on clients that are hosts, or on sampling."""
    if config.models:
        return ()
    bridged = ("inferenceRequest",) if config.host.inference.sampling == "allow" else ()
    return tuple(path for path in UNSUPPORTED if path not in bridged and path not in hosted)


def _granted(paths: Iterable[str], on: Iterable[FeatureSet]) -> tuple[str, ...]:
    """The operator's grants that an enabled feature set uses. A grant alone gives an agent nothing."""
    families = {_family(path) for found in on for path in found.needs}
    return tuple(path for path in paths if _family(path) in families)


def _family(path: str) -> str:
    """The first two parts of a capability path, such as `contextHooks.beforeInference`."""
    return ".".join(path.split(".")[:2])
