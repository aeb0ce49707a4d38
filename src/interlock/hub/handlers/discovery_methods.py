"""MGP's discovery of servers: `mgp/discovery/list`, `register` and `deregister`. Operators use the same methods.

The list has every server that the caller may see, also those that were never started, and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

import msgspec

from interlock.config.settings import Config
from interlock.config.value_types import TrustLevel
from interlock.hub.approvals.decision import Decision
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.audiences import is_private
from interlock.hub.catalog.views import Catalog
from interlock.hub.journal import Journal
from interlock.hub.upstreams.registration.packages import RegisteredPackages
from interlock.hub.upstreams.registration.registration import Registration, RegistrationParams, RegistrationResult
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.turns import in_turns
from interlock.wire.errors import Fault

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=64)]
LISTED = 1000
"""Servers in one answer."""


class ServerFilter(msgspec.Struct):
    """Which servers to list. A server must match every member."""

    extensions: Names = ()
    permissions: Names = ()
    status: Name | None = None
    ids: Names = ()
    """Ids as the creators wrote them, or as the hub uses them."""
    trust_level: TrustLevel | None = None
    created_by: Name | None = None


class ListServers(msgspec.Struct):
    """Params of `mgp/discovery/list`."""

    filter: ServerFilter = msgspec.field(default_factory=ServerFilter)


class DeregisterParams(msgspec.Struct):
    """Params of `mgp/discovery/deregister`."""

    id: Name
    reason: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class InstallPackage(msgspec.Struct):
    """The registered server whose package to install."""

    id: Name


class PackageInstalled(msgspec.Struct):
    """The package of a server, as it is on this node now."""

    server_id: str
    package: str
    digest: str
    folder: str


class DiscoveredServer(msgspec.Struct, omit_defaults=True):
    """A server as a caller of MGP's discovery sees it; a denied registration has a reason."""

    id: str
    server_id: str
    status: str
    extensions: list[str]
    tools: list[str]
    trust_level: str
    mgp_version: str | None = None
    permissions: list[str] = []
    created_by: str | None = None
    isolation: str | None = None
    decided_by: str | None = None
    """The person who denied it."""
    reason: str = ""


class DiscoveredServers(msgspec.Struct):
    """The servers that the caller may see."""

    servers: list[DiscoveredServer]


class DeregisterResult(msgspec.Struct):
    """The answer to a deregistration."""

    deregistered: bool
    id: str


class TrustLevels(Protocol):
    """Knows the effective trust level of a server."""

    def trust_of(self, server: str) -> Any:
        """The operator's level, lowered by the server's claim."""


class DiscoveryMethods:
    """Lists, registers and deregisters servers, for clients and for operators."""

    def __init__(
        self,
        registrations: Registrations,
        upstreams: Upstreams,
        catalog: Catalog,
        access: Access,
        trusts: TrustLevels,
        journal: Journal,
        config: Callable[[], Config],
        packages: RegisteredPackages,
    ) -> None:
        self._registrations = registrations
        self._upstreams = upstreams
        self._catalog = catalog
        self._access = access
        self._trusts = trusts
        self._journal = journal
        self._config = config
        self._packages = packages

    async def list(self, by: Principal, params: ListServers, trace: str = "") -> DiscoveredServers:
        """The servers that a principal may see, started or not."""
        wanted = params.filter
        registered = [each for each in self._registrations.list() if self._own(each.created_by, each.created_kind, by)]
        own = {each.id for each in registered}
        rows = [
            self._row(id_, by)
            async for id_ in in_turns(list(self._config().servers))
            if id_ in self._config().servers and (id_ in own or self._access.reaches(by, id_))
        ]
        waiting = (_waiting(each) for each in registered if not each.approved)
        answers = self._registrations.denied()
        own_answers = (each for each in answers if self._own(each.request.asker, each.request.asker_kind, by))
        found = [row for row in (*rows, *waiting, *map(_denied, own_answers)) if _matches(row, wanted)]
        return DiscoveredServers(found[:LISTED])

    async def register(self, by: Principal, params: RegistrationParams, trace: str = "") -> RegistrationResult:
        """Register a server. The server of an agent waits for a person's approval."""
        answer = await self._registrations.register(by, params, trace)
        self._journal.operated(by, "discovery.register", answer.server_id, params.justification, trace)
        return answer

    async def deregister(self, by: Principal, params: DeregisterParams, trace: str = "") -> DeregisterResult:
        """Remove a registered server. It ends after its open calls."""
        found = await self._registrations.deregister(by, params.id)
        self._journal.operated(by, "discovery.deregister", found.id, params.reason, trace)
        return DeregisterResult(True, found.name)

    async def install(self, by: Principal, params: InstallPackage, trace: str = "") -> PackageInstalled:
        """Install the package of a registered server on this node, or update it. Raises Fault."""
        found = self._registrations.find(params.id)
        if found is None:
            raise Fault("NOT_FOUND", f"no registered server {params.id[:100]!r}")
        installed = await self._packages.install_again(found)
        return PackageInstalled(found.id, installed.package, installed.digest, installed.folder)

    def _row(self, id: str, by: Principal) -> DiscoveredServer:
        settings, upstream = self._config().servers[id], self._upstreams.get(id)
        registration = self._registrations.find(id)
        agreement = None if upstream is None else upstream.agreement
        offer = self._catalog.offer(id)
        known = () if offer is None else (tool for tool in offer.tools.values() if not is_private(tool))
        tools = self._access.seen(by, [*known])
        declared = () if agreement is None else agreement.offer.permissions_required
        return DiscoveredServer(
            id=id if registration is None else registration.name,
            server_id=id,
            status="disconnected" if upstream is None else upstream.state.value,
            extensions=[] if agreement is None or agreement.agreed is None else sorted(agreement.agreed.extensions),
            tools=[tool.name for tool in tools],
            trust_level=self._trusts.trust_of(id).name.lower(),
            mgp_version=None if agreement is None else agreement.offer.version[:40],
            permissions=sorted({*declared, *settings.permissions.require}),
            created_by=None if registration is None else registration.created_by,
            isolation=settings.isolation if settings.isolation != "none" else None,
        )

    def _own(self, created_by: str, created_kind: str, by: Principal) -> bool:
        if (created_by, created_kind) == (by.id, by.kind):
            return True
        rights = self._access.rights(by)
        return rights is not None and rights.admin_read


def _waiting(each: Registration) -> DiscoveredServer:
    permissions = [*each.permissions]
    return DiscoveredServer(
        each.name, each.id, "pending_approval", [*each.extensions], [], each.trust, None, permissions, each.created_by
    )


def _denied(decision: Decision) -> DiscoveredServer:
    request = decision.request
    return DiscoveredServer(
        request.registers or request.server,
        request.server,
        "denied",
        [],
        [],
        request.trust,
        created_by=request.asker,
        decided_by=decision.answered_by,
        reason=decision.reason,
    )


def _matches(row: DiscoveredServer, wanted: ServerFilter) -> bool:
    return (
        set(wanted.extensions) <= set(row.extensions)
        and set(wanted.permissions) <= set(row.permissions)
        and wanted.status in (None, row.status)
        and (not wanted.ids or bool({row.id, row.server_id} & set(wanted.ids)))
        and wanted.trust_level in (None, row.trust_level)
        and wanted.created_by in (None, row.created_by)
    )
