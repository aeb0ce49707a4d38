"""The feature sets that people enabled, per server and agent. Every feature set is off until then.

A stored entry is a pattern. Where an enabled and a disabled pattern name the same set, it is off.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, Protocol

import msgspec

from interlock.config.settings import Config
from interlock.hub.store_faults import starting
from interlock.protocols.mcpl.feature_sets import FeatureSet, ScopeRules
from interlock.protocols.mcpl.negotiation import UNSUPPORTED
from interlock.protocols.mcpl.policy import HostPolicy, names
from interlock.protocols.mcpl.wake import SEPARATOR
from interlock.store import Collection as StoreCollection
from interlock.store import Mirror, Store, WrongChecksum
from interlock.wire.errors import Fault

MAX_ENTRIES: Final = 10_000
MAX_WARNINGS: Final = 10
MAX_SHOWN: Final = 200
"""Characters of an unreadable entry's id that a message shows."""


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


FEATURES: Final = StoreCollection("live_features", FeatureEntry, key="id", columns=("server",))


def entry_id(server: str, agent: str, feature: str) -> str:
    """The key of an entry."""
    return SEPARATOR.join((server, agent, feature))


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
NOBODY: Final[Mapping[str, AgentEntries]] = {}


class DeclaredFeatureSets(Protocol):
    """Finds the feature sets that servers declare now."""

    def declaration(self, server: str, agent: str, feature: str) -> FeatureSet | None:
        """A feature set as a server declares it to an agent; None if it is undeclared or the server disconnected."""


