"""Request state on its way through a client's hands: bound to its owner and to what it was given for, and of limited
life. A server's own state goes in and comes out unchanged, for nobody else and for nothing else."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.seal import Seal

LONGEST: Final = 64 * 1024
"""A state that a server hands out may be so large; larger ones would be echoed with every retry."""


LIFE_S: Final = 600.0


class _Sealed(msgspec.Struct, array_like=True):
    owner: str
    purpose: str
    expires: float
    state: str


class RequestStates:
    """Closes and opens, with one secret for the life of the process."""

    def __init__(self, secret: bytes) -> None:
        self._seal = Seal(b"hub request state", secret)
        self.life_s = LIFE_S
        """How long a client may take to bring back what a server asked it for."""

    def close(self, owner: str, purpose: str, state: str, expires: float) -> str:
        """A token for `owner`, good for `purpose` until `expires`."""
        if len(state) > LONGEST:
            raise Fault("UPSTREAM_ERROR", f"the server's request state is over {LONGEST} characters")
        return self._seal.close(msgspec.json.encode(_Sealed(owner, purpose, expires, state)))

    def open(self, token: str, owner: str, purpose: str, now: float) -> str:
        """The state in a token. One error for all that can be wrong: it tells nobody what a good one looks like."""
        body = self._seal.open(token) if len(token) <= 4 * LONGEST else None
        if body is None:
            raise _refused()
        sealed = msgspec.json.decode(body, type=_Sealed)
        if sealed.owner != owner or sealed.purpose != purpose or now >= sealed.expires:
            raise _refused()
        return sealed.state


def _refused() -> Fault:
    return Fault(
        "REQUEST_STATE_REFUSED",
        "the request state is not one that was given to this caller for this call",
        mend="repeat the call from the start, without requestState",
    )
