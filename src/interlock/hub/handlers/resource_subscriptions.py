"""Resource subscriptions: many clients share one subscription at the server, which ends with the last of them.

A client with its own process of the server is subscribed there too, as its calls change resources there.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.handlers.own_resources import OWN
from interlock.hub.sessions.session import Origin
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.task_set import TaskSet


class ResourceSubscriptions:
    """Keeps the subscriptions at servers in step with those of clients."""

    def __init__(self, change_notifier: ChangeNotifier, upstreams: Upstreams) -> None:
        self._change_notifier = change_notifier
        self._upstreams = upstreams
        self._dropping = TaskSet()

    async def add(self, server: str, uri: str, client: object, notify: Callable[[], None], origin: Origin) -> None:
        """Subscribe `client` to a resource. Raises the server's refusal."""
        if server in OWN:
            self._change_notifier.subscribe(server, uri, client, notify, None)
            return
        upstream = self._upstreams[server]
        # Only a connected server tells its era, which decides whose connection the caller's calls use.
        await upstream.open_connection(None)
        key = upstream.key_for(origin)
        name = None if key is None else key.name
        self._change_notifier.subscribe(server, uri, client, notify, name)
        try:
            await upstream.subscribe(uri, name)
        except BaseException:
            self._change_notifier.unsubscribe(server, uri, client)
            raise

    def expect(self, server: str, uri: str, client: object, notify: Callable[[], None]) -> None:
        """Subscribe `client` to a resource of a server that is down, for when its shared connection is back."""
        self._change_notifier.subscribe(server, uri, client, notify, None)

    def drop(self, server: str, uri: str, client: object) -> None:
        """Unsubscribe `client`. The last one to leave also ends the subscription at the server."""
        removed, upstream = self._change_notifier.unsubscribe(server, uri, client), self._upstreams.get(server)
        if removed is not None and upstream is not None:
            self._dropping.begin(upstream.unsubscribe(removed.connection_key))
