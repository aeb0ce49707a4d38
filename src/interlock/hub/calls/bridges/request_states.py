"""Seals the request states of servers for clients: each is bound to its principal and its call, and expires.

The server gets its own state back unchanged.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.seal import Seal

MAX_STATE_BYTES: Final = 64 * 1024
"""Upper bound for a server's state, which comes with every retry."""


LIFE_S: Final = 600.0
MAX_APPROVED: Final = 4096
"""Upper bound for open rounds of approved calls. Beyond it the oldest must be approved again."""


class _Sealed(msgspec.Struct, array_like=True):
    principal_name: str
    purpose: str
    expires: float
    state: str | None
    approved: str = ""
    """Names the approval that the call had when the state was given."""


class RequestStates:
    """Seals and opens states with one secret for the life of the process."""

    def __init__(self, secret: bytes) -> None:
        self._seal = Seal(b"hub request state", secret)
        self.life_s = LIFE_S
        """How long a client may take to answer a server's questions."""
        self._approved: dict[str, str] = {}
        """The approvals of a round that is not answered yet."""
        self._ended: dict[str, float] = {}
        """Principals whose calls were ended, each with the time until which their earlier states are refused."""

    def keep_for(self, life_s: float) -> None:
        """Set how long clients may take from now on."""
        self.life_s = life_s

    def close(self, principal_name: str, purpose: str, state: str | None, expires: float, matter: str = "") -> str:
        """A token for a principal, valid for `purpose` until `expires`. With the `matter` that a person has approved,
        it also carries the approval on, once."""
        if state is not None and len(state) > MAX_STATE_BYTES:
            raise Fault("UPSTREAM_ERROR", f"the server's request state is over {MAX_STATE_BYTES} characters")
        approved = self._keep(matter) if matter else ""
        return self._seal.close(msgspec.json.encode(_Sealed(principal_name, purpose, expires, state, approved)))

    def open(self, token: str, principal_name: str, purpose: str, now: float) -> str | None:
        """The state in a token; None where the server gave none. Raises the same error for every invalid token, so that
        it does not tell what is wrong."""
        return self._read(token, principal_name, purpose, now).state

    def approved(self, token: str, principal_name: str, purpose: str, now: float) -> str:
        """The approval that this token carries on. Reading uses it up; empty if none is left."""
        try:
            return self._approved.pop(self._read(token, principal_name, purpose, now).approved, "")
        except Fault:
            return ""

    def end(self, principal_name: str, now: float) -> None:
        """Refuse from now on every state that a principal was given so far."""
        self._ended = {each: until for each, until in self._ended.items() if until > now}
        self._ended[principal_name] = now + self.life_s

    def _read(self, token: str, principal_name: str, purpose: str, now: float) -> _Sealed:
        body = self._seal.open(token) if len(token) <= 4 * MAX_STATE_BYTES else None
        if body is None:
            raise _refused()
        sealed = msgspec.json.decode(body, type=_Sealed)
        earliest = max(now, self._ended.get(principal_name, now))
        if sealed.principal_name != principal_name or sealed.purpose != purpose or sealed.expires <= earliest:
            raise _refused()
        return sealed

    def _keep(self, matter: str) -> str:
        while len(self._approved) >= MAX_APPROVED:
            del self._approved[next(iter(self._approved))]
        name = secrets.token_urlsafe(12)
        self._approved[name] = matter
        return name


def _refused() -> Fault:
    return Fault(
        "REQUEST_STATE_REFUSED",
        "the request state is not one that was given to this caller for this call",
        hint="repeat the call from the start, without requestState",
    )
