"""One address of the console: checks host, origin, session and form token before a handler runs.

Every response has the same strict headers, and every failure is answered with a page.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.web.console.rendering import render
from interlock.web.console.sessions import ConsoleSession, ConsoleSessions, LoginAttempts
from interlock.web.rest.outcomes import status_of
from interlock.wire.errors import Fault, internal_error

log = logging.getLogger("interlock.console")

COOKIE: Final = "interlock_console"
LOGIN: Final = "/console/login"
MAX_FORM_BYTES: Final = 128 * 1024
"""Bytes of a form of a logged-in person. A character of a field takes up to 12 bytes."""
MAX_PUBLIC_FORM_BYTES: Final = 16 * 1024
MAX_FIELDS: Final = 16
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    # With `no-referrer`, browsers would send `Origin: null` with forms. Other sites get no Referer in any case.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

Result = TypeVar("Result", bound=msgspec.Struct)


class Visit(msgspec.Struct):
    """A request with the session that it belongs to."""

    console: Console
    request: Request
    session: ConsoleSession
    form: dict[str, str] = {}

    @property
    def is_owner(self) -> bool:
        """Whether the person is the hub's own user."""
        return self.session.principal == self.console.operations.hub_user

    async def perform(self, operation: str, kind: type[Result], /, **params: object) -> Result:
        """Perform an operation with the rights of the person. It returns a struct of this type."""
        principal = self.session.principal
        result = await self.console.operations.perform(
            principal, operation, msgspec.json.encode(params), logged_in=True
        )
        if not isinstance(result, kind):
            raise TypeError(f"{operation} returned a {type(result).__name__}")
        return result

    async def page(self, template: str, **values: object) -> Response:
        """A page with the navigation of a person who is logged in."""
        own = {
            "person": self.session.principal.id,
            "token": self.session.form_token,
            "owner": self.is_owner,
            "needs_passphrase": self.console.hub_app.passphrase.needed,
        }
        return HTMLResponse(await render(template, {**own, **values}))


Handler = Callable[[Visit], Awaitable[Response]]
PublicHandler = Callable[[Request, dict[str, str]], Awaitable[Response]]


class Console:
    """State that all addresses of the console share."""

    def __init__(self, hub_app: HubApp, operations: Operations) -> None:
        self.hub_app = hub_app
        self.operations = operations
        self.sessions = ConsoleSessions(hub_app.access, hub_app.passphrase)
        self.attempts = LoginAttempts()

    def demand_host(self, request: Request) -> None:
        """Refuse a request to another host name of the hub, and a form from another origin. Raises ORIGIN_REFUSED."""
        host = host_of(request)
        if (
            host != self.operations.console.address.local_host
            and host not in self.operations.console.address.public_hosts
        ):
            raise Fault(
                "ORIGIN_REFUSED", "the console has an address of its own", hint="`interlock console` shows the address"
            )
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            raise Fault("ORIGIN_REFUSED", "the request comes from another site")
        if request.method == "POST" and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Fault("ORIGIN_REFUSED", "the form comes from another site")

    def is_local(self, request: Request) -> bool:
        """Whether the browser runs on the hub's machine, where HTTP needs no encryption."""
        return host_of(request) == self.operations.console.address.local_host

    def session_of(self, request: Request, *, active: bool) -> ConsoleSession | None:
        """The session that the cookie names."""
        return self.sessions.find(request.cookies.get(COOKIE, ""), active=active)


class _Address:
    """Answers requests to one address, and every failure of its handlers."""

    def __init__(self, console: Console, methods: tuple[str, ...]) -> None:
        self._console = console
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._checked(request)
        except Fault as fault:
            response = await self._failure(request, fault)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            response = await self._failure(request, internal_error())
        response.headers.update(HEADERS)
        await response(scope, receive, send)

    async def _checked(self, request: Request) -> Response:
        self._console.demand_host(request)
        if _method_of(request) not in self._methods:
            allowed = ", ".join(self._methods)
            raise Fault("METHOD_NOT_ALLOWED", f"{request.method} is not supported here", hint=f"use {allowed}")
        self._console.hub_app.access.freshness.demand()
        return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        raise NotImplementedError

    async def _failure(self, request: Request, fault: Fault) -> Response:
        session = None
        if fault.name != "ORIGIN_REFUSED":
            session = self._console.session_of(request, active=False)
        status = status_of(fault)
        values: dict[str, object] = {"status": status, "message": fault.message, "hint": fault.hint}
        values |= {"person": "", "token": ""}
        if session is not None:
            values |= {"person": session.principal.id, "token": session.form_token}
        response = HTMLResponse(await render("error.html", values), status)
        if fault.retry_after_ms is not None:
            response.headers["retry-after"] = str(max(1, -(-fault.retry_after_ms // 1000)))
        return response


class Page(_Address):
    """An address for people who are logged in.

    `part`: a fragment that an open page fetches by itself. Fetching it does not keep the session alive.
    """

    def __init__(self, console: Console, methods: dict[str, Handler], *, part: bool = False) -> None:
        super().__init__(console, tuple(methods))
        self._handlers = methods
        self._part = part

    async def _answer(self, request: Request) -> Response:
        session = self._console.session_of(request, active=not self._part or request.method == "POST")
        if session is None:
            if self._part or request.method == "POST":
                raise Fault("AUTH_REQUIRED", "you are not logged in, or your session has ended", hint="log in again")
            return RedirectResponse(LOGIN, 303)
        form: dict[str, str] = {}
        if request.method == "POST":
            form = await read_form(request, MAX_FORM_BYTES)
            if not secrets.compare_digest(form.pop("token", "").encode(), session.form_token.encode()):
                raise Fault("ACCESS_DENIED", "this form is not of your session", hint="open the page again")
        return await self._handlers[_method_of(request)](Visit(self._console, request, session, form))


class PublicPage(_Address):
    """An address for people who are not logged in yet."""

    def __init__(self, console: Console, methods: dict[str, PublicHandler]) -> None:
        super().__init__(console, tuple(methods))
        self._handlers = methods

    async def _answer(self, request: Request) -> Response:
        form = await read_form(request, MAX_PUBLIC_FORM_BYTES) if request.method == "POST" else {}
        return await self._handlers[_method_of(request)](request, form)


async def read_form(request: Request, most: int) -> dict[str, str]:
    """The fields of a form. Raises a Fault for a body that is none, or too long."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Fault("UNSUPPORTED_MEDIA_TYPE", "the body must be a form")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise Fault("TOO_LARGE", f"a form has at most {most} bytes")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise Fault("INVALID_PARAMS", "the form cannot be read") from None
    found = dict(fields)
    if len(found) != len(fields):
        raise Fault("INVALID_PARAMS", "a field is given twice")
    return found


def host_of(request: Request) -> str:
    return request.headers.get("host", "").lower()


def _method_of(request: Request) -> str:
    return "GET" if request.method == "HEAD" else request.method
