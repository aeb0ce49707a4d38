"""Operations on feature sets, events and usage (MCPL).

Only a person enables a feature set: over the control socket one at a terminal, over the API the holder of a person's
key.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final

import msgspec

from interlock.config.names import why_bad_agent
from interlock.hub.admin.operation import ControlFlag, Secret
from interlock.hub.admin.people import need_person
from interlock.hub.admin.servers import known_server
from interlock.hub.app import HubApp
from interlock.hub.audit.record import Record
from interlock.hub.auth.access_methods import MAX_JUSTIFICATION
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events.usage import By, EventRow, UsageRow
from interlock.hub.live.feature_entry import FeatureEntry, entry_id, entry_parts
from interlock.protocols.mcpl.capabilities import AFTER_REWRITE, EXPLICIT
from interlock.protocols.mcpl.negotiation import UNSUPPORTED
from interlock.protocols.mcpl.policy import names
from interlock.protocols.patterns import FEATURE_SETS, PatternError, compile_pattern
from interlock.wire.errors import Fault

SETTLED_S: Final = 2.0
"""How long the answer waits for the server to take its new feature sets."""
MAX_NAMED: Final = 20
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class FeatureOperations:
    """The operations on the feature sets of one hub's servers."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._live = hub_app.live

    async def list(self, by: Principal, params: ListFeatures, trace: str) -> FeatureRows:
        """The declared feature sets, and for which agents each is on."""
        servers = (
            [*self._hub_app.config.servers] if params.server is None else [known_server(self._hub_app, params.server)]
        )
        return FeatureRows([row for server in servers for row in self._rows(server)])

    async def enable(self, by: Principal, params: EnableFeatures, trace: str) -> FeatureRows:
        """Let a server use feature sets for an agent."""
        await self._need_person(by, params, "run `interlock features enable` in a terminal")
        return await self._put(by, params, trace, enabled=True)

    async def disable(self, by: Principal, params: ChangeFeatures, trace: str) -> FeatureRows:
        """Switch feature sets off for an agent, from now on."""
        return await self._put(by, params, trace, enabled=False)

    async def forget(self, by: Principal, params: EnableFeatures, trace: str) -> FeatureRows:
        """Delete patterns of an agent. Without one that disables it, a feature set may be on again."""
        await self._need_person(by, params, "run `interlock features forget` in a terminal")
        server, agent = known_server(self._hub_app, params.server), params.agent
        mine = {entry.feature: entry.id for entry in self._entries(server) if entry.agent == agent}
        unreadable = ((id_, entry_parts(id_)) for id_ in self._live.features.entries.unreadable(server))
        mine |= {parts[2]: id_ for id_, parts in unreadable if parts is not None and parts[1] == agent}
        for name in params.features:
            if name not in mine:
                hint = f"its patterns: {', '.join(sorted(mine))}" if mine else "it has none at this server"
                raise Fault("NOT_FOUND", f"{agent} has no pattern {name[:100]!r} at {server}", hint=hint)
        records = self._records(by, params, trace, enabled=None)
        await self._live.features.entries.forget([mine[name] for name in params.features], records)
        return await self._settled(server)

    async def events(self, by: Principal, params: ListEvents, trace: str) -> EventRows:
        """The newest events: what waits, what was delivered, and what was dropped."""
        usage = self._live.usage
        found = await usage.events(params.agent, params.server, params.most)
        if not found and params.agent is not None:
            self._check_agent(params.agent)
        return EventRows(found, usage.refused())

    async def usage(self, by: Principal, params: AskUsage, trace: str) -> UsageRows:
        """Events, wakes, inferences, tokens and cost, per server, feature set, agent and conversation."""
        return UsageRows(await self._live.usage.rows(params.days, params.by))

    def _check_agent(self, agent: str) -> None:
        """Refuse the name of an agent that can have no events: it has neither a key nor settings nor feature sets."""
        known = self._agents() | {entry.agent for entry in self._live.features.entries.all()}
        if agent not in known:
            hint = f"one of {', '.join(sorted(known)[:MAX_NAMED])}"
            raise Fault("NOT_FOUND", f"no agent {agent[:100]!r} has a key or a feature set", hint=hint)

    def _agents(self) -> set[str]:
        """The agents that have a key or settings."""
        hub_app, config = self._hub_app, self._hub_app.config
        configured = {LOCAL_AGENT.id, *config.agents, *(channel.agent for channel in config.channels.values())}
        return configured | {key.principal for key in hub_app.keys.readable()}

    async def _need_person(self, by: Principal, params: EnableFeatures, hint: str) -> None:
        present = params.terminal or params.console
        await need_person(
            self._hub_app, by, "enabling a feature set", hint, present=present, passphrase=params.passphrase
        )

    async def _put(self, by: Principal, params: ChangeFeatures, trace: str, *, enabled: bool) -> FeatureRows:
        server, agent = known_server(self._hub_app, params.server), params.agent
        if why := why_bad_agent(agent):
            raise Fault("INVALID_PARAMS", f"the agent's name {why}", hint="name an agent as in `interlock keys list`")
        for feature in params.features:
            try:
                compile_pattern(feature, FEATURE_SETS)
            except PatternError as problem:
                raise Fault("INVALID_PARAMS", f"{feature[:100]!r} is no pattern: {problem}") from None
        at = datetime.now(UTC)
        entries = [
            FeatureEntry(
                entry_id(server, agent, name), server, agent, name, enabled, by.id, at, params.because,
                self._uses(server, name),
            )
            for name in params.features
        ]  # fmt: skip
        await self._live.features.entries.put(entries, self._records(by, params, trace, enabled=enabled))
        rows = await self._settled(server)
        if enabled and agent not in self._agents():
            rows.hint = f"no key of {agent} exists yet: `interlock keys create {agent}` makes one"
        return rows

    def _records(self, by: Principal, params: ChangeFeatures, trace: str, *, enabled: bool | None) -> Sequence[Record]:
        """The audit records of a change, one for each pattern."""
        feature = partial(self._hub_app.journal.feature, by, params.server, params.agent)
        return [feature(name, enabled=enabled, because=params.because, trace=trace) for name in params.features]

    async def _settled(self, server: str) -> FeatureRows:
        """The feature sets of a server after a change, once the server was told."""
        await self._live.connections.settled(server, SETTLED_S)
        return FeatureRows([*self._rows(server)])

    def _uses(self, server: str, pattern: str) -> tuple[str, ...] | None:
        """The uses of the declared feature sets that a pattern names; None where none is declared now."""
        live = self._live.connections.shared(server)
        declared = {} if live is None else live.state.offer.feature_sets
        found = [declared[name].needs | declared[name].may for name in declared if names((pattern,), name)]
        return tuple(sorted({path for paths in found for path in paths})) if found else None

    def _rows(self, server: str) -> Sequence[FeatureRow]:
        live = self._live.connections.shared(server)
        entries = self._entries(server)
        rows = [] if live is None else [self._declared(live, name) for name in live.state.offer.feature_sets]
        known = {row.feature for row in rows}
        for entry in entries:
            if entry.feature not in known and not any(_names(entry, row.feature) for row in rows):
                agents = [entry.agent] if entry.enabled else []
                rows.append(FeatureRow(server, entry.feature, "", [], agents, False, "not declared by the server"))
        return sorted(rows, key=lambda row: row.feature)

    def _entries(self, server: str) -> Sequence[FeatureEntry]:
        return [entry for entry in self._live.features.entries.all() if entry.server == server]

    def _declared(self, live: LiveConnection, name: str) -> FeatureRow:
        declared = live.state.offer.feature_sets[name]
        decided = live.state.pending or live.state.active
        state = decided.states.get(name)
        agents = list(self._live.features.agents(live.server, name, declared))
        on = live.state.on and live.state.active.enabled(name)
        why = ""
        if not on:
            reason = "" if state is None else state.reason
            missing = () if state is None else state.missing
            why = self._why_missing(live.server, missing) if missing else reason or "the server was not told yet"
            if self._live.features.entries.unreadable(live.server):
                why = "an entry on feature sets of this server cannot be read: `interlock status` names it"
        disabled: dict[str, list[str]] = {}
        for entry in self._entries(live.server):
            if not entry.enabled and _names(entry, name):
                disabled.setdefault(entry.agent, []).append(entry.feature)
        description, uses = declared.description[:500], list(declared.uses)
        wanted = on and declared.covers(AFTER_REWRITE) and AFTER_REWRITE in live.state.offer.paths
        lacks = _grant(live.server, (AFTER_REWRITE,)) if wanted and not decided.grant.allows(AFTER_REWRITE) else ""
        return FeatureRow(live.server, name, description, uses, agents, on, why, declared.scoped, disabled, lacks)

    def _why_missing(self, server: str, missing: Sequence[str]) -> str:
        return why_missing(server, missing, has_model=bool(self._hub_app.config.models))


