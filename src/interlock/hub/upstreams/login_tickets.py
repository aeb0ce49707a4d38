"""Links that start a login of one principal: a person on this machine opens it, once and within ten minutes.

The page opens on this machine only, so that no agent can have another person log in for it (MCP, Elicitation).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.waiting_for_person import VALID_S, WaitingForPerson

START: Final = "/oauth/start/"


class LoginTicket(msgspec.Struct, frozen=True):
    """The right to begin one login."""

    server: str
    principal: str
    by: Principal
    """The caller that needs it."""
    until: float
    ended: bool = False
    """Never: a ticket is good until it is redeemed or too old."""


class LoginTickets:
    """The tickets of one hub. `address` gives the hub's own for browsers on this machine; empty for none."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self._tickets: WaitingForPerson[LoginTicket] = WaitingForPerson()

    def page(self, server: str, principal: str, by: Principal) -> str | None:
        """The address of a page that starts a login once; None where browsers on this machine cannot reach the hub."""
        address = self._address()
        return f"{address}{self.issue(server, principal, by)}" if address else None

    def issue(self, server: str, principal: str, by: Principal) -> str:
        """A path that starts a login once. Raises RESOURCE_EXHAUSTED."""
        name = secrets.token_urlsafe(32)
        self._tickets.add(name, LoginTicket(server, principal, by, time.monotonic() + VALID_S))
        return START + name

    def peek(self, name: str) -> LoginTicket | None:
        """The login that a ticket would start."""
        return self._tickets.get(name)

    def redeem(self, name: str) -> LoginTicket | None:
        """The login that a ticket starts; None for a ticket that was used or has expired."""
        return self._tickets.pop(name)
