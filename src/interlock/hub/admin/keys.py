"""Keys, made, listed, revoked and rotated by whoever may."""

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
    """Answers for keys."""

    def __init__(self, config: Callable[[], Config], keys: Keys, access: Access, journal: Journal) -> None:
        self._config = config
        self._keys = keys
        self._access = access
        self._journal = journal

    async def list(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Every key, as far as it may be shown."""
        self._access.demand(asking, "read keys")
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

    async def create(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """A new key. This answer is the only place where it is ever shown."""
        self._access.demand(asking, "make keys", write=True)
        asked = read(params, CreateKey)
        if asked.profile is not None and asked.profile not in self._config().profiles:
            raise Fault("INVALID_PARAMS", f"no profile {asked.profile!r}", hint="name one of [profiles.…]")
        if asked.expires_at is not None and asked.expires_at <= datetime.now(UTC):
            raise Fault("INVALID_PARAMS", "expires_at is over already", hint="name an instant to come")
        permissions = None if asked.permissions is None else check_permissions(asked.permissions)
        self._not_beyond(asking, asked.kind, permissions, asked.profile)
        text = await self._keys.create(
            asked.agent,
            asked.kind,
            profile=asked.profile,
            expires_at=asked.expires_at,
            permissions=permissions,
            rate=asked.rate,
            record=lambda key: self._journal.key_created(asking, key, trace),
        )
        return {"key": text, "principal": {"id": asked.agent, "kind": asked.kind}}

    async def revoke(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Every key of a principal ends at once."""
        self._access.demand(asking, "revoke keys", write=True)
        name = read(params, KeysOf).agent
        gone = await self._keys.revoke(name, lambda keys: self._journal.keys_revoked(asking, name, keys, trace))
        if not gone:
            raise without_key(name)
        return {"revoked": gone}

    async def rotate(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """One new key in place of all those of a principal, permitting what the newest of them did."""
        self._access.demand(asking, "rotate keys", write=True)
        name = read(params, KeysOf).agent
        gone = [key for key in self._keys.list() if key.principal == name]
        if gone:
            newest = max(gone, key=lambda key: key.created)
            self._not_beyond(asking, newest.kind, newest.permissions, newest.profile)
        text = await self._keys.rotate(name, lambda fresh, old: self._journal.key_rotated(asking, fresh, old, trace))
        return {"key": text}

    def _not_beyond(
        self, asking: Principal, kind: Kind, permissions: tuple[str, ...] | None, profile: str | None
    ) -> None:
        """Nobody hands out what they do not have: whoever answers questions is a person, and only a person makes one.

        The person at the terminal of the hub's own user is above keys, and makes any.
        """
        if not asking.key:
            return
        if kind == "person" and asking.kind != "person":
            said = "only a person makes a person's key: whoever holds one can approve calls"
            raise Fault("PERMISSION_DENIED", said, hint="`interlock keys create NAME --kind person` at a terminal")
        if asking.profile is not None and profile != asking.profile:
            said = f"{asking.id} sees the hub through the profile {asking.profile!r} alone, and hands out no other"
            raise Fault("PERMISSION_DENIED", said, hint=f"name the profile {asking.profile!r}")
        wanted, own = rights_of(kind, permissions), self._access.rights(asking)
        beyond = (
            sorted(wanted.permissions) if own is None else [one for one in wanted.permissions if not own.covers(one)]
        )
        if beyond:
            hint = f"leave out {beyond[0]}, or have it done by someone whose key permits it"
            raise Fault("PERMISSION_DENIED", f"{asking.id} cannot hand out more than its own key permits", hint=hint)


class CreateKey(msgspec.Struct):
    """A key to be made."""

    agent: Name
    kind: Kind = "agent"
    profile: str | None = None
    expires_at: Instant | None = None
    permissions: list[str] | None = None
    rate: Rate = Rate()


class KeysOf(msgspec.Struct):
    """The keys of a principal."""

    agent: Name
