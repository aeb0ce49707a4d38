"""Operations on keys: create, list, revoke, rotate."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from interlock.config.settings import Rate
from interlock.hub.admin.operation import Nothing
from interlock.hub.app import HubApp
from interlock.hub.auth.access_methods import Instant, Name, RevokedCount
from interlock.hub.auth.keys import MAX_NAME, without_key
from interlock.hub.auth.principals import Kind, Principal
from interlock.hub.auth.rights import check_permissions, rights_of
from interlock.protocols.patterns import compile_pattern
from interlock.wire.errors import Fault

MAX_NAMED: Final = 20
"""Profiles that a refusal names."""


class KeyOperations:
    """The operations on one hub's keys."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._keys = hub_app.keys
        self._journal = hub_app.journal

    async def list(self, by: Principal, params: Nothing, trace: str) -> KeyRows:
        """Every key, without its text."""
        return KeyRows(
            [
                KeyRow(
                    key.shown,
                    key.principal,
                    key.kind,
                    key.profile,
                    key.created,
                    key.expires_at,
                    self._keys.last_used(key.hash),
                    key.permissions,
                    key.rate,
                )
                for key in self._keys.readable()
            ]
        )

    async def create(self, by: Principal, params: CreateKey, trace: str) -> MadeKey:
        """A new key. Only this answer ever shows its text."""
        self._check_profile(params.profile)
        if params.expires_at is not None and params.expires_at <= datetime.now(UTC):
            raise Fault("INVALID_PARAMS", "expires_at is in the past", hint="give a future time")
        permissions = None if params.permissions is None else check_permissions(params.permissions)
        self._check_own_rights(by, params.kind, permissions, params.profile)
        text = await self._keys.create(
            params.agent,
            params.kind,
            profile=params.profile,
            expires_at=params.expires_at,
            permissions=permissions,
            rate=params.rate,
            record=lambda key: self._journal.key_created(by, key, trace),
        )
        return MadeKey(text, Holder(params.agent, params.kind), self._idle(permissions or ()))

    async def revoke(self, by: Principal, params: KeysOf, trace: str) -> RevokedCount:
        """Revoke every key of a principal."""
        name = params.agent
        revoked = await self._keys.revoke(name, lambda keys: self._journal.keys_revoked(by, name, keys, trace))
        if not revoked:
            raise without_key(name)
        return RevokedCount(revoked)

    async def rotate(self, by: Principal, params: RotateKey, trace: str) -> RotatedKey:
        """Replace all keys of a principal by one with the rights of the newest, or with another profile."""
        self._check_profile(params.profile)
        old = [key for key in self._keys.list() if key.principal == params.agent]
        if old:
            newest = max(old, key=lambda key: key.created)
            self._check_own_rights(by, newest.kind, newest.permissions, params.profile or newest.profile)
        return RotatedKey(
            await self._keys.rotate(
                params.agent, lambda new, old: self._journal.key_rotated(by, new, old, trace), profile=params.profile
            )
        )

    def _check_profile(self, profile: str | None) -> None:
        """Raises INVALID_PARAMS for a profile that is not configured."""
        profiles = self._hub_app.config.profiles
        if profile is None or profile in profiles:
            return
        named = ", ".join(sorted(profiles)[:MAX_NAMED])
        hint = f"profiles: {named}" if named else "no profile is configured; write [profiles.NAME] in interlock.toml"
        raise Fault("INVALID_PARAMS", f"there is no profile `{profile[:MAX_NAME]}`", hint=hint)

    def _idle(self, permissions: Iterable[str]) -> tuple[str, ...]:
        """The permissions that match no tool which the hub knows now."""
        offers = self._hub_app.catalog.offers().values()
        names = [tool.exposed for offer in offers for tool in (*offer.tools.values(), *offer.lacking.values())]
        patterns = ((each, compile_pattern(each.partition(":")[2])) for each in permissions if ":" in each)
        return tuple(each for each, pattern in patterns if not any(map(pattern.matches, names)))

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
        wanted, own = rights_of(kind, permissions), self._hub_app.access.rights(principal)
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


class RotateKey(msgspec.Struct):
    """The principal that gets a new key."""

    agent: Name
    profile: str | None = None
    """None: the profile of the newest key."""


class KeyRow(msgspec.Struct):
    """A key, without its text."""

    prefix: str
    principal: str
    kind: Kind
    profile: str | None
    created: Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    expires_at: datetime | None
    last_used: datetime | None
    permissions: tuple[str, ...] | None
    """None for those of its kind."""
    rate: Rate


class KeyRows(msgspec.Struct):
    """All keys."""

    keys: list[KeyRow]


class Holder(msgspec.Struct):
    """The principal of a key."""

    id: str
    kind: Kind


class MadeKey(msgspec.Struct):
    """A new key. It is never shown again."""

    key: str
    principal: Holder
    matches_nothing: tuple[str, ...] = ()
    """Permissions that match no tool which the hub knows now: perhaps a typing error."""


class RotatedKey(msgspec.Struct):
    """The key that replaces all old ones. It is never shown again."""

    key: str
