"""`POST /hooks/{name}`: incoming webhooks. The body is bounded, and its signature is verified before it is decoded."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.hub.app import HubApp
from interlock.hub.live.events.webhook_intake import MAX_BYTES
from interlock.wire.errors import Fault


def hook_routes(hub_app: HubApp) -> list[Route]:
    """The route, for an application to take in."""

    async def receive(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            if (refusal := hub_app.refusal) is not None:
                raise refusal[1]
            body = await _body(request)
            answer = await hub_app.live.hooks.receive(name, dict(request.headers), body)
        except Fault as fault:
            headers = {}
            if fault.retry_after_ms is not None:
                headers["retry-after"] = str(-(-fault.retry_after_ms // 1000))
            status = 429 if fault.name == "RATE_LIMITED" else fault.kind.http
            return JSONResponse({"error": fault.name, "message": fault.message}, status_code=status, headers=headers)
        except ClientDisconnect:
            return Response(status_code=400)
        answer_body: dict[str, object] = {"accepted": answer.accepted}
        if answer.reason is not None:
            answer_body["reason"] = answer.reason
        return JSONResponse(answer_body)

    return [Route("/hooks/{name}", receive, methods=["POST"])]


async def _body(request: Request) -> bytes:
    """The whole body. Raises TOO_LARGE."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise Fault("TOO_LARGE", f"a message has at most {MAX_BYTES} bytes")
    return body
