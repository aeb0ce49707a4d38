"""The pages for logins to servers: the callback of a browser, and the page that starts a login for an agent.

Both identify a login by a secret of 256 bits in their address, which is valid once and for ten minutes. The page that
starts a login is served only to browsers on this machine, so that nobody can send its link to somebody elsewhere.
"""

from __future__ import annotations

import html
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from interlock.config.listen import is_loopback
from interlock.hub.app import HubApp
from interlock.hub.upstreams.login_tickets import START
from interlock.hub.upstreams.pending_logins import CALLBACK
from interlock.wire.errors import Fault
from interlock.wire.visible_text import plain

_HEADERS: Final = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
_GONE: Final = "This link was used, or is older than ten minutes. Call the tool again for a new one."


def login_routes(hub_app: HubApp) -> list[Route]:
    """The routes, for an application to take in."""

    async def callback(request: Request) -> Response:
        try:
            server = await hub_app.login_parts.finish(f"{CALLBACK}?{request.url.query}")
        except Fault as fault:
            return _text(f"{fault.message}.", 400)
        return _text(f"You are logged in to {server}. You can close this page.")

    async def start(request: Request) -> Response:
        ticket = request.path_params["ticket"]
        if request.client is None or not is_loopback(request.client.host):
            return _text("This page is for browsers on the hub's own machine.", 403)
        found = (
            hub_app.logins.tickets.peek(ticket) if request.method == "GET" else hub_app.logins.tickets.redeem(ticket)
        )
        if found is None:
            return _text(_GONE, 404)
        if request.method == "GET":
            return HTMLResponse(_page(found.server, found.by.id), headers=_HEADERS)
        try:
            redirect = hub_app.login_parts.redirect_uri
            waiting = await hub_app.logins.pending.begin(found.server, found.principal, redirect, found.by)
        except Fault as fault:
            return _text(f"{fault.message}. {fault.hint}", 502)
        return RedirectResponse(waiting.pending.request.url, 303, headers=_HEADERS)

    return [
        Route(CALLBACK, callback, methods=["GET"]),
        Route(START + "{ticket}", start, methods=["GET", "POST"]),
    ]


def _text(text: str, status: int = 200) -> Response:
    return PlainTextResponse(plain(text) + "\n", status, headers=_HEADERS)


def _page(server: str, agent: str) -> str:
    shown, asker = (html.escape(plain(text)) for text in (server, agent))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Log in</title>'
        f"<h1>Log in to {shown}</h1><p>{asker} called a tool of {shown}, which needs a login. You continue at the "
        "login page of that server. Log in only if you asked for this.</p>"
        '<form method="post"><button>Continue</button></form></html>'
    )
