"""The logins of the hub to its servers: who is logged in, and logins that wait for a person in a browser.

A person comes back by the state of the login, which nobody can guess; a page that starts one has a ticket of the same
kind. Both hold for ten minutes and once. A login that ended is known for the rest of that time, for those who wait for
it. No token leaves this module but in the header of its own server.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit
from weakref import WeakValueDictionary

import msgspec

from interlock.client.oauth.endpoints import Endpoints
from interlock.client.oauth.login import Login, Pending, PendingDevice
from interlock.config.settings import Config, Server
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.login_records import LOGINS, LoginRecord, SealedLogin, StoreHolder, bound_to
from interlock.protocols.oauth.challenges import Challenge
from interlock.protocols.oauth.clients import ClientSettings
from interlock.transports.http.outside import client_context
from interlock.transports.resolving import Resolver
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault

VALID_S: Final = 600.0
MOST_PENDING: Final = 256
CALLBACK: Final = "/oauth/callback"
START: Final = "/oauth/start/"


class LoginFoundation(StoreHolder, Protocol):
    """The part of the hub that logins stand on."""

    config: Config
    resolver: Resolver


class PendingLogin(msgspec.Struct, eq=False):
    """A login that a person has begun."""

    server: str
    principal: str
    login: Login
    pending: Pending
    by: Principal
    until: float
    done: asyncio.Future[None]
    came_back: bool = False
    """Whether a browser came back with a code, which counts once."""

    @property
    def ended(self) -> bool:
        return self.done.done()


class PendingDeviceLogin(msgspec.Struct, eq=False):
    """A login with a code that a person types elsewhere."""

    login: Login
    pending: PendingDevice
    until: float
    lock: asyncio.Lock
    """Held while the authorization server is asked: a code is good once."""
    ended: bool = False


class LoginTicket(msgspec.Struct, frozen=True):
    """The right to begin one login."""

    server: str
    principal: str
    by: Principal
    """The caller that needs it."""
    until: float


_Begun = TypeVar("_Begun", PendingLogin, PendingDeviceLogin)


class LoginRow(msgspec.Struct, frozen=True):
    """One stored login, without its tokens."""

    server: str
    principal: str
    issuer: str
    opens: bool = True
    """Whether the hub can open it. One that another key sealed, or that was altered, needs a person to log in again."""


class Logins:
    """Every login of one hub. `address` gives the hub's own for browsers on this machine; empty for none."""

    def __init__(self, foundation: LoginFoundation, encryption: Encryption, address: Callable[[], str]) -> None:
        self._address = address
        self._foundation = foundation
        self._encryption = encryption
        self._logins: WeakValueDictionary[tuple[str, str], _HubLogin] = WeakValueDictionary()
        self._pending: dict[str, PendingLogin] = {}
        self._devices: dict[str, PendingDeviceLogin] = {}
        self._tickets: dict[str, LoginTicket] = {}

    def of(self, server: str, settings: Server, principal: str = "") -> Login:
        """The login of a principal to a server; the one that all share where `principal` is empty."""
        assert settings.url is not None
        wanted = (settings.url, settings.oauth, settings.ca_bundle, settings.client_certificate, settings.client_key)
        known = self._logins.get((server, principal))
        if known is None or known.made_for != wanted:
            record = LoginRecord(self._foundation, self._encryption, server, principal)
            endpoints = Endpoints(settings.url, settings.oauth.trusted, self._foundation.resolver, tls_of(settings))
            known = _HubLogin(settings.url, self._settings(settings), record, endpoints, hint=_hint(server, principal))
            known.made_for = wanted
            self._logins[server, principal] = known
        return known

    async def begin(self, server: str, principal: str, redirect_uri: str, by: Principal) -> PendingLogin:
        """Begin a login in a browser. Raises a `Fault`."""
        login = self.of(server, self._server(server), principal)
        pending = await login.begin(login.wanted or Challenge(), redirect_uri)
        self._forget_old()
        self._pending = _with_place(self._pending)
        done = asyncio.get_running_loop().create_future()
        begun = PendingLogin(server, principal, login, pending, by, time.monotonic() + VALID_S, done)
        self._pending[pending.request.state] = begun
        return begun

    async def finish(self, callback: str) -> PendingLogin:
        """Take the address that a browser was sent back to. Raises LOGIN_REQUIRED for one of no login under way."""
        self._forget_old()
        state = parse_qs(urlsplit(callback).query).get("state", [""])[0]
        begun = self._pending.get(state)
        if begun is None or begun.came_back:
            raise Fault("LOGIN_REQUIRED", "this page belongs to no login that is under way", hint="begin again")
        begun.came_back = True
        try:
            await begun.login.finish(begun.pending, callback)
        except Fault as fault:
            begun.done.set_exception(fault)
            begun.done.exception()
            raise
        begun.done.set_result(None)
        return begun

    async def wait(self, state: str, within_s: float) -> bool:
        """Wait for a login that was begun. False if the person is not done yet. Raises why it failed."""
        begun = self._pending.get(state)
        if begun is None:
            raise Fault("NOT_FOUND", "no such login is under way")
        await asyncio.wait([begun.done], timeout=within_s)
        if not begun.ended:
            return False
        begun.done.result()
        return True

    async def begin_device(self, server: str, principal: str) -> tuple[str, PendingDevice]:
        """Begin a login with a code that a person types elsewhere. Returns the id to poll with."""
        login = self.of(server, self._server(server), principal)
        pending = await login.begin_device(login.wanted or Challenge())
        self._forget_old()
        self._devices = _with_place(self._devices)
        id_ = secrets.token_urlsafe(24)
        until = time.monotonic() + min(pending.code.expires_in, VALID_S)
        self._devices[id_] = PendingDeviceLogin(login, pending, until, asyncio.Lock())
        return id_, pending

    async def poll_device(self, id: str) -> float | None:
        """Whether the person is done: None if so, else the seconds until the next question."""
        self._forget_old()
        begun = self._devices.get(id)
        if begun is None:
            raise Fault("LOGIN_REQUIRED", "the code has expired", hint="begin again")
        async with begun.lock:
            wait_s = None if begun.ended else await begun.login.poll_device(begun.pending)
            begun.ended = wait_s is None
            return wait_s

    def ticket(self, server: str, principal: str, by: Principal) -> str:
        """A path that starts a login once. Raises RESOURCE_EXHAUSTED."""
        self._forget_old()
        if len(self._tickets) >= MOST_PENDING:
            raise _too_many()
        name = secrets.token_urlsafe(32)
        self._tickets[name] = LoginTicket(server, principal, by, time.monotonic() + VALID_S)
        return START + name

    def redeem(self, name: str) -> LoginTicket | None:
        """The login that a ticket starts; None for a ticket that was used or has expired."""
        self._forget_old()
        return self._tickets.pop(name, None)

    def peek(self, name: str) -> LoginTicket | None:
        """The login that a ticket would start."""
        self._forget_old()
        return self._tickets.get(name)

    async def log_out(self, server: str, principal: str) -> None:
        """Revoke and forget a login."""
        await self.of(server, self._server(server), principal).log_out()

    async def list(self) -> list[LoginRow]:
        """Every stored login."""
        rows = [document.value for document in await self._foundation.store.find(LOGINS) if document.value.logged_in]
        opened = await asyncio.to_thread(lambda: [self._opens(row) for row in rows])
        return [LoginRow(row.server, row.principal, row.issuer, opens) for row, opens in zip(rows, opened, strict=True)]

    def _opens(self, row: SealedLogin) -> bool:
        return self._encryption.open(row.sealed, bound_to(row.server, row.principal)) is not None

    def shared_works(self, server: str) -> bool:
        """Whether somebody is logged in for all callers."""
        login = self._logins.get((server, ""))
        return login is not None and login.wanted is None

    def page(self, server: str, principal: str, by: Principal) -> str | None:
        """The address of a page that starts a login once; None where browsers on this machine cannot reach the hub.

        Nobody elsewhere may open it, so that no agent can have somebody else log in for it (MCP, Elicitation).
        """
        address = self._address()
        return f"{address}{self.ticket(server, principal, by)}" if address else None

    def _server(self, server: str) -> Server:
        settings = self._foundation.config.servers.get(server)
        if settings is None or settings.url is None:
            hint = "`interlock status` shows all servers; a program gets its credentials from `env`"
            raise Fault("NOT_FOUND", f"no server {server[:100]!r} at a URL", hint=hint)
        return settings

    def _settings(self, server: Server) -> ClientSettings:
        oauth = server.oauth
        return ClientSettings(
            grant=oauth.grant,
            client_id=oauth.client_id,
            client_secret=oauth.client_secret,
            private_key=oauth.private_key,
            algorithm=oauth.algorithm,
            metadata_url=oauth.metadata_url or self._foundation.config.hub.login.metadata_url,
            issuer=oauth.issuer,
            scopes=oauth.scopes,
            assertion=oauth.assertion,
            idp_token_endpoint=oauth.idp_token_endpoint,
            idp_client_id=oauth.idp_client_id,
        )

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._pending = {state: begun for state, begun in self._pending.items() if begun.until > now}
        self._tickets = {name: ticket for name, ticket in self._tickets.items() if ticket.until > now}
        self._devices = {id_: found for id_, found in self._devices.items() if found.until > now}


