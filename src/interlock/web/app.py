"""HTTP routes other than MCP: health, REST, the admin API and the console."""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.hub.upstreams.states import ServerState
from interlock.transports.exchange import Service
from interlock.version import VERSION
from interlock.web.admin.routes import admin_paths, admin_routes
from interlock.web.console.routes import console_routes
from interlock.web.hooks import hook_routes
from interlock.web.login_pages import login_routes
from interlock.web.metrics.page import MetricsPage
from interlock.web.rest.routes import rest_routes
from interlock.web.well_known import well_known_routes

NOT_READY: Final = {
    "starting": "the hub is starting",
    "stopping": "the hub is shutting down",
    "servers": "servers are starting",
    "keys": "the database does not answer, so the hub cannot know which keys and grants are valid",
    "audit": "the audit log cannot be written",
}
"""The text of `/readyz` for each `reason`."""


def make_app(
    hub_app: HubApp,
    service: Service | None = None,
    operations: Operations | None = None,
    metrics: MetricsPage | None = None,
) -> Starlette:
    """The routes besides the MCP addresses. `service` replaces the hub's own, for observers. Without `operations`, the
    admin API makes its own."""
    operations = operations or Operations(hub_app, lambda: None)
    metrics = metrics or MetricsPage(hub_app)

    async def root(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"Interlock {VERSION}\nMCP is served at /mcp, REST at /tools (see /docs)\n")

    async def healthz(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def readyz(request: Request) -> JSONResponse:
        """Ready when the hub accepts calls and no eager server is still starting. A failed server does not count."""
        waiting = [
            upstream.id
            for upstream in hub_app.upstreams
            if upstream.settings.start == "eager" and upstream.state in (ServerState.REGISTERED, ServerState.CONNECTING)
        ]
        refusal = hub_app.refusal
        ready = refusal is None and not waiting
        conditions = Counter(upstream.condition for upstream in hub_app.upstreams)
        answer: dict[str, object] = {"ready": ready, "waiting": len(waiting)}
        answer |= {word: conditions[word] for word in ("degraded", "unhealthy", "down")}
        if not ready:
            # Anybody may read this, so it only names the kind of the problem. `interlock status` has the details.
            answer["reason"] = "servers" if refusal is None else refusal[0]
            answer["message"] = NOT_READY[str(answer["reason"])]
        return JSONResponse(answer, status_code=200 if ready else 503)

    own = [Route("/", root), Route("/healthz", healthz), Route("/readyz", readyz)]
    rest = rest_routes(service or hub_app.service, hub_app.authenticator, admin_paths(hub_app), hub_app.limits)
    admin = admin_routes(hub_app, operations)
    console = console_routes(hub_app, operations)
    return Starlette(
        routes=[
            *own,
            *hook_routes(hub_app),
            *metrics.routes,
            *well_known_routes(hub_app),
            *login_routes(hub_app),
            *rest,
            *admin,
            *console,
        ]
    )
