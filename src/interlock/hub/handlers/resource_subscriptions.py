"""Resource subscriptions: many who want to know, one subscription at the server, dropped with the last of them.

Whoever has a process of the server for themselves is subscribed there too: what they change, they change there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from interlock.hub.calls.call import Caller
from interlock.hub.handlers.notifications import ChangeNotifier
from interlock.hub.upstreams.sharing import connection_key
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.transports.exchange import Exchange


class ResourceSubscriptions:
    """Joins what clients want with what servers were asked for."""

    def __init__(self, change_notifier: ChangeNotifier, upstreams: Upstreams) -> None:
        self._change_notifier = change_notifier
        self._upstreams = upstreams
        self._dropping: set[asyncio.Task[None]] = set()

    async def add(self, server: str, uri: str, who: object, tell: Callable[[], None], asked: Exchange) -> None:
        """Tell `who` of a resource's updates, as a request asked for. Raises what the server says against it."""
        upstream = self._upstreams[server]
        # Which connection the caller's own calls take depends on what the server speaks.
        await upstream.open_connection(None)
        caller = cast(Caller, asked.caller)
        own = connection_key(upstream.share, upstream.modern, upstream.settings.url is not None, caller.owner, asked)
        name = None if own is None else own.name
        self._change_notifier.subscribe(server, uri, who, tell, name)
        try:
            await upstream.subscribe(uri, name)
        except BaseException:
            self._change_notifier.unsubscribe(server, uri, who)
            raise

    def drop(self, server: str, uri: str, who: object) -> None:
        """Tell `who` no more; the server is told when nobody is left."""
        gone, upstream = self._change_notifier.unsubscribe(server, uri, who), self._upstreams.get(server)
        if gone is not None and upstream is not None:
            task = asyncio.ensure_future(upstream.unsubscribe(gone.connection_key))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)
