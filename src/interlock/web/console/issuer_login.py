"""Login to the console at an issuer of `[hub.oauth]`: the authorization code flow with PKCE.

The person gets the rights of the access token, as with the admin API. The hub stores nothing about an unfinished login.
A sealed cookie of the browser has its data, so a callback counts only in the browser that began the login.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from interlock.client.oauth.endpoints import Endpoints
from interlock.config.settings import IssuerSettings, Rate
from interlock.hub.auth.oauth.token_authentication import TokenAuthentication
from interlock.hub.auth.principals import Principal
from interlock.hub.rate_meter import Meter
from interlock.protocols.oauth.authorization import AuthorizationRequest, authorization_request, code_of
from interlock.protocols.oauth.clients import ClientSettings, RegisteredClient, known_client
from interlock.protocols.oauth.metadata import ServerMetadata
from interlock.protocols.oauth.tokens import as_client, code_request, read_tokens
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.transports.resolving import Resolver
from interlock.web.console.login import HOME, ConsoleLogin
from interlock.web.console.page import LOGIN, Console, host_of
from interlock.web.console.rendering import render
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault

CALLBACK: Final = f"{LOGIN}/callback"
BEGIN: Final = f"{LOGIN}/issuer"
LASTS: Final = timedelta(minutes=10)
METADATA_S: Final = 300.0
MAX_COOKIE: Final = 4096
MAX_ASKING: Final = 8
"""Concurrent logins that ask one issuer. Further ones wait."""
MAX_WAITING: Final = 32
"""Logins that wait for one issuer. Further ones are refused."""
REDEEMED_PER_MINUTE: Final = 60
"""Logins of all people per minute for which the hub asks issuers, because issuers limit the hub's requests."""
MAX_REDEEMED: Final = 10_000
"""Used logins that are remembered, each for ten minutes."""
RETRY_AFTER_MS: Final = 5000
WAY: Final = " at an issuer"
"""The count of failures for this kind of login. It is separate, because the issuer may be down."""


class LoginCookie(msgspec.Struct, frozen=True):
    """An unfinished login, as stored in the browser's cookie."""

    request: AuthorizationRequest
    expires: datetime