def why_missing(server: str, missing: Sequence[str], *, has_model: bool) -> str:
    """Why a feature set is off that needs these capabilities: no operator granted them, nobody who could do them is
    there yet, or the hub lacks them."""
    grants = [path for path in missing if path in EXPLICIT]
    waits = [path for path in missing if not has_model and path.partition(".")[0] in UNSUPPORTED]
    lacks = [path for path in missing if path not in grants and path not in waits]
    reasons = [f"the hub does not have {', '.join(lacks)}"] if lacks else []
    if waits:
        reasons.append(f"waits for a client that is a host and selects it, or for [models]: {', '.join(waits)}")
    if grants:
        reasons.append(f"it needs your grant: {_grant(server, grants)}")
    return "; ".join(reasons)


def _grant(server: str, paths: Sequence[str]) -> str:
    """The setting by which an operator grants capabilities that no feature set brings."""
    listed = ", ".join(f'"{path}"' for path in paths)
    return f"[servers.{server}.live] grant = [{listed}]"


def _names(entry: FeatureEntry, feature: str) -> bool:
    return compile_pattern(entry.feature, FEATURE_SETS).matches(feature)


class ListFeatures(msgspec.Struct):
    """The feature sets of one server, or of all."""

    server: str | None = None


class ChangeFeatures(msgspec.Struct):
    """Feature sets of a server, by name or pattern, and the agent they are for."""

    server: Name
    features: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=64)]
    agent: Name
    because: Annotated[str, msgspec.Meta(max_length=MAX_JUSTIFICATION)] = ""


