"""Resource subscriptions: many clients share one subscription at the server, which ends with the last of them.

A client with its own process of the server, or its own session with it, is subscribed there too, as its calls change
resources there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.handlers.own_resources import OWN
from interlock.hub.sessions.session import ConnectionUser
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.open_counts import OpenCounts
from interlock.process.task_set import TaskSet
from interlock.wire.errors import Fault

MAX_OF_PRINCIPAL: Final = 10_000
"""Upper bound for the subscriptions of a principal, over all its streams and sessions."""

Notify = Callable[[], None]


class ResourceSubscriptions:
    """Keeps the subscriptions at servers in step with those of clients."""

    def __init__(self, change_notifier: ChangeNotifier, upstreams: Upstreams) -> None:
        self._change_notifier = change_notifier
        self._upstreams = upstreams
        self._dropping = TaskSet()
        self.one_at_a_time = asyncio.Lock()
        """Held by the stream that resolves its addresses: two hundred at once would take all of the loop's time."""
        self._open: OpenCounts[str] = OpenCounts()
        """Subscriptions by the principal of their client."""

    async def add(self, server: str, uri: str, client: object, notify: Notify, origin: ConnectionUser) -> None:
        """Subscribe `client` to a resource. Raises RESOURCE_EXHAUSTED or the server's refusal."""
        refused = await self.add_all(server, {uri: notify}, client, origin)
        if refused:
            raise refused[uri]

    async def add_all(
        self, server: str, notifiers: Mapping[str, Notify], client: object, origin: ConnectionUser
    ) -> Mapping[str, Fault]:
        """Subscribe `client` to resources of a server. Returns those that the server refused.

        Raises RESOURCE_EXHAUSTED, and faults that concern all of them.
        """
        principal_name = origin.caller.principal_name
        self.check(principal_name, len(notifiers))
        if server in OWN:
            self._begin(server, notifiers, client, None, principal_name)
            return {}
        upstream = self._upstreams[server]
        # Only a connected server tells its era, which decides whose connection the caller's calls use.
        await upstream.open_connection(None)
        self.check(principal_name, len(notifiers))
        key = upstream.key_for(origin)
        name = None if key is None else key.name
        self._begin(server, notifiers, client, name, principal_name)
        try:
            refused = await upstream.subscribe(notifiers, name)
        except BaseException:
            self._end(((server, uri) for uri in notifiers), client)
            raise
        self._end(((server, uri) for uri in refused), client)
        return refused

    def expect(self, server: str, uri: str, client: object, notify: Notify, principal_name: str) -> None:
        """Subscribe `client` to a resource of a server that is down, for when its shared connection is back."""
        self._begin(server, {uri: notify}, client, None, principal_name)

    def drop(self, resources: Iterable[tuple[str, str]], client: object) -> None:
        """Unsubscribe `client` from resources of servers. The last one to leave also ends subscriptions at a server."""
        for server, connection_key in self._end(resources, client):
            upstream = self._upstreams.get(server)
            if upstream is not None:
                self._dropping.begin(upstream.unsubscribe(connection_key))

    def check(self, principal_name: str, more: int) -> None:
        """Raise RESOURCE_EXHAUSTED if a principal may not have `more` further subscriptions."""
        if self._open[principal_name] + more > MAX_OF_PRINCIPAL:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                f"a principal may watch {MAX_OF_PRINCIPAL:,} resources",
                hint="watch fewer, or end streams and sessions that watch others",
            )

    def _begin(
        self,
        server: str,
        notifiers: Mapping[str, Notify],
        client: object,
        connection_key: str | None,
        principal_name: str,
    ) -> None:
        for uri, notify in notifiers.items():
            if self._change_notifier.subscribe(server, uri, client, notify, connection_key, principal_name):
                self._open.add(principal_name)

    def _end(self, resources: Iterable[tuple[str, str]], client: object) -> dict[tuple[str, str | None], None]:
        """Returns the servers concerned, each with the private connection of the client."""
        concerned: dict[tuple[str, str | None], None] = {}
        for server, uri in resources:
            removed = self._change_notifier.unsubscribe(server, uri, client)
            if removed is not None:
                concerned[server, removed.connection_key] = None
                self._open.add(removed.principal_name, -1)
        return concerned
