"""The permissions that a server needs, and what each client has decided about them (MGP, Permission Declarations).

The client decides. A denied permission means that the server degrades gracefully; it never stops the server by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from interlock.protocols.mgp.permissions import (
    REQUEST,
    RESPONSE,
    Grant,
    PermissionOutcome,
    PermissionRequestParams,
    expand,
)
from interlock.server.requests.framing import Framing
from interlock.server.requests.params import read
from interlock.server.requests.session import Exchange
from interlock.signatures import DefinitionError
from interlock.wire.errors import Fault

P = TypeVar("P")

MAX_CLIENTS: Final = 256
"""Clients whose decisions are kept. The oldest go first."""


class ServerPermissions:
    """The permissions of one server."""

    def __init__(self, needed: Sequence[str], framing: Framing) -> None:
        try:
            expand(needed)
        except Fault as fault:
            raise DefinitionError(f"permissions: {fault.message}") from None
        self.needed = tuple(needed)
        self._framing = framing
        self._grants: dict[str, dict[str, Grant]] = {}

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method, under all its names."""
        return {**dict.fromkeys(REQUEST, self._await), **dict.fromkeys(RESPONSE, self._decided)}

    def grant(self, principal_name: str, permission: str) -> Grant | None:
        """A client's decision about a permission; None without one."""
        return self._grants.get(principal_name, {}).get(permission)

    def _await(self, exchange: Exchange) -> None:
        """A person decides at the client: until then the permissions are deferred."""
        params = read(exchange, PermissionRequestParams)
        self._keep(exchange.caller.principal_name, dict.fromkeys(params.permissions, "deferred"))
        self._framing.answer(exchange, b'"request_id":%b,"status":"waiting"' % msgspec.json.encode(params.request_id))

    def _decided(self, exchange: Exchange) -> None:
        outcome = read(exchange, PermissionOutcome)
        self._keep(exchange.caller.principal_name, outcome.grants)
        self._framing.answer(exchange, b'"request_id":%b' % msgspec.json.encode(outcome.request_id))

    def _keep(self, principal_name: str, grants: dict[str, Grant]) -> None:
        known = self._grants.pop(principal_name, {})
        while len(self._grants) >= MAX_CLIENTS:
            del self._grants[next(iter(self._grants))]
        declared = expand(self.needed)
        self._grants[principal_name] = known | {name: grant for name, grant in grants.items() if name in declared}
