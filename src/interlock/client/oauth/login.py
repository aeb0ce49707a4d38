"""One login to one server: its tokens, their renewal, and how a person logs in and out.

`header`, `due`, `renew` and `refused` are for the link (`transports.http.client.authorized_calls.Authorization`) and
never ask a person. `begin` and `finish` are the two halves of a login in a browser. Tokens are stored before they are
used, under the store's lock: a refresh token is good once. A token that is refused although it was just renewed is not
renewed again: then a person must log in.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.client.oauth.discovery import DiscoveredIssuer, discover
from interlock.client.oauth.endpoints import Endpoints
from interlock.client.oauth.person import Browser, OpenLogin, PendingDevice
from interlock.client.oauth.storage import LoginStore, MemoryLoginStore, StoredLogin
from interlock.client.oauth.token_requests import SILENT_GRANTS, TokenRequests
from interlock.process.task_set import TaskSet
from interlock.protocols.oauth.authorization import authorization_request, code_of
from interlock.protocols.oauth.challenges import BearerChallenge
from interlock.protocols.oauth.clients import ClientSettings, RegisteredClient
from interlock.protocols.oauth.metadata import covers
from interlock.protocols.oauth.tokens import LASTING_ERRORS, UNKNOWN_CLIENT, Tokens, code_request, device_request
from interlock.transports.http.client.authorized_calls import UnauthorizedCall
from interlock.wire.errors import Fault

NEEDS_LOGIN: Final = "the server needs a login"
RETRY_REFRESH_S: Final = 5.0
"""A refresh that could not reach the server is tried again after this time, while the token is still good."""


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
        self._requests = TokenRequests(self.settings, self._endpoints)
        self._tokens: Tokens | None = None
        self._loaded = False
        self._not_before = 0.0
        self.hint = hint
        self._challenge = BearerChallenge()
        """The last challenge: it says where the server's metadata is."""
        self.wanted: BearerChallenge | None = None
        """The challenge that only a person can answer, until one has."""
        self.wanted_since = datetime.now(UTC)
        """When a login became necessary, while one is."""
        self._header = ""
        self._renewed = ""
        """The header of the last token that replaced a refused one."""
        self._rejected = ""
        """The header of a renewed token that was refused all the same."""
        self._tasks = TaskSet()  # a renewal runs to its end, since the refresh token that it sent is spent
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
        """Renew the token if it is due: once for all waiting requests, of this and other processes."""
        if not self._loaded:
            await self._reload()
        if self.due:
            await self._tasks.complete(self._renew_due())

    async def refused(self, refused: UnauthorizedCall) -> None:
        """Replace a token that the server refused, without asking a person."""
        await self._tasks.complete(self._replace(refused))

    # For a person.

    async def log_in(self, challenge: BearerChallenge) -> None:
        """Log in with the browser. Raises LOGIN_REQUIRED where there is none, or nothing new to ask for."""
        if self.browser is None:
            raise self._needs_login(challenge, 401)
        pending = await self.begin(challenge, self.browser.redirect_uri)
        await self.finish(pending, await self.browser.visit(pending.request))

    async def begin(self, challenge: BearerChallenge, redirect_uri: str) -> OpenLogin:
        """Prepare a login that a person completes in a browser."""
        async with self._store.lock():
            stored = await self._reload()
            found = await self._discover(challenge)
            bound = found.bound(stored)
            scopes = found.scopes_to_request(self.settings, challenge, bound)
            client = await self._requests.client(found, bound, redirect_uri, scopes)
            if (bound is None or bound.client != client) and (stored is None or stored.tokens is None):
                # A person may give up and begin again: the issuer then registers no second client.
                endpoint = found.server.token_endpoint or ""
                await self._store.save(StoredLogin(found.server.issuer, found.resource, endpoint, client))
            request = authorization_request(found.server, client.client_id, redirect_uri, found.resource, scopes)
            return OpenLogin(request, found, client)

    async def finish(self, pending: OpenLogin, callback: str) -> None:
        """Exchange the code in a callback for tokens. Raises LOGIN_REQUIRED."""
        code = code_of(pending.request, callback)
        fields = code_request(pending.request, code, pending.found.resource)
        async with self._store.lock(), self._forgetting(pending.client):
            await self._take(
                await self._requests.exchange(pending.found, pending.client, fields, pending.request.scopes)
            )

    async def begin_device(self, challenge: BearerChallenge) -> PendingDevice:
        """Ask for a code that a person types elsewhere. Raises LOGIN_REQUIRED if the server does not offer that."""
        async with self._store.lock():
            stored = await self._reload()
            found = await self._discover(challenge)
            endpoint = found.server.device_authorization_endpoint
            if endpoint is None:
                raise Fault("LOGIN_REQUIRED", f"{found.server.issuer[:200]} has no login by device code")
            bound = found.bound(stored)
            scopes = found.scopes_to_request(self.settings, challenge, bound)
            client = await self._requests.client(found, bound, None, scopes)
            async with self._forgetting(client):
                code = await self._requests.device_code(endpoint, found, client, scopes)
            return PendingDevice(code, found, client, scopes)

    async def poll_device(self, pending: PendingDevice) -> float | None:
        """Ask whether the person is done: None if so, else the seconds until the next time. Raises LOGIN_REQUIRED."""
        fields = device_request(pending.code.device_code, pending.found.resource)
        try:
            async with self._store.lock(), self._forgetting(pending.client):
                await self._take(await self._requests.exchange(pending.found, pending.client, fields, pending.scopes))
        except Fault as fault:
            error = fault.data.get("error")
            if error == "authorization_pending":
                return pending.code.poll_every_s
            if error == "slow_down":
                return pending.code.poll_every_s + 5
            raise
        return None

    async def log_out(self) -> None:
        """Delete the tokens, then revoke them if their server supports it. Raises a `Fault` if that fails."""
        async with self._store.lock():
            stored = await self._reload()
            self._use(None)
            await self._store.save(None)
            self._want(self._challenge)
        if stored is not None:
            await self._requests.revoke(stored)

    # Tokens, under the store's lock.

    async def _renew_due(self) -> None:
        async with self._store.lock():
            if self.due:
                await self._renew(await self._reload())

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

    async def _replace(self, refused: UnauthorizedCall) -> None:
        async with self._store.lock():
            stored = await self._reload()
            if self._header and self._header != refused.sent:
                return
            if self._is_rejected(refused):
                self._rejected, self._challenge = refused.sent, refused.challenge
                raise self._needs_login(refused.challenge, refused.status)
            found = await self._discover(refused.challenge)
            bound = found.bound(stored)
            if refused.status == 401 and bound is not None and bound.tokens is not None:
                self._use(None)  # never sent to this server again
                if bound.tokens.refresh_token is not None and await self._refresh(bound, bound.tokens):
                    self._renewed = self._header
                    return
                bound = found.bound(await self._store.load())
            if self.settings.grant in SILENT_GRANTS:
                scopes = found.scopes_to_request(self.settings, refused.challenge, bound)
                async with self._forgetting(None if bound is None else bound.client):
                    await self._take(await self._requests.grant_silently(found, bound, scopes))
                return
        raise self._needs_login(refused.challenge, refused.status)

    def _is_rejected(self, refused: UnauthorizedCall) -> bool:
        """Whether the server refuses a token that was just renewed, so that another refresh would not help."""
        tokens, now = self._tokens, time.time()
        if refused.status != 401 or tokens is None or self.settings.grant in SILENT_GRANTS or tokens.due(now):
            return False
        just_renewed = refused.again and refused.sent == self._renewed and tokens.young(now)
        return just_renewed or refused.sent == self._rejected

    async def _refresh(self, stored: StoredLogin, tokens: Tokens) -> bool:
        """Use the refresh token. False if the server refuses it: a person must log in again."""
        try:
            async with self._forgetting(stored.client):
                fresh = await self._requests.refresh(stored, tokens)
        except Fault as fault:
            if (error := fault.data.get("error")) not in LASTING_ERRORS:
                raise
            if error != UNKNOWN_CLIENT or not self._registered(stored.client):
                await self._store.save(msgspec.structs.replace(stored, tokens=None))
            self._use(None)
            return False
        await self._store.save(msgspec.structs.replace(stored, tokens=fresh))
        if self._rejected:
            self._rejected, self.wanted = "", None  # a refusal of this token sets both again
        self._use(fresh)
        return True

    @contextlib.asynccontextmanager
    async def _forgetting(self, client: RegisteredClient | None) -> AsyncIterator[None]:
        """Delete our registration if the authorization server does not know it any more. The next login makes one."""
        try:
            yield
        except Fault as fault:
            if client is not None and fault.data.get("error") == UNKNOWN_CLIENT and self._registered(client):
                stored = await self._store.load()
                if stored is not None and stored.client == client:
                    await self._store.save(None)
                    self._use(None)
            raise

    def _registered(self, client: RegisteredClient) -> bool:
        """Whether the client was registered by a request of ours, and not configured."""
        return client.client_id not in (self.settings.client_id, self.settings.metadata_url)

    async def _take(self, login: StoredLogin) -> None:
        """Store new tokens, then use them."""
        await self._store.save(login)
        self.wanted, self._rejected = None, ""
        self._use(login.tokens)

    async def _reload(self) -> StoredLogin | None:
        """The stored login; None for one of another resource, whose token is not for this server."""
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

    async def _discover(self, challenge: BearerChallenge) -> DiscoveredIssuer:
        self._challenge = challenge
        return await discover(self._endpoints, self._server_url, self.settings, challenge)

    def _want(self, challenge: BearerChallenge) -> None:
        if self.wanted is None:
            self.wanted_since = datetime.now(UTC)
        self.wanted = challenge

    def _needs_login(self, challenge: BearerChallenge, status: int) -> Fault:
        self._want(challenge)
        data = {"status": status, "challenge": msgspec.to_builtins(challenge)}
        return Fault("LOGIN_REQUIRED", NEEDS_LOGIN, hint=self.hint, data=data)


def challenge_of(fault: Fault) -> BearerChallenge:
    """The challenge that a LOGIN_REQUIRED carries."""
    return msgspec.convert(fault.data.get("challenge") or {}, BearerChallenge)
