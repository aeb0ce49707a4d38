"""The status of the hub and its servers."""

from __future__ import annotations

import asyncio
import math
import os
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from interlock.client.oauth.login import NEEDS_LOGIN
from interlock.config.problems import Problem
from interlock.config.settings import ServerSettings
from interlock.config.value_types import Mode
from interlock.hub.admin.configuration import ConfigurationOperations
from interlock.hub.admin.operation import Nothing
from interlock.hub.admin.permissions import PermissionRow, permission_rows
from interlock.hub.admin.server_address import where_shown
from interlock.hub.app import HubApp
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Kind, Principal
from interlock.hub.catalog.offer import QuarantinedItem
from interlock.hub.tool_search.pinned_tools import pins_over_budget
from interlock.hub.upstreams.contained_servers import limits_shown
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream
from interlock.process.memory import resident_mb
from interlock.store.schema import SchemaUpgrade
from interlock.version import VERSION
from interlock.wire.errors import Fault

MAX_NAMED: Final = 100
"""Items in quarantine and withheld tools of one server, in one answer."""
MAX_FINDINGS: Final = 8
BATCH: Final = 20
"""Servers described in one turn of the loop."""


class StatusOperations:
    """Shows the state of one hub."""

    def __init__(self, hub_app: HubApp, configuration: ConfigurationOperations) -> None:
        self._hub_app = hub_app
        self._configuration = configuration
        self._where: dict[str, tuple[ServerSettings, str]] = {}
        """The shown addresses and the settings they are made of: to find secrets in them takes most of a status."""

    async def show(self, by: Principal, params: Nothing, trace: str) -> Status:
        """The hub, its configuration and its servers."""
        hub_app, config = self._hub_app, self._hub_app.config
        # No caller can be admitted while the hub cannot know the grants, and the status says so.
        stale = hub_app.access.freshness.refusal() is not None
        pins = [] if stale else pins_over_budget(config, self._list_scope, hub_app.listings)
        meaning = self._meaning()
        servers = await self._servers()
        return Status(
            version=VERSION,
            pid=os.getpid(),
            uptime_s=round(hub_app.readiness.uptime_s, 1),
            listen=hub_app.listen or config.hub.listen,
            home=str(hub_app.home),
            config=ConfigStatus(config.origin.path, [*self._configuration.problems, *pins, *meaning]),
            mode=config.hub.mode,
            policy_version=hub_app.policy_version.number,
            catalog_generation=hub_app.catalog.generation,
            servers=servers,
            disabled=[name for name, server in config.servers.items() if not server.enabled],
            agents=[AgentStatus(key.principal, key.kind, key.profile) for key in hub_app.keys.readable()],
            calls=hub_app.hub.open_calls,
            memory_mb=resident_mb(),
            warnings=[HubWarning(message, hint) for message, hint in hub_app.warnings],
            upgrade=hub_app.store.upgrade if hub_app.is_started else None,
        )

    def _meaning(self) -> list[Problem]:
        """Why tools are not found by meaning, where the hub should."""
        problem = self._hub_app.search.embeddings.problem
        if not problem:
            return []
        message = f"[hub.embeddings] tools are found by their words, not by meaning: {problem}"
        settings, hint = self._hub_app.config.hub.embeddings, "run `interlock search-model install` again"
        if settings.url is not None or settings.path is not None:
            hint = "correct `[hub.embeddings]`, or run `interlock search-model install` and leave its `path` out"
        return [Problem(self._hub_app.config.origin.path or "", None, message, hint, fatal=False)]

    async def _servers(self) -> list[ServerStatus]:
        findings = self._hub_app.findings
        would_refuse, flagged = _by_server(findings.would_refuse), _by_server(findings.flagged)
        present = list(self._hub_app.upstreams)
        self._where = {one.id: self._where[one.id] for one in present if one.id in self._where}
        rows = []
        for count, upstream in enumerate(present, 1):
            rows.append(self._server(upstream, would_refuse[upstream.id], flagged[upstream.id]))
            if not count % BATCH:
                await asyncio.sleep(0)
        return rows

    def _where_shown(self, upstream: Upstream) -> tuple[ServerSettings, str]:
        known = self._where.get(upstream.id)
        if known is None or known[0] is not upstream.settings:
            known = self._where[upstream.id] = upstream.settings, where_shown(upstream.settings)
        return known

    def _server(self, upstream: Upstream, would_refuse: dict[str, int], flagged: dict[str, int]) -> ServerStatus:
        hub_app, settings, peer = self._hub_app, upstream.settings, upstream.peer
        offer = hub_app.catalog.offer(upstream.id)
        about = {} if peer is None else msgspec.json.decode(peer.server_info, type=dict[str, Any])
        problem = upstream.problem or upstream.lists.problem
        since, last_change = upstream.since, _last_change(upstream)
        if (login := upstream.wanted_login) is not None:
            problem, since = Fault("LOGIN_REQUIRED", NEEDS_LOGIN, hint=login.hint), login.wanted_since
            last_change = LastChange(upstream.state, "login_required")
        return ServerStatus(
            id=upstream.id,
            state=upstream.state,
            transport=settings.transport,
            where=self._where_shown(upstream)[1],
            era=None if peer is None else peer.revision.era.value,
            era_reason=None if peer is None else upstream.pool.era_reason,
            revision=None if peer is None else peer.revision.name,
            name=about.get("name"),
            version=about.get("version"),
            tools=0 if offer is None else len(offer.tools),
            prompts=0 if offer is None else len(offer.prompts),
            resources=0 if offer is None else len(offer.resources) + len(offer.templates),
            tokens=None if offer is None else hub_app.tokens.exact(offer.tools.values()),
            needs_login=upstream.needs_login,
            problem=None if problem is None else problem.for_operators,
            hint=None if problem is None else _hint(upstream, problem),
            mgp=_agreed(upstream),
            trust=hub_app.server_policies.trust_of(upstream.id).name.lower(),
            permissions=permission_rows(hub_app.permissions, upstream.id),
            withheld=[] if offer is None else [tool.exposed for tool in offer.lacking.values()][:MAX_NAMED],
            left_out=upstream.lists.left_out,
            denied=[*settings.tools.deny][:MAX_NAMED],
            would_refuse=would_refuse,
            flagged=flagged,
            quarantined=[] if offer is None else [_quarantined(item) for item in offer.quarantined[:MAX_NAMED]],
            since=since.replace(microsecond=0),
            health=upstream.condition,
            health_reasons=upstream.health.reasons,
            last_change=last_change,
            restarts=upstream.restarts.total,
            pid=upstream.pid,
            source=settings.source,
            isolation=settings.isolation,
            limits=limits_shown(settings),
        )

    def _list_scope(self, principal: Principal, address: str) -> ListScope:
        return self._hub_app.authenticator.admit_principal(principal, address).list_scope