def _with_place(logins: dict[str, _Begun]) -> dict[str, _Begun]:
    """The logins that are kept when one more begins: ended ones give way. Raises RESOURCE_EXHAUSTED."""
    if len(logins) < MOST_PENDING:
        return logins
    kept = {id_: begun for id_, begun in logins.items() if not begun.ended}
    if len(kept) >= MOST_PENDING:
        raise _too_many()
    return kept


def _too_many() -> Fault:
    return Fault("RESOURCE_EXHAUSTED", f"{MOST_PENDING} logins wait for a person", retry_after_ms=60_000)


class _HubLogin(Login):
    """A login that knows which settings it was made for."""

    made_for: tuple[object, ...] = ()


def tls_of(settings: Server) -> ssl.SSLContext | None:
    """The TLS settings of a server; None for the usual ones. Raises SERVER_NOT_READY for files that cannot be used."""
    if settings.ca_bundle is None and settings.client_certificate is None:
        return None
    try:
        return client_context(settings.ca_bundle, settings.client_certificate, settings.client_key)
    except OSError as cause:
        hint = "check `ca_bundle`, `client_certificate` and `client_key`"
        reason = cause.strerror or "they are no certificates"
        raise Fault("SERVER_NOT_READY", f"the files for TLS cannot be used: {reason}", hint=hint) from None


def _hint(server: str, principal: str) -> str:
    return f"run `interlock login {server} --for {principal}`" if principal else f"run `interlock login {server}`"
