"""The parts of a login that wait for a person: in a browser, or at another device with a code."""

from __future__ import annotations

from typing import Protocol

import msgspec

from interlock.client.oauth.discovery import DiscoveredIssuer
from interlock.protocols.oauth.authorization import AuthorizationRequest
from interlock.protocols.oauth.clients import RegisteredClient
from interlock.protocols.oauth.tokens import DeviceCode


class OpenLogin(msgspec.Struct, frozen=True):
    """A login that waits for a person in a browser."""

    request: AuthorizationRequest
    found: DiscoveredIssuer
    client: RegisteredClient


class PendingDevice(msgspec.Struct, frozen=True):
    """A login that waits for a person at another device."""

    code: DeviceCode
    found: DiscoveredIssuer
    client: RegisteredClient
    scopes: tuple[str, ...]


class Browser(Protocol):
    """Has a person open an address, and receives the redirect back."""

    @property
    def redirect_uri(self) -> str:
        """The address that people are sent back to."""

    async def visit(self, request: AuthorizationRequest) -> str:
        """The whole address that the person was sent back to. Raises a `Fault`."""
