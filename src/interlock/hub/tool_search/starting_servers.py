"""Servers that have not listed their tools yet: lists show their pinned tools, or wait for them a while.

Many clients read the list once, right after the hub was started. An empty list would leave them without tools. The
pinned tools of a server are those that were approved when it was last seen. Its own offer replaces them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from interlock.config.settings import Config
from interlock.hub.approvals.permissions import Permissions
from interlock.hub.approvals.pins import pinned_offer
from interlock.hub.auth.access import Access
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.audiences import DECLARES
from interlock.hub.catalog.quarantine import Quarantine
from interlock.hub.catalog.views import Catalog
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.store import Store

BEFORE_PINNED_S: Final = 0.3
"""How long a list waits for a server whose pinned tools can be shown. Agents that start the hub themselves begin their
first turn without its tools after one or two seconds."""
AUDIENCE_WAIT_S: Final = 1.0
"""How long a list waits for the tools that servers offer only to clients with the capabilities of this one, where they
were asked before. It shows all other tools in any case, and waits no longer for the same reason."""


class StartingServers:
    """Decides how long a list waits for servers, and shows their pinned tools until they are listed."""

    def __init__(
        self,
        upstreams: Upstreams,
        catalog: Catalog,
        access: Access,
        permissions: Permissions,
        quarantine: Quarantine,
        config: Callable[[], Config],
        store: Callable[[], Store],
    ) -> None:
        self._upstreams = upstreams
        self._catalog = catalog
        self._access = access
        self._permissions = permissions
        self._quarantine = quarantine
        self._config = config
        self._store = store
        self._shown: dict[str, asyncio.Task[bool]] = {}
        """By server, the task that shows or showed its pinned tools. A server's pins are read once."""

    def within(self, scope: ListScope) -> list[Upstream]:
        """The servers of a list scope that are starting, and of which the hub shows nothing yet."""
        only, principal = scope.view.server, scope.principal
        starting = [each for each in self._upstreams if each.starting and only in (None, each.id)]
        return [each for each in starting if self._waits_for(each) and self._access.reaches(principal, each.id)]

    def with_extensions(self, scope: ListScope) -> list[Mapping[str, object]]:
        """The capabilities of the servers of a list scope that declare extensions, as far as they are known."""
        known = ((each.id, each.capabilities) for each in self._upstreams)
        declaring = [(server, caps) for server, caps in known if caps and "extensions" in caps]
        return [each for server, each in declaring if self._access.reaches(scope.principal, server)]

    async def wait(self, starting: Iterable[Upstream]) -> None:
        """Wait until the servers are listed or down, each at most for `first_list_s` since it began to start.

        A server with pinned tools is not waited for longer than a moment.
        """
        await asyncio.gather(*(self._wait_for(each) for each in starting))

    def unasked(self, scope: ListScope) -> list[Upstream]:
        """The servers of a list scope that were not asked yet what they offer to clients like this one."""
        declared, only = _declared(scope), scope.view.server
        if not declared:
            return []
        unknown = [
            each for each in self._upstreams if only in (None, each.id) and each.audience_lists.unknown(declared)
        ]
        return [each for each in unknown if self._access.reaches(scope.principal, each.id)]

    async def ask(self, scope: ListScope) -> None:
        """Ask these servers, and wait for their answers: a moment, or as for a new server where one was never asked.

        Clients are notified of later answers. Many read the list once and ignore that.
        """
        declared, unasked = _declared(scope), self.unasked(scope)
        first = any(not each.audience_lists.asked(declared) for each in unasked)
        asking = [asyncio.ensure_future(each.audience_lists.ask(declared)) for each in unasked]
        if asking:
            await asyncio.wait(asking, timeout=self._config().hub.timeouts.first_list_s if first else AUDIENCE_WAIT_S)

    async def on_configured(self, servers: Iterable[str]) -> None:
        """Show the pinned tools of servers that start on demand, until they run.

        A server without pins is started once, since nobody could ask for its tools.
        """
        for server in servers:
            self._shown.pop(server, None)
            upstream, offer = self._upstreams.get(server), self._catalog.offer(server)
            if upstream is None or upstream.settings.start != "on-demand" or offer is None or offer.tools:
                continue
            if not await self._show_pinned(upstream):
                upstream.supervisor.want()

    def _waits_for(self, upstream: Upstream) -> bool:
        """Whether a list still waits. After the time is over, it waits until the pinned tools are shown."""
        offer = self._catalog.offer(upstream.id)
        if offer is None or offer.tools:
            return False
        shown = self._shown.get(upstream.id)
        return self._left_s(upstream) > 0 or shown is None or not shown.done()

    async def _wait_for(self, upstream: Upstream) -> None:
        left_s = max(0.0, self._left_s(upstream))
        if await _started(upstream, min(left_s, BEFORE_PINNED_S)) or await self._show_pinned(upstream):
            return
        await _started(upstream, max(0.0, self._left_s(upstream)))

    def _left_s(self, upstream: Upstream) -> float:
        return upstream.supervisor.began + self._config().hub.timeouts.first_list_s - time.monotonic()

    async def _show_pinned(self, upstream: Upstream) -> bool:
        """Offer the pinned tools of a server. Lists that wait for the same server share the work."""
        task = self._shown.get(upstream.id)
        if task is None:
            task = self._shown[upstream.id] = asyncio.create_task(self._offer_pinned(upstream))
        return await asyncio.shield(task)

    async def _offer_pinned(self, upstream: Upstream) -> bool:
        known = await pinned_offer(self._store(), upstream.id, upstream.settings)
        if known is None or upstream.lists.known:
            return known is not None
        await self._permissions.take(known)
        await self._quarantine.take(known)
        if upstream.lists.known:
            # The server was listed meanwhile, and its pinned tools may have replaced that list.
            upstream.lists_changed()
        return True


def _declared(scope: ListScope) -> str:
    """The audience of the capabilities that a client declares; empty without any."""
    return next((each for each in scope.audiences if each.startswith(DECLARES)), "")


async def _started(upstream: Upstream, within_s: float) -> bool:
    """Wait until a server is listed or down. False if the time is up."""
    try:
        async with asyncio.timeout(within_s):
            await upstream.supervisor.started()
    except TimeoutError:
        return False
    return True