class IssuerPlaces:
    """The places for logins that ask one issuer. A slow issuer delays only the logins at it."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_ASKING)
        self._waiting = 0

    def demand(self) -> None:
        """Raise RESOURCE_EXHAUSTED if too many logins wait for this issuer."""
        if self._waiting >= MAX_WAITING:
            message = f"{MAX_WAITING} logins wait for this issuer"
            raise Fault("RESOURCE_EXHAUSTED", message, hint="try again later", retry_after_ms=RETRY_AFTER_MS)

    async def __aenter__(self) -> None:
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1

    async def __aexit__(self, *_: object) -> None:
        self._free.release()


class IssuerLogin:
    """The logins of one console at issuers."""

    def __init__(self, console: Console, login: ConsoleLogin) -> None:
        self._console = console
        self._login = login
        self._resolver = Resolver()
        self._encryption = Encryption(console.hub_app.keys.derived(b"console login"))
        self._places: dict[str, IssuerPlaces] = {}
        """By the names of issuers in the configuration."""
        self._rate = Meter("logins at issuers", Rate(per_minute=REDEEMED_PER_MINUTE))
        self._redeemed: dict[str, None] = {}
        """The states of logins that came back, oldest first. Each may ask the issuer once."""
        self._metadata: dict[str, tuple[float, ServerMetadata]] = {}
        """Of issuers in the configuration, and when each was read."""

    async def begin(self, request: Request, form: dict[str, str]) -> Response:
        """Show a page that sends the browser to the issuer. The content security policy forbids a form to do so."""
        self._login.demand_https(request)
        self._login.demand_few_failures(request, WAY)
        oauth, name, issuer = self._issuer(form.get("issuer", ""))
        local = self._console.is_local(request)
        places = self._places_at(issuer.issuer or "")
        places.demand()
        try:
            async with places:
                metadata, client = await self._discovered(issuer)
            back = f"{'http' if local else 'https'}://{host_of(request)}{_callback(name)}"
            scopes = tuple(issuer.scopes)
            authorization = authorization_request(metadata, client.client_id, back, oauth.resource.base, scopes)
        except Fault as fault:
            return await self._login.refuse(request, fault, WAY)
        values: dict[str, object] = {"url": authorization.url, "at": urlsplit(authorization.url).netloc, "person": ""}
        response = HTMLResponse(await render("login_issuer.html", values))
        began = LoginCookie(msgspec.structs.replace(authorization, url=""), self._console.hub_app.access.now() + LASTS)
        response.set_cookie(
            _cookie(local),
            self._sealed(began, host_of(request)),
            max_age=int(LASTS.total_seconds()),
            path="/",
            secure=not local,
            httponly=True,
            # The issuer redirects from another site, so the browser would not send `strict` cookies.
            samesite="lax",
        )
        return response

    async def finish(self, request: Request, form: dict[str, str]) -> Response:
        """Redeem the code that the issuer gave to this browser."""
        local = self._console.is_local(request)
        try:
            began = self._opened(request.cookies.get(_cookie(local), ""), host_of(request))
        except Fault as fault:
            # Any site can send a browser here. That costs little, so it is neither counted nor recorded.
            return await self._login.show_refusal(fault)
        # Check before the issuer is asked, so that a stranger cannot cause endless requests.
        self._login.demand_few_failures(request, WAY)
        try:
            _demand_callback(began, request)
            code = code_of(began.request, f"{CALLBACK}?{request.url.query}")
            self._demand_unused(began)
        except Fault as fault:
            return _without_cookie(await self._login.refuse(request, fault, WAY), local)
        places = self._places_at(began.request.issuer)
        # A login that finds no place comes back later: its cookie stays valid.
        places.demand()
        self._demand_rate()
        self._redeem(began)
        try:
            async with places:
                principal = await self._principal(began, code)
        except Fault as fault:
            return _without_cookie(await self._login.refuse(request, fault, WAY), local)
        # Not a redirect: the browser would count it as cross-site, and not send the new cookie.
        page = HTMLResponse(await render("logged_in.html", {"home": HOME, "person": ""}))
        return _without_cookie(self._login.open_session(request, principal, "token", page, proven=True), local)

    def _places_at(self, issuer: str) -> IssuerPlaces:
        return self._places.setdefault(issuer, IssuerPlaces())

    def _demand_rate(self) -> None:
        """Count a login that asks its issuer. Raises RATE_LIMITED."""
        wait = self._rate.take_if_allowed(time.monotonic())
        if wait > 0:
            message = f"{REDEEMED_PER_MINUTE} people logged in at an issuer within a minute"
            raise Fault("RATE_LIMITED", message, hint="reload this page later", retry_after_ms=int(wait * 1000) + 1)

    def _demand_unused(self, began: LoginCookie) -> None:
        """Raises LOGIN_REQUIRED if a login was used before, so that the issuer is asked only once."""
        if began.request.state in self._redeemed:
            raise Fault("LOGIN_REQUIRED", "This login came back before", hint="Log in again.")

    def _redeem(self, began: LoginCookie) -> None:
        """Use up a login."""
        if len(self._redeemed) >= MAX_REDEEMED:
            del self._redeemed[next(iter(self._redeemed))]
        self._redeemed[began.request.state] = None

    def _issuer(self, named: str) -> tuple[TokenAuthentication, str, IssuerSettings]:
        oauth = self._console.hub_app.oauth
        for name, issuer in {} if oauth is None else oauth.settings.by_name.items():
            if oauth is not None and issuer.console_client_id is not None and issuer.issuer == named:
                return oauth, name, issuer
        raise Fault("ACCESS_DENIED", "people do not log in to this console at that issuer")

    async def _discovered(self, issuer: IssuerSettings) -> tuple[ServerMetadata, RegisteredClient]:
        """The issuer's endpoints, and the hub as its client."""
        name = issuer.issuer or ""
        read_at, metadata = self._metadata.get(name, (0.0, None))
        if metadata is None or time.monotonic() > read_at + METADATA_S:
            metadata = await self._endpoints(name).server(name)
            if metadata is None:
                raise Fault("UPSTREAM_ERROR", f"{name} publishes no metadata")
            self._metadata[name] = (time.monotonic(), metadata)
        secret = None
        if issuer.console_secret_env is not None and not (secret := os.environ.get(issuer.console_secret_env)):
            raise Fault("UPSTREAM_ERROR", f"the hub has no client secret: ${issuer.console_secret_env} is not set")
        settings = ClientSettings(client_id=issuer.console_client_id, client_secret=secret, issuer=name)
        client = known_client(settings, metadata)
        assert client is not None
        return metadata, client

    async def _principal(self, began: LoginCookie, code: str) -> Principal:
        oauth, _, issuer = self._issuer(began.request.issuer)
        metadata, client = await self._discovered(issuer)
        if metadata.token_endpoint is None:
            raise Fault("UPSTREAM_ERROR", f"{began.request.issuer} has no token endpoint")
        fields = code_request(began.request, code, oauth.resource.base)
        answer = await self._endpoints(metadata.issuer).token(metadata.token_endpoint, as_client(fields, client))
        token = read_tokens(answer.status, answer.body, time.time(), began.request.scopes).access_token
        principal = await _verified(oauth, token)
        if not principal.id.startswith(f"{metadata.issuer}#"):
            raise Fault("ACCESS_DENIED", "the token is of another issuer")
        if principal.kind != "person":
            hint = "An operator adds people to `people` of the issuer."
            raise Fault("ACCESS_DENIED", f"The console is for people, and {principal.id} is not one of them", hint=hint)
        return principal

    def _endpoints(self, issuer: str) -> Endpoints:
        return Endpoints(issuer, resolver=self._resolver)

    def _sealed(self, began: LoginCookie, host: str) -> str:
        sealed = self._encryption.seal(msgspec.json.encode(began).decode(), f"console login\0{host}")
        return sealed.translate(_TO_COOKIE).rstrip("=")

    def _opened(self, cookie: str, host: str) -> LoginCookie:
        """The login that this browser began. Raises LOGIN_REQUIRED."""
        text = None
        if cookie and len(cookie) <= MAX_COOKIE:
            padded = cookie.translate(_FROM_COOKIE) + "=" * (-len(cookie) % 4)
            text = self._encryption.open(padded, f"console login\0{host}")
        began = None if text is None else msgspec.json.decode(text, type=LoginCookie)
        if began is None or self._console.hub_app.access.now() >= began.expires:
            raise Fault("LOGIN_REQUIRED", "This browser began no login within ten minutes", hint="Log in again.")
        return began


