"""Logins to servers in the store: sealed with the hub's key, bound to server and principal, one row each.

Issuer and resource are inside the sealed text, so a row that is moved or altered opens for nobody. A row is leased
while its tokens are renewed: of several hubs on one store one asks the authorization server, and the others read what
it stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec

from interlock.client.oauth.storage import StoredLogin
from interlock.hub.store_faults import as_faults, fault_of
from interlock.store import Collection, Conflict, Document, Store, StoreBusy, StoreError, StoreUnavailable
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault

LEASE_S: Final = 60.0
"""Longer than an authorization server may take to answer. After that, a lease of a hub that died is void."""
LEASE_WAIT_S: Final = 30.0
LEASE_POLL_S: Final = 0.05
SAVE_WAIT_S: Final = 10.0
"""How long to retry while the store does not answer, when tokens are stored."""


class SealedLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    """One login, as it is stored."""

    id: str
    server: str
    principal: str
    """Empty for the login that all callers share."""
    sealed: str = ""
    issuer: str = ""
    """Shown to operators; the one that counts is sealed."""
    logged_in: bool = False
    """Whether the sealed text has tokens, and not only the client that the issuer registered."""
    leased_by: str = ""
    leased_until: float = 0.0


LOGINS: Final = Collection("logins", SealedLogin, key="id", columns=("server",))


class StoreHolder(Protocol):
    """Has the store, once it is open."""

    @property
    def store(self) -> Store:
        """The open store."""


class LoginRecord:
    """The stored login of one principal to one server (`client.oauth.storage.LoginStore`)."""

    def __init__(self, holder: StoreHolder, encryption: Encryption, server: str, principal: str) -> None:
        self._holder = holder
        self._encryption = encryption
        self._server = server
        self._principal = principal
        self._id = hashlib.sha256(f"{server}\0{principal}".encode()).hexdigest()
        self._mine = secrets.token_hex(8)
        self._local = asyncio.Lock()
        self._leased = False

    async def load(self) -> StoredLogin | None:
        """The login as it is stored now; None if there is none, or if it does not open: then a person logs in again."""
        found = await self._row()
        if found is None or not found.value.sealed:
            return None
        text = self._encryption.open(found.value.sealed, self._bound_to)
        return None if text is None else msgspec.json.decode(text, type=StoredLogin)

    async def save(self, login: StoredLogin | None) -> None:
        """Store the login durably, and give the lease back with it. Raises TIMEOUT if another hub has the lease now.

        The previous refresh token is spent by then, so a store that does not answer for a moment is tried again, for a
        time and not for a number of conflicts as `repeated_commits` does.
        """
        deadline = time.monotonic() + SAVE_WAIT_S
        if not self._leased:
            await self._lease()  # the second save of one lock
        while True:
            try:
                await self._put(login)
                return
            except StoreError as cause:
                passing = isinstance(cause, StoreBusy | StoreUnavailable | Conflict)
                if not passing or time.monotonic() > deadline:
                    raise fault_of(cause) from None
            await asyncio.sleep(LEASE_POLL_S)

    async def _put(self, login: StoredLogin | None) -> None:
        async with self._holder.store.transaction() as change:
            found = await change.get(LOGINS, self._id)
            if login is None:
                change.delete(LOGINS, self._id)  # a logout counts in any case
            elif found is None or found.value.leased_by != self._mine:
                self._leased = False
                message = f"another hub renewed or ended the login to {self._server} meanwhile"
                raise Fault("TIMEOUT", message, hint="try again")
            else:
                sealed = self._encryption.seal(msgspec.json.encode(login).decode(), self._bound_to)
                logged_in = login.tokens is not None
                row = SealedLogin(self._id, self._server, self._principal, sealed, login.issuer, logged_in)
                change.put(LOGINS, row)
        self._leased = False

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Held by one task of one hub at a time."""
        async with self._local:
            await self._lease()
            try:
                yield
            finally:
                if self._leased:
                    await self._release()

    async def _lease(self) -> None:
        """Take the lease. It waits for the end of another hub's lease, which no commit of its own could bring on."""
        deadline = time.monotonic() + LEASE_WAIT_S
        while True:
            found = await self._row()
            row = SealedLogin(self._id, self._server, self._principal) if found is None else found.value
            if not row.leased_by or row.leased_until < time.time() or row.leased_by == self._mine:
                try:
                    async with self._holder.store.transaction() as change:
                        change.expect(LOGINS, self._id, 0 if found is None else found.version)
                        until = time.time() + LEASE_S
                        change.put(LOGINS, msgspec.structs.replace(row, leased_by=self._mine, leased_until=until))
                    self._leased = True
                    return
                except Conflict:
                    pass
                except StoreError as cause:
                    raise fault_of(cause) from None
            if time.monotonic() > deadline:
                raise Fault("TIMEOUT", f"another hub has been renewing the login to {self._server} for too long")
            await asyncio.sleep(LEASE_POLL_S)

    async def _release(self) -> None:
        self._leased = False
        try:
            async with self._holder.store.transaction() as change:
                found = await change.get(LOGINS, self._id)
                if found is None or found.value.leased_by != self._mine:
                    return
                if found.value.sealed:
                    change.put(LOGINS, msgspec.structs.replace(found.value, leased_by="", leased_until=0.0))
                else:
                    change.delete(LOGINS, self._id)
        except StoreError:
            return  # Another hub took the lease over, or the lease ends by itself.

    async def _row(self) -> Document[SealedLogin] | None:
        with as_faults():
            return await self._holder.store.get(LOGINS, self._id)

    @property
    def _bound_to(self) -> str:
        return bound_to(self._server, self._principal)


def bound_to(server: str, principal: str) -> str:
    """The row that a sealed login belongs to."""
    return f"login\0{server}\0{principal}"