def _by_server(counts: Mapping[tuple[str, str], int]) -> defaultdict[str, dict[str, int]]:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (server, rule), count in counts.items():
        found[server][rule] = count
    return found


def _agreed(upstream: Upstream) -> Agreed | None:
    """The agreed MGP extensions, and the server's unchecked claims about itself."""
    found = upstream.agreement
    if found is None:
        return None
    agreed, offer = found.agreed, found.offer
    claims = {"server_id": offer.server_id, "trust_level": offer.trust_level}
    extensions, place = ([], "") if agreed is None else (sorted(agreed.extensions), agreed.home.value)
    return Agreed(offer.version[:40], extensions, place, found.warning or None, claims)


def _last_change(upstream: Upstream) -> LastChange | None:
    change = upstream.supervisor.status.last_change
    return None if change is None else LastChange(change.before, change.reason)


def _hint(upstream: Upstream, problem: Fault) -> str:
    hint, at = problem.hint or f"see `interlock logs {upstream.id}`", upstream.lists.read_again_at
    if problem is not upstream.lists.problem or at is None:
        return hint
    wait_s = math.ceil(max(0.0, at - asyncio.get_running_loop().time()))
    return f"the hub reads them again in {wait_s} s; {hint}"


def _quarantined(item: QuarantinedItem) -> Quarantined:
    findings = [RuleFinding(found.rule, found.message) for found in item.findings[:MAX_FINDINGS]]
    return Quarantined(item.kind, item.name, item.fingerprint, findings, item.hint())


class Agreed(msgspec.Struct):
    """The MGP extensions agreed with a server."""

    version: str
    extensions: list[str]
    place: str
    warning: str | None
    claims: dict[str, str | None]


class LastChange(msgspec.Struct):
    """The last change of a server's state."""

    before: ServerState
    reason: str
    """A shutdown reason of MGP, `call`, `ready`, `restart_policy`, `exited`, `restart_limit_exceeded`, or an error."""


class RuleFinding(msgspec.Struct):
    """A finding in a definition."""

    rule: str
    message: str


class Quarantined(msgspec.Struct):
    """An item of a server that is neither listed nor called."""

    kind: str
    name: str
    fingerprint: str
    findings: list[RuleFinding]
    hint: str


class ServerStatus(msgspec.Struct):
    """A server, its state and its offer."""

    id: str
    state: ServerState
    transport: str
    where: str
    era: str | None
    """The era of the shared connection: `legacy` has a handshake and sessions, `modern` is stateless."""
    era_reason: str | None
    """Why that era is spoken, and which clients speak another with the server."""
    revision: str | None
    name: str | None
    version: str | None
    tools: int
    prompts: int
    resources: int
    tokens: int | None
    needs_login: bool
    """Whether a person must log in to the server (`interlock login`)."""
    problem: str | None
    hint: str | None
    mgp: Agreed | None
    trust: str
    permissions: list[PermissionRow]
    withheld: list[str]
    left_out: list[str]
    denied: list[str]
    """Tools that the configuration switches off, by name or pattern."""
    would_refuse: dict[str, int]
    flagged: dict[str, int]
    quarantined: list[Quarantined]
    since: datetime
    health: str
    """`healthy`, `degraded`, `unhealthy`, `idle` or `down`."""
    health_reasons: list[str]
    last_change: LastChange | None
    """How the server came into its state; None before it was first started."""
    restarts: int
    pid: int | None
    source: str
    isolation: str
    limits: str | None


class ConfigStatus(msgspec.Struct):
    """The configuration and its problems."""

    path: str | None
    problems: list[Problem]


class AgentStatus(msgspec.Struct):
    """A principal with a key."""

    id: str
    kind: Kind
    profile: str | None


class HubWarning(msgspec.Struct):
    """A problem that an operator must know of at once."""

    message: str
    hint: str


class Status(msgspec.Struct):
    """The status of the hub."""

    version: str
    pid: int
    uptime_s: float
    listen: str
    home: str
    config: ConfigStatus
    mode: Mode
    policy_version: int
    """The store's revision of the last change to keys, grants, permissions and rules: equal on every node."""
    catalog_generation: int
    """How often the lists of this node changed."""
    servers: list[ServerStatus]
    disabled: list[str]
    """Servers of the configuration that are switched off."""
    agents: list[AgentStatus]
    calls: int
    memory_mb: float | None
    warnings: list[HubWarning]
    upgrade: SchemaUpgrade | None
    """Set where the start of this hub upgraded its store, after a backup."""
