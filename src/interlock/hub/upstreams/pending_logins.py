"""Logins to servers that a person has begun: in a browser, or with a code at another device.

A browser comes back with the state of its login, which is valid once. Everyone who waits for a login gets its outcome,
also if it was given up.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from interlock.client.oauth.login import Login
from interlock.client.oauth.person import OpenLogin, PendingDevice
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.waiting_for_person import VALID_S, WaitingForPerson
from interlock.protocols.oauth.challenges import BearerChallenge
from interlock.wire.errors import Fault

CALLBACK: Final = "/oauth/callback"


class LoginDirectory(Protocol):
    """Finds the login of a principal to a configured server."""

    def find(self, server: str, principal: str) -> Login:
        """The login. Raises NOT_FOUND for a server without a URL."""


class PendingLogin(msgspec.Struct, eq=False):
    """A login that a person has begun in a browser."""

    server: str
    principal: str
    login: Login
    pending: OpenLogin
    by: Principal
    until: float
    done: asyncio.Future[None]
    came_back: bool = False
    """Whether a browser came back with a code, which counts once."""

    @property
    def ended(self) -> bool:
        return self.done.done()

    async def complete(self, callback: str) -> None:
        """Exchange the code for tokens, and tell everyone who waits how that ended."""
        failure = Fault("LOGIN_REQUIRED", "the login was given up before it was complete", hint="begin again")
        try:
            await self.login.finish(self.pending, callback)
        except Fault as fault:
            failure = fault
            raise
        else:
            self.done.set_result(None)
        finally:
            if not self.ended:
                self.done.set_exception(failure)
                self.done.exception()  # retrieved, in case nobody waits


class PendingDeviceLogin(msgspec.Struct, eq=False):
    """A login with a code that a person types elsewhere."""

    login: Login
    pending: PendingDevice
    until: float
    lock: asyncio.Lock
    """Held while the authorization server is asked: a code is good once."""
    ended: bool = False


class PendingLogins:
    """The logins of one hub that wait for a person."""

    def __init__(self, directory: LoginDirectory) -> None:
        self._directory = directory
        self._browsers: WaitingForPerson[PendingLogin] = WaitingForPerson()
        self._devices: WaitingForPerson[PendingDeviceLogin] = WaitingForPerson()

    async def begin(self, server: str, principal: str, redirect_uri: str, by: Principal) -> PendingLogin:
        """Begin a login in a browser. Raises a `Fault`."""
        login = self._directory.find(server, principal)
        pending = await login.begin(login.wanted or BearerChallenge(), redirect_uri)
        done = asyncio.get_running_loop().create_future()
        begun = PendingLogin(server, principal, login, pending, by, time.monotonic() + VALID_S, done)
        self._browsers.add(pending.request.state, begun)
        return begun

    async def finish(self, callback: str) -> PendingLogin:
        """Take the address that a browser was sent back to. Raises LOGIN_REQUIRED for one of no login under way."""
        begun = self._browsers.get(parse_qs(urlsplit(callback).query).get("state", [""])[0])
        if begun is None or begun.came_back:
            raise Fault("LOGIN_REQUIRED", "this page belongs to no login that is under way", hint="begin again")
        begun.came_back = True
        await begun.complete(callback)
        return begun

    async def wait(self, state: str, within_s: float) -> bool:
        """Wait for a login that was begun. False if the person is not done yet. Raises why it failed."""
        begun = self._browsers.get(state)
        if begun is None:
            raise Fault("NOT_FOUND", "no such login is under way")
        await asyncio.wait([begun.done], timeout=within_s)
        if not begun.ended:
            return False
        begun.done.result()
        return True

    async def begin_device(self, server: str, principal: str) -> tuple[str, PendingDevice]:
        """Begin a login with a code that a person types elsewhere. Returns the id to poll with."""
        login = self._directory.find(server, principal)
        pending = await login.begin_device(login.wanted or BearerChallenge())
        id_ = secrets.token_urlsafe(24)
        until = time.monotonic() + min(pending.code.valid_s, VALID_S)
        self._devices.add(id_, PendingDeviceLogin(login, pending, until, asyncio.Lock()))
        return id_, pending

    async def poll_device(self, id: str) -> float | None:
        """Whether the person is done: None if so, else the seconds until the next question."""
        begun = self._devices.get(id)
        if begun is None:
            raise Fault("LOGIN_REQUIRED", "the code has expired", hint="begin again")
        async with begun.lock:
            wait_s = None if begun.ended else await begun.login.poll_device(begun.pending)
            begun.ended = wait_s is None
            return wait_s
