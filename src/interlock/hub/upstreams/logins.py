"""The logins of the hub to its servers: one `Login` for each server and principal, made from the configuration.

`pending` has the logins that wait for a person, `tickets` the links that start one, `login_records.py` the stored
tokens. No token leaves the hub but in the header of its own server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec

from interlock.client.oauth.endpoints import Endpoints
from interlock.client.oauth.login import Login
from interlock.config.settings import Config, ServerSettings
from interlock.hub.auth.console_address import ConsoleAddress
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.login_records import LOGINS, LoginRecord, SealedLogin, StoreHolder, bound_to
from interlock.hub.upstreams.login_tickets import LoginTickets
from interlock.hub.upstreams.pending_logins import PendingLogins
from interlock.hub.upstreams.server_tls import tls_of
from interlock.protocols.oauth.clients import ClientSettings
from interlock.transports.resolving import Resolver
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault


class LoginFoundation(StoreHolder, Protocol):
    """The part of the hub that logins stand on."""

    config: Config
    resolver: Resolver


class LoginRow(msgspec.Struct, frozen=True):
    """One stored login, without its tokens."""

    server: str
    principal: str
    issuer: str
    opens: bool = True
    """Whether the hub can open it. One that another key sealed, or that was altered, needs a person to log in again."""


class Logins:
    """Every login of one hub. `address` gives the hub's own for browsers on this machine; empty for none."""

    def __init__(
        self, foundation: LoginFoundation, encryption: Encryption, address: Callable[[], str], console: ConsoleAddress
    ) -> None:
        self.pending = PendingLogins(self)
        self.tickets = LoginTickets(address)
        self._console = console
        self._foundation = foundation
        self._encryption = encryption
        self._logins: WeakValueDictionary[tuple[str, str], _ConfiguredLogin] = WeakValueDictionary()

    def of(self, server: str, settings: ServerSettings, principal: str = "") -> Login:
        """The login of a principal to a server; the one that all share where `principal` is empty."""
        known = self._logins.get((server, principal))
        if known is None or known.made_for != _identity(settings):
            record = LoginRecord(self._foundation, self._encryption, server, principal)
            known = self._logins[server, principal] = _ConfiguredLogin(
                settings, self._client_settings(settings), record, self._foundation.resolver, _hint(server, principal)
            )
        return known

    def find(self, server: str, principal: str) -> Login:
        """The login of a principal to a server of the configuration. Raises NOT_FOUND for one without a URL."""
        settings = self._foundation.config.servers.get(server)
        if settings is None or settings.url is None:
            hint = "`interlock status` shows all servers; a program gets its credentials from `env`"
            raise Fault("NOT_FOUND", f"no server {server[:100]!r} at a URL", hint=hint)
        return self.of(server, settings, principal)

    def page(self, server: str, principal: str, by: Principal) -> str | None:
        """A page where a person logs in for a caller; None where browsers cannot reach one.

        The caller's program can open the page itself. It may log in for its own principal so, never for all: that is
        for those who may use the console, whose page needs a session, and for `interlock login`.
        """
        return self.tickets.page(server, principal, by) if principal else self._console.server_page(server)

    async def log_out(self, server: str, principal: str) -> None:
        """Revoke and forget a login. Without a configured URL it is forgotten alone, and NOT_FOUND is raised."""
        try:
            login = self.find(server, principal)
        except Fault:
            record = LoginRecord(self._foundation, self._encryption, server, principal)
            async with record.lock():
                await record.save(None)
            raise
        await login.log_out()

    async def list(self) -> list[LoginRow]:
        """Every stored login."""
        rows = [document.value for document in await self._foundation.store.find(LOGINS) if document.value.logged_in]
        opened = await asyncio.to_thread(lambda: [self._opens(row) for row in rows])
        return [LoginRow(row.server, row.principal, row.issuer, opens) for row, opens in zip(rows, opened, strict=True)]

    def shared_works(self, server: str) -> bool:
        """Whether somebody is logged in for all callers."""
        login = self._logins.get((server, ""))
        return login is not None and login.wanted is None

    def _opens(self, row: SealedLogin) -> bool:
        return self._encryption.open(row.sealed, bound_to(row.server, row.principal)) is not None

    def _client_settings(self, server: ServerSettings) -> ClientSettings:
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
            binds_secrets=True,
        )


class _ConfiguredLogin(Login):
    """A login that knows which settings it was made for."""

    def __init__(
        self, server: ServerSettings, settings: ClientSettings, record: LoginRecord, resolver: Resolver, hint: str
    ) -> None:
        assert server.url is not None
        endpoints = Endpoints(server.url, server.oauth.trusted, resolver, tls_of(server))
        super().__init__(server.url, settings, record, endpoints, hint=hint)
        self.made_for = _identity(server)


def _identity(settings: ServerSettings) -> tuple[object, ...]:
    """The settings whose change makes another login."""
    return settings.url, settings.oauth, settings.ca_bundle, settings.client_certificate, settings.client_key


def _hint(server: str, principal: str) -> str:
    return f"run `interlock login {server} --for {principal}`" if principal else f"run `interlock login {server}`"
