"""`/.well-known/oauth-protected-resource`, for the hub and for each of its MCP addresses (RFC 9728).

The answer is the same for every caller, so it reveals nothing about what exists at an address.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.hub.app import HubApp
from interlock.hub.auth.oauth.resource import WELL_KNOWN
from interlock.hub.authentication import is_mcp_path
from interlock.transports.http.server.legacy_sse_paths import mcp_path_of

_HEADERS = {"cache-control": "max-age=300", "x-content-type-options": "nosniff"}


def well_known_routes(hub_app: HubApp) -> list[Route]:
    """The routes, for an application to take in."""

    async def protected_resource(request: Request) -> Response:
        path = request.url.path.removeprefix(WELL_KNOWN)
        if mcp_path_of(path) is not None and is_mcp_path(mcp_path_of(path) or ""):
            path = ""  # The older transport accepts a token for the whole hub.
        if hub_app.oauth is None or not (path in ("", "/") or is_mcp_path(path)):
            return JSONResponse({"error": "not_found"}, status_code=404)
        return JSONResponse(hub_app.oauth.resource.metadata(path.rstrip("/")), headers=_HEADERS)

    return [Route(WELL_KNOWN, protected_resource), Route(WELL_KNOWN + "/{path:path}", protected_resource)]
