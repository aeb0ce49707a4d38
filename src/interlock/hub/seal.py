"""Sealed state: what a server wants back later, handed to a client in a form that only that client can use, and once
changed is worthless. Authenticated, bound to its owner and to what it was given for, and of limited life.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

import msgspec

from interlock.wire.errors import Fault

LONGEST: Final = 64 * 1024
"""A state that a server hands out may be so large; larger ones would be echoed with every retry."""


class _Sealed(msgspec.Struct, array_like=True):
    owner: str
    purpose: str
    expires: float
    state: str


class Seal:
    """Seals and opens, with one secret for the life of the process."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 32:
            raise ValueError("a seal needs a secret of 32 bytes")
        self._secret = secret

    def close(self, owner: str, purpose: str, state: str, expires: float) -> str:
        """A token for `owner`, good for `purpose` until `expires`."""
        if len(state) > LONGEST:
            raise Fault("UPSTREAM_ERROR", f"the server's request state is over {LONGEST} characters")
        body = msgspec.json.encode(_Sealed(owner, purpose, expires, state))
        return base64.urlsafe_b64encode(self._mark(body) + body).decode()

    def open(self, token: str, owner: str, purpose: str, now: float) -> str:
        """The state in a token. One error for all that can be wrong: it tells nobody what a good one looks like."""
        try:
            if len(token) > 4 * LONGEST:
                raise ValueError
            raw = base64.urlsafe_b64decode(token.encode("ascii"))
            mark, body = raw[:32], raw[32:]
            if not hmac.compare_digest(mark, self._mark(body)):
                raise ValueError
            sealed = msgspec.json.decode(body, type=_Sealed)
        except (ValueError, binascii.Error, msgspec.DecodeError):
            raise _refused() from None
        if sealed.owner != owner or sealed.purpose != purpose or now >= sealed.expires:
            raise _refused()
        return sealed.state

    def _mark(self, body: bytes) -> bytes:
        return hmac.new(self._secret, body, hashlib.sha256).digest()


def _refused() -> Fault:
    return Fault(
        "REQUEST_STATE_REFUSED",
        "the request state is not one that was given to this caller for this call",
        mend="repeat the call from the start, without requestState",
    )
