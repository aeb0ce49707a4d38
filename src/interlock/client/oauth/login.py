"""One login to one server: finds the authorization server, gets tokens, renews them, and gives them back.

`header`, `due`, `renew` and `refused` are for the link (`transports.http.authorized_calls.Authorization`) and never ask
a person. `begin` and `finish` are the two halves of what a person does in a browser.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

import msgspec

from interlock.client.oauth.assertions import client_assertion
from interlock.client.oauth.endpoints import Endpoints
from interlock.client.oauth.storage import LoginStore, MemoryLoginStore, StoredLogin
from interlock.process.task_set import TaskSet
from interlock.protocols.oauth.authorization import AuthorizationRequest, authorization_request, code_of
from interlock.protocols.oauth.challenges import Challenge
from interlock.protocols.oauth.clients import ClientSettings, RegisteredClient, known_client
from interlock.protocols.oauth.metadata import (
    ResourceMetadata,
    ServerMetadata,
    canonical_resource,
    covers,
    default_metadata,
)
from interlock.protocols.oauth.scopes import initial_scopes, stepped_up
from interlock.protocols.oauth.tokens import (
    LASTING_ERRORS,
    DeviceCode,
    TokenRequest,
    Tokens,
    as_client,
    assertion_request,
    code_request,
    credentials_request,
    device_request,
    exchange_request,
    read_tokens,
    refresh_request,
)
from interlock.transports.http.authorized_calls import Refused
from interlock.wire.errors import Fault

RETRY_REFRESH_S: Final = 5.0
"""A refresh that could not reach the server is tried again after this time, while the token is still good."""
_SILENT: Final = ("client_credentials", "jwt_bearer", "id_jag")


class Discovered(msgspec.Struct, frozen=True):
    """The authorization servers that guard the server."""

    resource: str
    scopes: tuple[str, ...] | None
    server: ServerMetadata


class Pending(msgspec.Struct, frozen=True):
    """A login that waits for a person."""

    request: AuthorizationRequest
    found: Discovered
    client: RegisteredClient


class PendingDevice(msgspec.Struct, frozen=True):
    """A login that waits for a person at another device."""

    code: DeviceCode
    found: Discovered
    client: RegisteredClient
    scopes: tuple[str, ...]


class Browser(Protocol):
    """Has a person open an address, and hears where they were sent back to."""

    @property
    def redirect_uri(self) -> str:
        """The address that people are sent back to."""

    async def visit(self, request: AuthorizationRequest) -> str:
        """The whole address that the person was sent back to. Raises a `Fault`."""


class Login:
    """The login of one principal to one server."""

    def __init__(
        self,
        server_url: str,
        settings: ClientSettings | None = None,
        store: LoginStore | None = None,
        endpoints: Endpoints | None = None,
        browser: Browser | None = None,
        hint: str = "log in to it",
    ) -> None:
        self.settings = settings or ClientSettings()
        self.browser = browser
        self._server_url = server_url
        self._store = store or MemoryLoginStore()
        trusted = (self.settings.issuer, self.settings.idp_token_endpoint)
        self._endpoints = endpoints or Endpoints(server_url, tuple(url for url in trusted if url))
        self._tokens: Tokens | None = None
        self._loaded = False
        self._not_before = 0.0
        self._hint = hint
        self._challenge = Challenge()
        """The last challenge: it says where the server's metadata is."""
        self.wanted: Challenge | None = None
        """The challenge that only a person can answer, until one has."""
        self._header = ""
        self._tasks = TaskSet()  # a refresh token that was sent is spent, so no renewal is given up
        self.idle = False
        """Whether there is no token to send or to renew."""

    # For the link.

    @property
    def header(self) -> str:
        """The value of `Authorization`; empty while nobody is logged in."""
        return self._header

    @property
    def due(self) -> bool:
        """True if the token must be renewed or loaded first."""
        if not self._loaded:
            return True
        tokens = self._tokens
        return tokens is not None and tokens.due(time.time()) and time.monotonic() >= self._not_before

    @property
    def logged_in(self) -> bool:
        """Whether there is a token."""
        return self._tokens is not None

    async def renew(self) -> None:
        """Renew the token if it is due: once for all who wait, here and in other processes."""
        if not self._loaded:
            await self._reload()
        if self.due:
            await self._tasks.complete(self._renew_due())

    async def refused(self, refused: Refused) -> None:
        """Get a token in the place of one that the server refused, without asking a person."""
        await self._tasks.complete(self._replace(refused))

    async def _renew_due(self) -> None:
        async with self._store.lock():
            if self.due:
                await self._renew(await self._reload())

    async def _replace(self, refused: Refused) -> None:
        async with self._store.lock():
            stored = await self._reload()
            if self._header and self._header != refused.sent:
                return
            found = await self._discover(refused.challenge)
            bound = stored if stored is not None and self._fits(stored, found) else None
            if refused.status == 401 and bound is not None and bound.tokens is not None:
                self._use(None)  # it is sent to this server no more
                if bound.tokens.refresh_token is not None and await self._refresh(bound, bound.tokens):
                    return
            if self.settings.grant in _SILENT:
                await self._get_silently(found, refused, bound)
                return
        raise self._needs_login(refused.challenge, refused.status)

    # For a person.

    async def log_in(self, challenge: Challenge) -> None:
        """Log in with the browser. Raises LOGIN_REQUIRED where there is none, or nothing new to ask for."""
        if self.browser is None:
            raise self._needs_login(challenge, 401)
        pending = await self.begin(challenge, self.browser.redirect_uri)
        await self.finish(pending, await self.browser.visit(pending.request))

    async def begin(self, challenge: Challenge, redirect_uri: str) -> Pending:
        """Prepare a login that a person completes in a browser."""
        async with self._store.lock():
            stored = await self._reload()
            found = await self._discover(challenge)
            bound = stored if stored is not None and self._fits(stored, found) else None
            scopes = self._scopes(found, challenge, bound)
            client = await self._client(found, bound, redirect_uri, scopes)
            if (bound is None or bound.client != client) and (stored is None or stored.tokens is None):
                # A person may give up and begin again: the issuer then registers no second client.
                endpoint = found.server.token_endpoint or ""
                await self._store.save(StoredLogin(found.server.issuer, found.resource, endpoint, client))
            request = authorization_request(found.server, client.client_id, redirect_uri, found.resource, scopes)
            return Pending(request, found, client)

    async def finish(self, pending: Pending, callback: str) -> None:
        """Exchange the code in a callback for tokens. Raises LOGIN_REQUIRED."""
        code = code_of(pending.request, callback)
        fields = code_request(pending.request, code, pending.found.resource)
        async with self._store.lock():
            await self._take(pending.found, pending.client, fields, pending.request.scopes)

    async def begin_device(self, challenge: Challenge) -> PendingDevice:
        """Ask for a code that a person types elsewhere. Raises LOGIN_REQUIRED where the server has no such way."""
        async with self._store.lock():
            stored = await self._reload()
            found = await self._discover(challenge)
            endpoint = found.server.device_authorization_endpoint
            if endpoint is None:
                raise Fault("LOGIN_REQUIRED", f"{found.server.issuer[:200]} has no login by device code")
            bound = stored if stored is not None and self._fits(stored, found) else None
            scopes = self._scopes(found, challenge, bound)
            client = await self._client(found, bound, None, scopes)
            fields = {"scope": " ".join(scopes), "resource": found.resource}
            request = self._proven(found.server.issuer, client, {name: text for name, text in fields.items() if text})
            named = msgspec.structs.replace(request, fields={**request.fields, "client_id": client.client_id})
            return PendingDevice(await self._endpoints.device(endpoint, named), found, client, scopes)

    async def poll_device(self, pending: PendingDevice) -> float | None:
        """Ask whether the person is done: None if so, else the seconds until the next time. Raises LOGIN_REQUIRED."""
        fields = device_request(pending.code.device_code, pending.found.resource)
        try:
            async with self._store.lock():
                await self._take(pending.found, pending.client, fields, pending.scopes)
        except Fault as fault:
            error = fault.data.get("error")
            if error == "authorization_pending":
                return pending.code.interval
            if error == "slow_down":
                return pending.code.interval + 5
            raise
        return None

    async def log_out(self) -> None:
        """Revoke the tokens at their server where it can (RFC 7009), and forget them in any case."""
        async with self._store.lock():
            stored = await self._reload()
            self._use(None)
            await self._store.save(None)
            self.wanted = self._challenge
        tokens = None if stored is None else stored.tokens
        if stored is None or tokens is None or stored.revocation_endpoint is None:
            return
        for kind, token in (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)):
            if token is not None:
                request = self._proven(stored.issuer, stored.client, {"token": token, "token_type_hint": kind})
                await self._endpoints.token(stored.revocation_endpoint, request)

    # Tokens.

    async def _renew(self, stored: StoredLogin | None) -> None:
        now = time.time()
        tokens = self._tokens
        if stored is None or tokens is None or not tokens.due(now):
            return
        if tokens.refresh_token is None:
            # A grant without a person is repeated when the server refuses the old token.
            if tokens.expired(now):
                self._use(None)
            return
        try:
            await self._refresh(stored, tokens)
        except Fault:
            if tokens.expired(now):
                raise
            # The token is still good; the server may be back before it is not.
            self._not_before = time.monotonic() + RETRY_REFRESH_S

    async def _refresh(self, stored: StoredLogin, tokens: Tokens) -> bool:
        """Use the refresh token. False where the server no longer takes it: a person must log in again."""
        request = self._proven(stored.issuer, stored.client, refresh_request(tokens, stored.resource))
        answer = await self._endpoints.token(stored.token_endpoint, request)
        try:
            fresh = read_tokens(answer.status, answer.body, time.time(), tokens.requested, tokens)
        except Fault as fault:
            if fault.data.get("error") not in LASTING_ERRORS:
                raise
            await self._store.save(msgspec.structs.replace(stored, tokens=None))
            self._use(None)
            return False
        await self._store.save(msgspec.structs.replace(stored, tokens=fresh))
        self._use(fresh)
        return True

    async def _get_silently(self, found: Discovered, refused: Refused, bound: StoredLogin | None) -> None:
        settings, resource = self.settings, found.resource
        scopes = self._scopes(found, refused.challenge, bound)
        client = await self._client(found, bound, None, scopes)
        if settings.grant == "client_credentials":
            fields = credentials_request(resource, scopes)
        elif settings.grant == "jwt_bearer":
            fields = assertion_request(settings.assertion or "", resource, scopes)
        else:
            fields = assertion_request(await self._id_jag(found, scopes), resource, scopes)
        await self._take(found, client, fields, scopes)

    async def _id_jag(self, found: Discovered, scopes: tuple[str, ...]) -> str:
        """The identity provider's assertion for another server (Enterprise-Managed Authorization)."""
        settings = self.settings
        if settings.idp_token_endpoint is None or settings.assertion is None or settings.idp_client_id is None:
            raise Fault("INVALID_PARAMS", "this login needs an identity provider, a client id there and an ID token")
        fields = exchange_request(settings.assertion, found.server.issuer, found.resource, scopes)
        request = as_client(fields, RegisteredClient(settings.idp_client_id))
        answer = await self._endpoints.token(settings.idp_token_endpoint, request)
        return read_tokens(answer.status, answer.body, 0.0, ()).access_token

    async def _take(
        self, found: Discovered, client: RegisteredClient, fields: dict[str, str], scopes: tuple[str, ...]
    ) -> None:
        server = found.server
        if (endpoint := server.token_endpoint) is None:
            raise Fault("UPSTREAM_ERROR", f"{server.issuer[:200]} has no token endpoint")
        answer = await self._endpoints.token(endpoint, self._proven(server.issuer, client, fields))
        tokens = read_tokens(answer.status, answer.body, time.time(), scopes)
        login = StoredLogin(server.issuer, found.resource, endpoint, client, tokens, server.revocation_endpoint)
        await self._store.save(login)
        self.wanted = None
        self._use(tokens)

    def _proven(self, issuer: str, client: RegisteredClient, fields: dict[str, str]) -> TokenRequest:
        assertion = None
        if client.auth_method == "private_key_jwt":
            key = self.settings.private_key or ""
            assertion = client_assertion(client.client_id, issuer, key, self.settings.algorithm)
        return as_client(fields, client, assertion)

    async def _reload(self) -> StoredLogin | None:
        """The stored login. One of another resource is none: its token is not for this server."""
        stored = await self._store.load()
        if stored is not None and not covers(stored.resource, self._server_url):
            stored = None
        self._use(None if stored is None else stored.tokens)
        return stored

    def _use(self, tokens: Tokens | None) -> None:
        self._loaded = True
        self._tokens = tokens
        self._header = "" if tokens is None else f"Bearer {tokens.access_token}"
        self.idle = tokens is None

    # Discovery and registration.

    async def _discover(self, challenge: Challenge) -> Discovered:
        self._challenge = challenge
        resource = await self._endpoints.resource(challenge.resource_metadata)
        issuer = self._issuer(resource)
        server = await self._endpoints.server(issuer)
        if resource is None:
            return Discovered(canonical_resource(self._server_url), None, server or default_metadata(issuer))
        if server is None:
            raise Fault("UPSTREAM_ERROR", f"the authorization server {issuer[:200]} publishes no metadata")
        return Discovered(resource.resource, resource.scopes_supported, server)

    def _issuer(self, resource: ResourceMetadata | None) -> str:
        named = () if resource is None else resource.authorization_servers
        pinned = self.settings.issuer
        if pinned is not None:
            if named and pinned not in named:
                message = f"the server no longer names {pinned}, for which it was configured"
                raise Fault("UPSTREAM_ERROR", message, hint="check `issuer`, and log in again")
            return pinned
        if not named:
            # Servers of 2025-03-26 are their own authorization servers.
            return "/".join(self._server_url.split("/", 3)[:3])
        return named[0]

    def _fits(self, stored: StoredLogin, found: Discovered) -> bool:
        """Whether a stored login is of the issuer and the resource that the server names now."""
        return stored.issuer == found.server.issuer and stored.resource == found.resource

    def _scopes(self, found: Discovered, challenge: Challenge, bound: StoredLogin | None) -> tuple[str, ...]:
        if challenge.insufficient_scope and bound is not None and bound.tokens is not None:
            more = stepped_up(bound.tokens.requested, challenge.scope)
            if more is None:
                message = "the server wants scopes that were asked for already and not granted"
                raise Fault("LOGIN_REQUIRED", message, data={"scope": (challenge.scope or "")[:300]})
            return more
        return initial_scopes(challenge.scope, found.scopes, self.settings.scopes, found.server.scopes_supported)

    async def _client(
        self, found: Discovered, bound: StoredLogin | None, redirect: str | None, scopes: tuple[str, ...]
    ) -> RegisteredClient:
        known = known_client(self.settings, found.server)
        if known is not None:
            return known
        if bound is not None and bound.client.redirect_uri == redirect and _is_valid(bound.client, scopes):
            return bound.client
        return await self._endpoints.register(self.settings, found.server, redirect, scopes)

    def _needs_login(self, challenge: Challenge, status: int) -> Fault:
        self.wanted = challenge
        data = {"status": status, "challenge": msgspec.to_builtins(challenge)}
        return Fault("LOGIN_REQUIRED", "the server needs a login", hint=self._hint, data=data)


def challenge_of(fault: Fault) -> Challenge:
    """The challenge that a LOGIN_REQUIRED carries."""
    return msgspec.convert(fault.data.get("challenge") or {}, Challenge)


def _is_valid(client: RegisteredClient, scopes: tuple[str, ...]) -> bool:
    return client.may_ask(scopes) and (not client.secret_expires_at or client.secret_expires_at > time.time())
