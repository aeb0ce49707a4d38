"""How a connection of the HTTP listener becomes one of another protocol, such as a WebSocket.

Everything that can be refused is refused before the upgrade, as HTTP. After it the HTTP connection is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from interlock.transports.http.guard import Headers


class UpgradeRequest(msgspec.Struct, frozen=True):
    """The head of a request that asks for another protocol. The guard has passed it."""

    method: bytes
    target: bytes
    headers: Headers
    version: str


class UpgradedConnection(Protocol):
    """A connection after its upgrade, as its listener sees it."""

    transport: asyncio.Transport

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        """Answer the upgrade, and read from now on. `rest` came behind the head; `forget` is called at the end."""

    def sweep(self, now: float) -> None:
        """Close it where it keeps us waiting for too long."""

    def shutdown(self) -> None:
        """Close it: the server stops."""


class Upgrader(Protocol):
    """Takes over the connections of one path."""

    path: str

    def admit(self, request: UpgradeRequest) -> UpgradedConnection:
        """Judge a request. Raises Fault, or AuthenticationPending where that cannot be said yet."""
