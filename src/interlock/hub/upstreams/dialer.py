"""How the hub connects to one configured server: for all callers, or for one principal with its own login."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from interlock.client.dial import Dial, to_command, to_url
from interlock.client.oauth.login import Login
from interlock.config.settings import ServerSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.contained_servers import containment_of
from interlock.hub.upstreams.logins import Logins
from interlock.hub.upstreams.server_tls import tls_of
from interlock.transports.stdio.process import Command
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits


class Dialer:
    """Connects to one server."""

    def __init__(self, server: str, settings: ServerSettings, limits: Limits, logins: Logins, home: Path) -> None:
        self._server = server
        self._settings = settings
        self._limits = limits
        self._logins = logins
        self._containment = containment_of(server, settings, home)
        self._context: ssl.SSLContext | None = None
        """TLS to the server, where it is not the usual; made with the first connection."""
        self.login = self._shared_login()
        """The login that all callers share; None where the server has a credential of its own."""

    def _shared_login(self) -> Login | None:
        if not self._settings.logs_in:
            return None
        try:
            return self._logins.of(self._server, self._settings)
        except Fault:
            return None  # Files for TLS that cannot be used: each connection says so.

    def shared(self) -> Dial:
        """The way for all callers."""
        settings = self._settings
        if settings.url is not None:
            return self._to_url(settings.url, self.login)
        inherited = {name: os.environ[name] for name in settings.inherit_env if name in os.environ}
        env = {**inherited, **settings.env}
        return to_command(Command(settings.command, env, settings.cwd, self._containment), self._limits)

    def login_page(self, principal: str, by: Principal) -> str | None:
        """A page where a person logs in, for a caller whose client opens pages."""
        if not self._settings.logs_in or self._settings.oauth.grant != "authorization_code":
            return None
        per_user = self._settings.login == "per-user" and self._logins.shared_works(self._server)
        return self._logins.page(self._server, principal if per_user else "", by)

    def private(self, principal: str) -> Dial:
        """The way for one principal, which brings its own login where the server is per user."""
        settings = self._settings
        if settings.url is None or settings.login != "per-user" or not settings.logs_in:
            return self.shared()
        login = self._logins.of(self._server, settings, principal)
        return self._to_url(settings.url, login)

    def _to_url(self, url: str, login: Login | None) -> Dial:
        if self._context is None:
            self._context = tls_of(self._settings)
        context = self._context
        return to_url(url, self._settings.headers, self._limits, authorization=login, context=context)
