"""Tells clients that are hosts when the feature sets change that they can select from."""

from __future__ import annotations

import asyncio

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.live.client_host import ClientHost, Declared
from interlock.hub.live.client_offers import ClientOffers
from interlock.hub.live.client_registry import ClientRegistry
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.manifests import ManifestChanged, revision_of
from interlock.transports.host_requests import HostRequests


class ClientNotices:
    """Notices of changed feature sets, in the dialect of each client."""

    def __init__(self, registry: ClientRegistry, offers: ClientOffers, requests: HostRequests) -> None:
        self._registry = registry
        self._offers = offers
        self._requests = requests
        self._tasks = BackgroundTasks()
        self._due = False

    def refresh(self) -> None:
        """Tell clients whose feature sets have changed."""
        if self._registry.all() and not self._due:
            self._due = True
            self._tasks.begin(self._refresh(), None)

    async def close(self) -> None:
        """End everything under way."""
        await self._tasks.close()

    async def _refresh(self) -> None:
        # Changes that come together are told together.
        await asyncio.sleep(0)
        self._due = False
        for host in self._registry.all():
            before = host.show(self._offers.declared(host))
            if before != host.declared:
                self._tell(host, before)
            await asyncio.sleep(0)

    def _tell(self, host: ClientHost, before: Declared) -> None:
        if host.dialect is McplDialect.V0_5:
            notice = ManifestChanged(revision_of(self._offers.manifest(host)), ("capabilities", "featureSets"))
            self._requests.tell(host.key, "mcpl/manifestChanged", msgspec.json.encode(notice))
            return
        added = {name: value for name, value in host.declared.items() if before.get(name) != value}
        removed = [name for name in before if name not in host.declared]
        change = msgspec.json.encode({"added": added, "removed": removed})
        self._requests.tell(host.key, "featureSets/changed", change)