async def _verified(oauth: TokenAuthentication, token: str) -> Principal:
    """The principal of an access token, after waiting for the issuer's keys if need be."""
    try:
        return oauth.tokens.principal(token, HOME)
    except AuthenticationPending as pending:
        await asyncio.wait([pending.settled])
        return oauth.tokens.principal(token, HOME)


def _callback(name: str) -> str:
    """The path that an issuer sends browsers back to. Each issuer has its own, so that none gets a code of another.

    An issuer could begin the login of a person at another one, whose code the hub would then redeem at the first. Not
    every issuer names itself in its responses (RFC 9700, Mix-Up Attacks).
    """
    return f"{CALLBACK}/{quote(name, safe='')}" if name else CALLBACK


def _demand_callback(began: LoginCookie, request: Request) -> None:
    """Raises LOGIN_REQUIRED for a browser that comes back from another issuer than the one where its login began."""
    if unquote(urlsplit(began.request.redirect_uri).path) != request.scope["path"]:
        raise Fault("LOGIN_REQUIRED", "the response comes from another issuer than the one that was asked")


def _without_cookie(response: Response, local: bool) -> Response:
    """The response, which takes the cookie of the finished login from the browser."""
    response.delete_cookie(_cookie(local), path="/", secure=not local, httponly=True, samesite="lax")
    return response


def _cookie(local: bool) -> str:
    """The name of the cookie. With its prefix, no other host can set it, but it needs HTTPS."""
    return "interlock_login" if local else "__Host-interlock_login"


_TO_COOKIE: Final = str.maketrans("+/", "-_")
_FROM_COOKIE: Final = str.maketrans("-_", "+/")
