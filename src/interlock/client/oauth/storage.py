"""Where a login is kept: its tokens, and the client that the authorization server registered.

A login is bound to one server, one principal, one issuer and one resource. The new refresh token is stored before the
access token that came with it is used.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from interlock.protocols.oauth.clients import RegisteredClient
from interlock.protocols.oauth.tokens import Tokens


class StoredLogin(msgspec.Struct, frozen=True):
    """A registration at an authorization server, with the tokens of a login if there is one."""

    issuer: str
    resource: str
    token_endpoint: str
    client: RegisteredClient
    tokens: Tokens | None = None
    """None: the client is registered, and nobody is logged in."""
    revocation_endpoint: str | None = None

    def __repr__(self) -> str:
        return f"StoredLogin({self.issuer!r}, {self.resource!r})"


class LoginStore(Protocol):
    """Keeps the login of one server, for all processes that use it."""

    async def load(self) -> StoredLogin | None:
        """The login as it is stored now, perhaps by another process."""

    async def save(self, login: StoredLogin | None) -> None:
        """Store it durably; None deletes it."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """Held while tokens are renewed: by one process at a time."""


class MemoryLoginStore:
    """Keeps a login while the process runs."""

    def __init__(self) -> None:
        self._login: StoredLogin | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> StoredLogin | None:
        return self._login

    async def save(self, login: StoredLogin | None) -> None:
        self._login = login

    def lock(self) -> AbstractAsyncContextManager[object]:
        return self._lock
