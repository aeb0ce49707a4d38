"""People's stored decisions about permissions of servers, and the status of a permission.

An approval holds for the server's current command or address only. A denial holds for the server's name.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final, Literal

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.auth.principals import Kind
from interlock.protocols.mgp.permissions import Grant
from interlock.store import Collection


class PermissionEntry(msgspec.Struct, frozen=True):
    """A person's decision about one permission of one server. A later one replaces it."""

    id: str
    server: str
    permission: str
    grant: Literal["approved", "denied"]
    by: str
    at: datetime
    where: str
    """The command or address it holds for, as `place_of` returns it."""
    expires_at: datetime | None = None
    revoked: bool = False
    """Whether this denial revoked an approval."""
    reason: str = ""
    by_kind: Kind = "person"

    def holds(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


ENTRIES: Final = Collection("permissions", PermissionEntry, key="id", columns=("server",))


class PermissionStatus(msgspec.Struct, frozen=True):
    """The status of a permission, and the rule it follows from."""

    permission: str
    grant: Grant
    rule: str
    by: str = ""
    by_kind: Kind | None = None
    """The kind of principal that decided; None for a policy or the configuration."""
    expires_at: datetime | None = None
    decision: str = ""
    """The id of the open approval request, if there is one."""
    known: bool = True
    """False for an unknown permission: it can never be granted."""


def entry_id(server: str, permission: str) -> str:
    """The id of the entry for one permission of a server."""
    return hashlib.sha256(msgspec.json.encode((server, permission))).hexdigest()[:32]


def place_of(settings: ServerSettings | None) -> str:
    """A digest of a server's command or address."""
    target = () if settings is None else (settings.command, settings.cwd, settings.url)
    return hashlib.sha256(msgspec.json.encode(target)).hexdigest()[:32]
