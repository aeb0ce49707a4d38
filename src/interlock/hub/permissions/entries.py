"""What people decided about permissions of servers, as it is stored, and how each one stands.

An approval is given to a server as it is reached now: under another command or address it holds for nothing. A denial
holds wherever the server's name points to.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final, Literal

import msgspec

from interlock.config.settings import Server
from interlock.hub.auth.principals import Kind
from interlock.protocols.mgp.permissions import Grant
from interlock.store import Collection


class Entry(msgspec.Struct, frozen=True):
    """A person's word on one permission of one server. A later one takes its place."""

    id: str
    server: str
    permission: str
    grant: Literal["approved", "denied"]
    by: str
    at: datetime
    where: str
    """The server it was said of, as `place_of` names it."""
    expires_at: datetime | None = None
    revoked: bool = False
    """A denial that took back what had been approved."""
    reason: str = ""
    by_kind: Kind = "person"

    def holds(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


ENTRIES: Final = Collection("permissions", Entry, key="id", columns=("server",))


class PermissionStatus(msgspec.Struct, frozen=True):
    """How a permission stands, and by what."""

    permission: str
    grant: Grant
    rule: str
    by: str = ""
    by_kind: Kind | None = None
    """What kind of principal decided; None where a policy or the configuration did."""
    expires_at: datetime | None = None
    decision: str = ""
    """The open question, where it waits for an answer."""
    known: bool = True
    """False for a name that is no permission: it can never be granted."""


def entry_id(server: str, permission: str) -> str:
    """One entry for each permission of a server."""
    return hashlib.sha256(msgspec.json.encode((server, permission))).hexdigest()[:32]


def place_of(settings: Server | None) -> str:
    """The command or address behind a server's name, as a digest."""
    said = () if settings is None else (settings.command, settings.cwd, settings.url)
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:32]
