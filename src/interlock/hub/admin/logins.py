"""Operations on logins to servers: begin one, wait for it, list them, and end one."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import msgspec
from msgspec import Meta

from interlock.hub.admin.operation import Nothing, Text
from interlock.hub.admin.servers import known_server
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Kind, Principal
from interlock.hub.upstreams.logins import LoginRow
from interlock.wire.errors import Fault

WAIT_S: Final = 20.0


class LoginOperations:
    """The operations on the logins of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def list(self, by: Principal, params: Nothing, trace: str) -> LoginList:
        """The logins to each server. Tokens are never shown."""
        return LoginList(await self._hub_app.logins.list())

    async def begin(self, by: Principal, params: BeginLogin, trace: str) -> LoginPage:
        """Begin a login that a person completes in a browser."""
        self._check(params)
        redirect = self._hub_app.login_parts.redirect_uri
        waiting = await self._hub_app.logins.pending.begin(params.server, params.principal, redirect, by)
        request = waiting.pending.request
        return LoginPage(request.url, request.state, request.redirect_uri)

    async def finish(self, by: Principal, params: FinishLogin, trace: str) -> LoginState:
        """Take the address that a browser was sent back to, where it cannot reach the hub."""
        await self._hub_app.login_parts.finish(params.callback)
        return LoginState(done=True)

    async def wait(self, by: Principal, params: WaitForLogin, trace: str) -> LoginState:
        """Wait a while for a login that was begun."""
        return LoginState(await self._hub_app.logins.pending.wait(params.state, WAIT_S))

    async def device(self, by: Principal, params: BeginLogin, trace: str) -> DevicePage:
        """Begin a login with a code that a person types on another device."""
        self._check(params)
        id_, pending = await self._hub_app.logins.pending.begin_device(params.server, params.principal)
        code = pending.code
        page = code.verification_uri_complete or code.verification_uri
        return DevicePage(id_, code.user_code, page, code.poll_every_s)

    async def poll(self, by: Principal, params: PollDevice, trace: str) -> LoginState:
        """Ask whether a login by code is complete."""
        wait_s = await self._hub_app.logins.pending.poll_device(params.id)
        if wait_s is None:
            self._hub_app.login_parts.retry(params.server)
        return LoginState(wait_s is None, wait_s or 0.0)

    async def remove(self, by: Principal, params: EndLogin, trace: str) -> LoginState:
        """Revoke the tokens of a login at their server, and forget them. `done` is false where nobody was logged in."""
        stored = await self._hub_app.logins.list()
        if not any(row.server == params.server for row in stored):
            known_server(self._hub_app, params.server)
        was = any((row.server, row.principal) == (params.server, params.principal) for row in stored)
        try:
            await self._hub_app.logins.log_out(params.server, params.principal)
        except Fault as fault:
            if not was:
                raise
            message = f"the login is forgotten here, but its tokens were not revoked: {fault.message}"
            raise Fault(
                fault.name, message, hint="they end when they expire, or where their issuer ends them"
            ) from fault
        return LoginState(done=was)

    def _check(self, params: BeginLogin) -> None:
        """Refuse a login that no caller would use: of an unknown or shared server, or of a name without its kind."""
        server = self._hub_app.config.servers[known_server(self._hub_app, params.server)]
        if not params.principal:
            return
        if server.login != "per-user":
            hint = 'leave out --for, or set `login = "per-user"` of this server'
            raise Fault("INVALID_PARAMS", f"all callers share the login to {params.server}", hint=hint)
        kind, _, name = params.principal.partition(":")
        if kind not in get_args(Kind) or not name:
            hint = "write agent:NAME, or person:NAME"
            raise Fault("INVALID_PARAMS", f"{params.principal[:100]!r} names no principal", hint=hint)


class BeginLogin(msgspec.Struct):
    """The server to log in to, and for whom."""

    server: Annotated[str, Meta(min_length=1, max_length=200)]
    principal: Text = ""
    """The principal, as `agent:NAME`, of a server that is per user. Empty: the login that all callers share."""


class EndLogin(BeginLogin):
    """The login to end."""


class FinishLogin(msgspec.Struct):
    """Where the browser was sent back to."""

    callback: Annotated[str, Meta(max_length=16_384)]


class WaitForLogin(msgspec.Struct):
    """The login to wait for."""

    state: Text


class PollDevice(msgspec.Struct):
    """The login by code to ask about."""

    id: Text
    server: Text = ""


class LoginPage(msgspec.Struct):
    """The page that a person opens."""

    url: str
    state: str
    redirect_uri: str


class DevicePage(msgspec.Struct):
    """The code, and the page to type it on."""

    id: str
    user_code: str
    url: str
    interval: float


class LoginState(msgspec.Struct):
    """Whether a login is complete."""

    done: bool
    wait_s: float = 0.0


class LoginList(msgspec.Struct):
    """Every login."""

    logins: list[LoginRow]
