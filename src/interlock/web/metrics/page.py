"""The address `/metrics`. By default only administrators may read it.

The page is made at most once a second, however often it is requested.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.hub.app import HubApp
from interlock.protocols.traces import new_trace_id
from interlock.rooms.gateway import Gateway
from interlock.transports.http.server.listener import HttpListener
from interlock.web.metrics.gather import GatheredMetrics, gather
from interlock.web.rest.outcomes import RequestInfo, refusal
from interlock.wire.errors import Fault

MAX_AGE_S: Final = 1.0
ENTRANCE: Final = "/mcp"
_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class MetricsPage:
    def __init__(self, hub_app: HubApp, listener: HttpListener | None = None, rooms: Gateway | None = None) -> None:
        self._hub_app = hub_app
        self._rooms = rooms
        self._page = b""
        self._made_at = float("-inf")
        self._making: asyncio.Future[None] | None = None
        self.listener = listener
        """The HTTP listener, once there is one."""

    @property
    def routes(self) -> list[Route]:
        """The route, for an application to include."""
        return [Route("/metrics", self._serve)]

    async def _serve(self, request: Request) -> Response:
        try:
            await self._admit(request)
            await self._renew()
        except Fault as fault:
            return refusal(fault, RequestInfo(new_trace_id()))
        return Response(self._page, headers=_HEADERS, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _admit(self, request: Request) -> None:
        """Raises a `Fault` for a caller that may not read."""
        hub_app = self._hub_app
        match hub_app.config.hub.metrics:
            case "off":
                raise Fault("METHOD_NOT_FOUND", "/metrics is turned off")
            case "open":
                return
        caller = await hub_app.authenticator.admit_in_time(ENTRANCE, dict(request.scope["headers"]))
        hub_app.access.demand(caller.principal, "read metrics")

    async def _renew(self) -> None:
        if not self._hub_app.is_started:
            raise Fault("SERVER_NOT_READY", "the hub is starting", retry_after_ms=500)
        if self._making is None and time.monotonic() - self._made_at >= MAX_AGE_S:
            self._making = asyncio.ensure_future(self._make())
        if self._making is not None:
            await asyncio.shield(self._making)

    async def _make(self) -> None:
        try:
            gathered = await gather(self._hub_app, self.listener, self._rooms)
            self._page = await asyncio.to_thread(_rendered, gathered)
            self._made_at = time.monotonic()
        finally:
            self._making = None


def _rendered(gathered: GatheredMetrics) -> bytes:
    from interlock.web.metrics.render import render  # The first import takes long, so a thread does it, too.

    return render(gathered)
