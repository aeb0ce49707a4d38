"""Resource subscriptions: many who want to know, one subscription at the server, dropped with the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.hub.notices import Notices
from interlock.hub.upstreams.upstreams import Upstreams


class Subscriptions:
    """Joins what clients want with what servers were asked for."""

    def __init__(self, notices: Notices, upstreams: Upstreams) -> None:
        self._notices = notices
        self._upstreams = upstreams
        self._dropping: set[asyncio.Task[None]] = set()

    async def add(self, server: str, uri: str, who: object, tell: Callable[[], None]) -> None:
        """Tell `who` of a resource's updates. Raises what the server says against it."""
        if self._notices.subscribe(server, uri, who, tell):
            try:
                await self._upstreams[server].subscribe(uri)
            except BaseException:
                self._notices.unsubscribe(server, uri, who)
                raise

    def drop(self, server: str, uri: str, who: object) -> None:
        """Tell `who` no more; the server is told when nobody is left."""
        upstream = self._upstreams.get(server)
        if self._notices.unsubscribe(server, uri, who) and upstream is not None:
            task = asyncio.ensure_future(upstream.unsubscribe(uri))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)
