"""The principals that were seen lately, the latest first. Clients of the stateless era have no sessions to show.

Calls write nothing here: a call leaves its dialect at its caller, and `collect` looks at the callers now and then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.sessions.client_claims import ClientClaim, claim_of
from interlock.protocols.mcp.dialect import Dialect

MAX_SEEN: Final = 1_000
"""Beyond that number the principal that was seen longest ago is forgotten."""
MAX_INFO_BYTES: Final = 4096
"""A longer introduction of a client is not kept."""


class SeenCaller(Protocol):
    """A caller that notes the dialect of its last request."""

    last_dialect: Dialect | None

    @property
    def principal_name(self) -> str: ...

    @property
    def principal(self) -> Principal: ...


class SeenPrincipal(msgspec.Struct):
    """A principal, with the client it last used."""

    principal: Principal
    client: ClientClaim
    revision: str
    first_seen: datetime
    last_seen: datetime
    client_info: bytes = b""
    """The client's introduction, if it is short."""


class SeenPrincipals:
    """The principals of one hub, by name."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, SeenPrincipal] = OrderedDict()

    def collect(self, callers: Iterable[SeenCaller]) -> None:
        """Note which callers made requests since the last time."""
        now = datetime.now(UTC)
        for caller in callers:
            dialect, caller.last_dialect = caller.last_dialect, None
            if dialect is not None:
                self._note(caller, dialect, now)
        while len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)

    def latest(self) -> list[tuple[str, SeenPrincipal]]:
        """Every known principal with its name, the latest first."""
        return list(reversed(self._seen.items()))

    def get(self, principal_name: str) -> SeenPrincipal | None:
        """The principal of this name."""
        return self._seen.get(principal_name)

    def _note(self, caller: SeenCaller, dialect: Dialect, now: datetime) -> None:
        known = self._seen.get(caller.principal_name)
        first = now if known is None else known.first_seen
        revision, info = dialect.revision.name, dialect.client_info or b""
        kept = info if len(info) <= MAX_INFO_BYTES else b""
        self._seen[caller.principal_name] = SeenPrincipal(
            caller.principal, claim_of(dialect), revision, first, now, kept
        )
        self._seen.move_to_end(caller.principal_name)