class EnableFeatures(ChangeFeatures):
    """Feature sets to enable."""

    passphrase: Secret = ""
    """Where the hub has one."""
    terminal: ControlFlag = False
    console: ControlFlag = False
    """A person in the console, which admits nobody else."""


class FeatureRow(msgspec.Struct):
    """A feature set of a server."""

    server: str
    feature: str
    description: str
    uses: list[str]
    agents: list[str]
    """Agents for which it is on."""
    on: bool
    """Whether the server may use it now."""
    why: str = ""
    """Why it is off."""
    scoped: bool = False
    disabled: dict[str, list[str]] = {}
    """By agent, the patterns that switch it off there. They hold over those that enable it."""
    lacks: str = ""
    """The setting without which it cannot replace answers, though it is on."""


class FeatureRows(msgspec.Struct):
    """Feature sets of servers."""

    features: list[FeatureRow]
    hint: str = ""
    """Set where feature sets were enabled for an agent that has neither a key nor settings."""


class ListEvents(msgspec.Struct):
    """Which events to list."""

    agent: str | None = None
    server: str | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class EventRows(msgspec.Struct):
    """Events, newest first, and refused messages by server since the hub started."""

    events: list[EventRow]
    refused: dict[str, int]


class AskUsage(msgspec.Struct):
    """How many days to count, the present one included, and whether to add up rows that have one name in common."""

    by: By | None = None
    days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 7


class UsageRows(msgspec.Struct):
    """Usage by server, feature set, agent and conversation."""

    usage: list[UsageRow]