class Features:
    """All entries, following the store. Every message is checked here when it arrives."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._store: Store
        self._mirror: Mirror[FeatureEntry] | None = None
        self._of: dict[str, dict[str, AgentEntries]] = {}
        """By server and agent, worked out once for each change."""
        self._agents: frozenset[str] | None = None
        """Agents for which something is on."""
        self._hosted: Mapping[str, frozenset[str]] = {}
        """By agent: what its clients can do that are hosts themselves, of `UNSUPPORTED`."""
        self._on_change: Callable[[str], None] | None = None
        self._declarations: DeclaredFeatureSets | None = None

    async def start(self, store: Store, on_change: Callable[[str], None], declarations: DeclaredFeatureSets) -> None:
        """Load the entries. `on_change` gets the server of every further change."""
        self._declarations = declarations
        mirror = await store.mirror(FEATURES)

        def changed(key: str, entry: FeatureEntry | None) -> None:
            server = key.split(SEPARATOR)[0]
            self._of.pop(server, None)
            self._agents = None
            on_change(server)

        mirror.on_change(changed)
        self._store, self._mirror, self._on_change = store, mirror, on_change
        unreadable = {server for key in mirror.problems if (server := _server_of(mirror, key)) is not None}
        for server in unreadable.union(entry.server for entry in mirror.readable()):
            on_change(server)

    def host(self, agent: str, supported: frozenset[str]) -> None:
        """Note the capabilities of an agent's clients that are hosts. Feature sets that need them may then be on."""
        if self._hosted.get(agent, frozenset()) == supported:
            return
        others = {name: known for name, known in self._hosted.items() if name != agent}
        self._hosted = {**others, agent: supported} if supported else others
        if self._on_change is None or self._mirror is None:
            return
        for server in {entry.server for entry in self._mirror.readable() if entry.agent == agent}:
            self._on_change(server)

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
        mine = self._by_agent(server).get(agent, NO_ENTRIES)
        declared = None if self._declarations is None else self._declarations.declaration(server, agent, feature)
        return mine.enable(feature, declared)

    def agents(self, server: str, feature: str, declared: FeatureSet | None) -> tuple[str, ...]:
        """The agents for which a feature set is on, as a connection declares it."""
        known = self._known_by_agent(server)
        return tuple(sorted(agent for agent, mine in known.items() if mine.enable(feature, declared)))

    def enabled_by(self, server: str, feature: str) -> str:
        """A text that identifies the current entries on a feature set. It differs after each change of one."""
        self._check(server)
        found = (each for each in self.entries() if each.server == server and names((each.feature,), feature))
        return " ".join(sorted(f"{each.id}={each.enabled}@{each.at.timestamp()}" for each in found))

    def has_any(self, agent: str) -> bool:
        """Whether any feature set is on for an agent."""
        if self._agents is None:
            servers = {entry.server for entry in self.entries()}
            found = (known for server in servers for known in self._known_by_agent(server).items())
            self._agents = frozenset(agent for agent, mine in found if mine.may_enable)
        return agent in self._agents

    def any_on(self, server: str, agent: str) -> bool:
        """Whether any feature set of a server is on for an agent, also while the server is disconnected.

        Raises SERVER_NOT_READY if an entry on them cannot be read.
        """
        return self._by_agent(server).get(agent, NO_ENTRIES).may_enable

    def entries(self) -> Iterator[FeatureEntry]:
        """Every entry that can be read. Raises SERVER_NOT_READY before the store is open."""
        return self._ready().readable()

    def unreadable(self, server: str) -> list[str]:
        """The ids of unreadable entries that may disable feature sets of a server. With any, all its sets are off."""
        if self._mirror is None:
            return []
        return sorted(key for key in self._mirror.problems if _server_of(self._mirror, key) in (server, None))

    async def put(self, entries: Iterable[FeatureEntry], records: Iterable[object]) -> None:
        """Store entries together with their audit records. They are in force when this returns."""
        if len(self._ready()) >= MAX_ENTRIES:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_ENTRIES} entries of feature sets exist")
        async with self._store.transaction() as transaction:
            for entry in entries:
                transaction.put(FEATURES, entry)
            transaction.record(*records)

    async def forget(self, ids: Iterable[str], records: Iterable[object]) -> None:
        """Delete entries, together with their audit records."""
        async with self._store.transaction() as transaction:
            for id_ in ids:
                transaction.delete(FEATURES, id_)
            transaction.record(*records)

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """A warning for each unreadable entry, with the command that deletes it."""
        found = []
        if (mirror := self._mirror) is None:
            return []
        for id_ in sorted(mirror.problems):
            parts = entry_parts(id_)
            if parts is None or _server_of(mirror, id_) is None:
                off, hint = "all feature sets", "restore the last backup with `interlock restore`"
            else:
                server, agent, feature = parts
                off = f"all feature sets of {server}"
                hint = f"`interlock features forget {server} {shlex.quote(feature)} --agent {agent}` deletes it"
            shown = id_.replace(SEPARATOR, " ")[:MAX_SHOWN]
            found.append((f"an entry on feature sets cannot be read ({shown}), so {off} are off", hint))
        return found[:MAX_WARNINGS]

    def _known_by_agent(self, server: str) -> Mapping[str, AgentEntries]:
        """The entries of a server by agent; empty while one is unreadable, so that the server works without them."""
        try:
            return self._by_agent(server)
        except Fault:
            return NOBODY

    def _by_agent(self, server: str) -> dict[str, AgentEntries]:
        self._check(server)  # An unreadable entry may disable a set that the cached value enables.
        known = self._of.get(server)
        if known is None:
            known = {}
            for entry in self.entries():
                if entry.server == server:
                    mine = known.setdefault(entry.agent, AgentEntries())
                    (mine.enabling if entry.enabled else mine.disabling).append(entry)
            self._of[server] = known
        return known

    def _hosts(self, agent: str | None) -> Iterable[frozenset[str]]:
        return self._hosted.values() if agent is None else (self._hosted.get(agent, frozenset()),)

    def _ready(self) -> Mirror[FeatureEntry]:
        if self._mirror is None:
            raise starting()
        return self._mirror

    def _check(self, server: str) -> None:
        """Raise SERVER_NOT_READY if an entry on the feature sets of a server is unreadable."""
        if (mirror := self._ready()).problems and (found := self.unreadable(server)):
            message = f"the feature sets of {server} are off: an entry on them cannot be read"
            hint = "`interlock status` names the entry, and how to delete it"
            raise Fault("SERVER_NOT_READY", message, hint=hint, operator_text=mirror.problems[found[0]].for_operators)


def entry_parts(id_: str) -> tuple[str, str, str] | None:
    """The server, the agent and the pattern in an entry's id; None for an id of another form."""
    parts = id_.split(SEPARATOR)
    return None if len(parts) != 3 else (parts[0], parts[1], parts[2])


def _server_of(mirror: Mirror[FeatureEntry], id_: str) -> str | None:
    """The server of an unreadable entry; None for an id that names none or may be wrong: it may concern any server."""
    parts = entry_parts(id_)
    return None if parts is None or isinstance(mirror.problems[id_], WrongChecksum) else parts[0]


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
