"""Operations on keys: create, list, revoke, rotate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from interlock.config.settings import Config, Rate
from interlock.hub.auth.access import Access
from interlock.hub.auth.keys import Keys, without_key
from interlock.hub.auth.principals import Kind, Principal
from interlock.hub.auth.rights import check_permissions, rights_of
from interlock.hub.journal import Journal
from interlock.hub.permissions.access_methods import Instant, Name, read
from interlock.wire.errors import Fault


class KeyOperations:
    """The operations on one hub's keys."""

    def __init__(self, config: Callable[[], Config], keys: Keys, access: Access, journal: Journal) -> None:
        self._config = config
        self._keys = keys
        self._access = access
        self._journal = journal

    async def list(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Every key, without its text."""
        self._access.demand(principal, "read keys")
        return {
            "keys": [
                {
                    "prefix": key.shown,
                    "principal": key.principal,
                    "kind": key.kind,
                    "profile": key.profile,
                    "created": key.created,
                    "expires_at": key.expires_at,
                    "last_used": self._keys.last_used(key.hash),
                    "permissions": key.permissions,
                    "rate": key.rate,
                }
                for key in self._keys.list()
            ]
        }

    async def create(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """A new key. Only this answer ever shows its text."""
        self._access.demand(principal, "create keys", write=True)
        request = read(params, CreateKey)
        if request.profile is not None and request.profile not in self._config().profiles:
            raise Fault("INVALID_PARAMS", f"no profile {request.profile!r}", hint="name one of [profiles.…]")
        if request.expires_at is not None and request.expires_at <= datetime.now(UTC):
            raise Fault("INVALID_PARAMS", "expires_at is in the past", hint="give a future time")
        permissions = None if request.permissions is None else check_permissions(request.permissions)
        self._check_own_rights(principal, request.kind, permissions, request.profile)
        text = await self._keys.create(
            request.agent,
            request.kind,
            profile=request.profile,
            expires_at=request.expires_at,
            permissions=permissions,
            rate=request.rate,
            record=lambda key: self._journal.key_created(principal, key, trace),
        )
        return {"key": text, "principal": {"id": request.agent, "kind": request.kind}}

    async def revoke(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Revoke every key of a principal."""
        self._access.demand(principal, "revoke keys", write=True)
        name = read(params, KeysOf).agent
        revoked = await self._keys.revoke(name, lambda keys: self._journal.keys_revoked(principal, name, keys, trace))
        if not revoked:
            raise without_key(name)
        return {"revoked": revoked}

    async def rotate(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Replace all keys of a principal by one with the rights of the newest."""
        self._access.demand(principal, "rotate keys", write=True)
        name = read(params, KeysOf).agent
        old = [key for key in self._keys.list() if key.principal == name]
        if old:
            newest = max(old, key=lambda key: key.created)
            self._check_own_rights(principal, newest.kind, newest.permissions, newest.profile)
        text = await self._keys.rotate(name, lambda new, old: self._journal.key_rotated(principal, new, old, trace))
        return {"key": text}

    def _check_own_rights(
        self, principal: Principal, kind: Kind, permissions: tuple[str, ...] | None, profile: str | None
    ) -> None:
        """A key cannot create one with more rights, and only a person can create a person's key, which can approve.

        The hub's own user at the terminal has no key, and may create any.
        """
        if not principal.key:
            return
        if kind == "person" and principal.kind != "person":
            message = "only a person can create a person's key, since that can approve calls"
            raise Fault("PERMISSION_DENIED", message, hint="`interlock keys create NAME --kind person` at a terminal")
        if principal.profile is not None and profile != principal.profile:
            message = f"{principal.id} may only create keys for its own profile {principal.profile!r}"
            raise Fault("PERMISSION_DENIED", message, hint=f"set the profile to {principal.profile!r}")
        wanted, own = rights_of(kind, permissions), self._access.rights(principal)
        beyond = (
            sorted(wanted.permissions) if own is None else [one for one in wanted.permissions if not own.covers(one)]
        )
        if beyond:
            hint = f"leave out {beyond[0]}, or use a key that has it"
            raise Fault(
                "PERMISSION_DENIED", f"{principal.id} cannot create a key with more rights than its own", hint=hint
            )


class CreateKey(msgspec.Struct):
    """The key to create."""

    agent: Name
    kind: Kind = "agent"
    profile: str | None = None
    expires_at: Instant | None = None
    permissions: list[str] | None = None
    rate: Rate = Rate()


class KeysOf(msgspec.Struct):
    """The keys of a principal."""

    agent: Name
